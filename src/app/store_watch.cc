#include "app/store_watch.h"

namespace tutti::app {

StoreWatch::StoreWatch(const api::HealthProbe& inner, const store::Store& store,
                       const usage::Ledger& ledger, const Clock& clock, Logger& log)
    : inner_(inner), store_(store), ledger_(ledger), clock_(clock), log_(log) {}

void StoreWatch::Look() {
  if (failed_) return;  // a failed store stays failed
  const Status health = store_.health();
  if (!health.ok()) {
    failed_ = true;
    log_.Error("store.failed", {{"reason", health.reason()}, {"why", health.message()}});
    return;
  }
  // `overloaded` passes by itself and is returned to the affected callers, so it is not logged
  // here.
  const store::Store::Counts now = store_.counts();
  const TimePoint time = clock_.Now();
  if (now.is_full || now.full != errors_) last_error_ = time;
  errors_ = now.full;
  if (last_error_ == TimePoint::min()) return;
  const bool failing = time - last_error_ < kQuiet;
  if (failing == failing_) return;
  failing_ = failing;
  if (failing) {
    log_.Error("store.full", {{"reason", "store_full"}});
  } else {
    log_.Info("store.works_again");
  }
}

Status StoreWatch::ready() const {
  RETURN_IF_ERROR(inner_.ready());
  return ledger_.ready();
}

}  // namespace tutti::app
