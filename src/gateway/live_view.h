// LiveView: the snapshots of all engines of a gateway, for operators.
//
// Owned by app::LocalInference. Any thread.
#pragma once

#include "api/live_state.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gateway/gateway.h"

namespace tutti::gateway {

class LiveView final : public api::LiveSource {
 public:
  // Both outlive it.
  LiveView(const Gateway& gateway, const Clock& clock) : gateway_(gateway), clock_(clock) {}

  // api::LiveSource
  void Ask() override;
  bool TakenSince(TimePoint since) const override;
  api::LiveState Read() const override;

 private:
  const Gateway& gateway_;
  const Clock& clock_;
  Mutex mutex_;
  TimePoint next_ask_ GUARDED_BY(mutex_) = {};
};

}  // namespace tutti::gateway
