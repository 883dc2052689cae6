// RemoteModels: the models' side of a front: workers that come through a socket.
//
// Made, opened and drained by one thread; what it gives is for any.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "app/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "remote/front_port.h"
#include "remote/worker_pool.h"

namespace tutti::app {

class RemoteModels final : public Backend {
 public:
  explicit RemoteModels(Logger* log) : pool_(clock_, memory_level_, log) {}

  // From now on workers may come. Errors: those of FrontPort::Open.
  Status Open(const std::string& path);
  remote::WorkerPool& pool() { return pool_; }

  // Backend
  api::Inference& models() override { return pool_; }
  const Clock& clock() const override { return clock_; }
  std::atomic<api::LoadLevel>& memory_level() override { return memory_level_; }
  void BeginDrain() override { pool_.BeginDrain(); }
  bool Drain(Duration limit) override;

  // api::HealthProbe. The front itself is alive whatever its workers are.
  Status started() const override { return pool_.started(); }
  Status live() const override { return OkStatus(); }
  Status ready() const override { return pool_.ready(); }

 private:
  SteadyClock clock_;
  std::atomic<api::LoadLevel> memory_level_{api::LoadLevel::kGreen};
  remote::WorkerPool pool_;
  std::unique_ptr<remote::FrontPort> port_;  // last: uses the pool
};

}  // namespace tutti::app
