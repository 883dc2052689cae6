// LiveReport: the live state of a serving process: engines and workers of its backend, clients of
// its MQTT listener, sessions that are being answered, limits of callers.
//
// Lists that belong to a thread (clients to the listener's, sessions to the strand) are made there
// when Ask() is called, and kept as values: Read() waits for nobody. Owned by app::Service. Any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "api/live_state.h"
#include "app/backend.h"
#include "app/callers.h"
#include "base/clock.h"
#include "services/sessions/sessions.h"

namespace tutti::app {

class LiveReport final : public api::LiveSource {
 public:
  struct Clients {
    std::vector<api::LiveClient> clients;
    size_t left_out = 0;
  };
  // Lists at most `max` clients of a server. `done` runs once, on any thread; if the server does
  // not run, perhaps never.
  using ListClients = std::function<void(size_t max, std::function<void(Clients)> done)>;

  // All outlive it.
  LiveReport(Backend& backend, Callers& callers, sessions::Sessions& sessions);
  ~LiveReport() override;

  // Before the first Ask().
  void UseClients(ListClients list) { list_clients_ = std::move(list); }

  // api::LiveSource
  void Ask() override;
  bool TakenSince(TimePoint since) const override;
  api::LiveState Read() const override;

 private:
  struct Lists;

  Backend& backend_;
  Callers& callers_;
  sessions::Sessions& sessions_;
  const std::shared_ptr<Lists> lists_;  // held by lists that are on their way
  ListClients list_clients_;
};

}  // namespace tutti::app
