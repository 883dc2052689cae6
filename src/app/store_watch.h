// StoreWatch: what a store that fails does to a serving process: a line of the log when it begins
// and one when it is over, and the process is not ready while its callers cannot be served.
#pragma once

#include <cstdint>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/usage/ledger.h"
#include "store/store.h"

namespace tutti::app {

class StoreWatch final : public api::HealthProbe {
 public:
  // So long without an error it works again: on a full disk what is small may fit now and then.
  static constexpr Duration kQuiet = std::chrono::seconds(5);

  // All outlive it. `inner`: the health of the rest.
  StoreWatch(const api::HealthProbe& inner, const store::Store& store, const usage::Ledger& ledger,
             const Clock& clock, Logger& log);

  // Now and then, by one thread: looks, and logs what has changed.
  void Look();

  Status started() const override { return inner_.started(); }
  Status live() const override { return inner_.live(); }
  // Errors, beside those of `inner`: storage_error (the store has failed for good), storage_full
  // (callers have to be refused, since their use cannot be written down). A full disk that only
  // those would notice who keep something is no error.
  Status ready() const override;

 private:
  const api::HealthProbe& inner_;
  const store::Store& store_;
  const usage::Ledger& ledger_;
  const Clock& clock_;
  Logger& log_;
  bool failing_ = false, failed_ = false;  // as the log says
  uint64_t errors_ = 0;
  TimePoint last_error_ = TimePoint::min();
};

}  // namespace tutti::app
