// RemoteModels: the model side of a frontend: worker processes on this machine (through a socket)
// and on other machines (through a broker).
//
// Made, opened and drained by one thread; any thread may use models().
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "app/backend.h"
#include "app/config/remote_options.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "cluster/channel/channel_port.h"
#include "cluster/grpc/frontend_port.h"
#include "cluster/worker_pool.h"

namespace tutti::app {

class RemoteModels final : public Backend {
 public:
  explicit RemoteModels(Logger* log) : log_(log), pool_(clock_, memory_level_, log) {}

  // Begins to accept workers on this machine. Errors: those of FrontendPort::Open.
  Status Open(const std::string& path);
  // Begins to accept workers through a broker. `folder`: the store's, for FrontId(). Errors: those
  // of ChannelPort::Open.
  Status OpenBroker(const BrokerOptions& options, const std::string& folder);
  cluster::WorkerPool& pool() { return pool_; }
  // nullopt without a broker. Any thread, until Drain().
  std::optional<cluster::ChannelPort::Figures> broker() const;

  // Backend
  api::Inference& models() override { return pool_; }
  const Clock& clock() const override { return clock_; }
  std::atomic<api::LoadLevel>& memory_level() override { return memory_level_; }
  api::ModelControl* control() override { return &pool_; }
  void ListWorkers(api::LiveState* state) const override { pool_.ListWorkers(state); }
  void BeginDrain() override { pool_.BeginDrain(); }
  bool Drain(Duration limit) override;

  // api::HealthProbe. The frontend is live regardless of its workers.
  Status started() const override { return pool_.started(); }
  Status live() const override { return OkStatus(); }
  Status ready() const override { return pool_.ready(); }

 private:
  Logger* const log_;
  SteadyClock clock_;
  std::atomic<api::LoadLevel> memory_level_{api::LoadLevel::kGreen};
  cluster::WorkerPool pool_;
  // Last: they use the pool.
  std::unique_ptr<cluster::FrontendPort> port_;
  mutable Mutex mutex_;
  std::shared_ptr<cluster::ChannelPort> channel_ GUARDED_BY(mutex_);
};

}  // namespace tutti::app
