// StoreWatch: health probe of the store: logs when the store begins to fail and when it works
// again, and reports "not ready" while callers cannot be served.
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
  // The store counts as working again after this time without an error: on a full disk small writes
  // can succeed in between.
  static constexpr Duration kQuiet = std::chrono::seconds(5);

  // All outlive it. `inner`: the health of the rest.
  StoreWatch(const api::HealthProbe& inner, const store::Store& store, const usage::Ledger& ledger,
             const Clock& clock, Logger& log);

  // Polls the store and logs changes of its state; called periodically by one thread.
  void Look();

  Status started() const override { return inner_.started(); }
  Status live() const override { return inner_.live(); }
  // Errors: those of `inner`; storage_error (the store has failed permanently); storage_full
  // (callers must be refused because their usage cannot be recorded). A full disk is no error while
  // it affects only requests that store something.
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
