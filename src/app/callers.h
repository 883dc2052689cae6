// Callers: what the callers of a serving process may use, and what they have used: the limits, the
// ledger, and the admission that all doors ask.
//
// Made after the authority and gone before it. One thread makes it; what it gives is for any.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "api/inference.h"
#include "app/settings.h"
#include "base/log.h"
#include "base/status.h"
#include "services/admission/admission.h"
#include "services/auth/authority.h"
#include "services/limits/limiter.h"
#include "services/limits/redis_quotas.h"
#include "services/limits/sharing_thread.h"
#include "services/usage/ledger.h"
#include "store/store.h"

namespace tutti::app {

class Callers {
 public:
  // All outlive it; `log` may be null. Errors: invalid_value (the settings), the store's,
  // overloaded (no thread).
  static Result<std::unique_ptr<Callers>> Open(const Settings& settings, store::Store& store,
                                               auth::Authority& authority, api::Inference& models,
                                               const Clock& clock, Logger* log);
  ~Callers();

  api::Inference& inference() { return admission_; }
  const limits::Limiter& limiter() const { return limiter_; }
  const usage::Ledger& ledger() const { return ledger_; }
  // Waits until what was used so far is written, or could not be: why. Once no request runs, what
  // is not written then is lost with the process.
  Status WriteUsage() { return ledger_.Flush(); }

  // Who asks through MQTT: of that credential, or of a broker's word where it is empty; for
  // `tenant`. Errors: as auth::Authority::FromCredential.
  Result<api::CallerRef> OverMqtt(const std::string& credential, const std::string& tenant) const;

  // Who asked once, as they may ask now: what they were given may have changed since. Errors: as
  // auth::Authority::FromCredential.
  Result<api::CallerRef> Still(const api::CallerRef& accepted) const;

 private:
  // `quotas` may be null: nothing is shared.
  Callers(admission::Policy policy, std::unique_ptr<limits::RedisQuotas> quotas,
          const Settings& settings, store::Store& store, auth::Authority& authority,
          api::Inference& models, const Clock& clock, Logger* log);
  // What was used of today's quotas before this process.
  Status Restore(store::Store& store, Logger* log);
  void Tick();

  auth::Authority& authority_;
  const std::unique_ptr<limits::RedisQuotas> quotas_;  // null: limits are this server's alone
  limits::Limiter limiter_;
  usage::Ledger ledger_;
  admission::Admission admission_;
  std::shared_ptr<const void> listening_;           // to revocations
  std::jthread ticker_;                             // uses all of the above
  std::unique_ptr<limits::SharingThread> sharing_;  // null: likewise; uses quotas and limiter
};

}  // namespace tutti::app
