// RemoteModels: the models' side of a front: workers that come through a socket, and those of other
// machines, through a broker.
//
// Made, opened and drained by one thread; what it gives is for any.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "app/backend.h"
#include "app/broker_options.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "remote/front_port.h"
#include "remote/letters/letter_port.h"
#include "remote/worker_pool.h"

namespace tutti::app {

class RemoteModels final : public Backend {
 public:
  explicit RemoteModels(Logger* log) : log_(log), pool_(clock_, memory_level_, log) {}

  // From now on workers may come. Errors: those of FrontPort::Open.
  Status Open(const std::string& path);
  // Likewise from elsewhere. `folder`: of the store (FrontId()). Errors: those of LetterPort::Open.
  Status OpenBroker(const BrokerOptions& options, const std::string& folder);
  remote::WorkerPool& pool() { return pool_; }
  // Nothing without a broker. Any thread, until Drain().
  std::optional<remote::LetterPort::Figures> broker() const;

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
  Logger* const log_;
  SteadyClock clock_;
  std::atomic<api::LoadLevel> memory_level_{api::LoadLevel::kGreen};
  remote::WorkerPool pool_;
  // Last: they use the pool.
  std::unique_ptr<remote::FrontPort> port_;
  mutable Mutex mutex_;
  std::shared_ptr<remote::LetterPort> letters_ GUARDED_BY(mutex_);
};

}  // namespace tutti::app
