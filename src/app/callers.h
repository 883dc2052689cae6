// Callers: aliases, limits, usage ledger and admission control of a serving process.
//
// The Authenticator must outlive it. One thread makes and destroys it; any thread may use its
// parts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/caller.h"
#include "api/inference.h"
#include "api/live_state.h"
#include "app/config/settings.h"
#include "base/log.h"
#include "base/status.h"
#include "services/admission/admission.h"
#include "services/aliases/aliases.h"
#include "services/auth/authenticator.h"
#include "services/limits/limiter.h"
#include "services/limits/shared_limits.h"
#include "services/usage/ledger.h"
#include "store/store.h"

namespace tutti::app {

class Callers {
 public:
  // All outlive it; `log` may be null. Errors: invalid_value (the settings), the store's,
  // overloaded (no thread).
  static Result<std::unique_ptr<Callers>> Open(const Settings& settings, store::Store& store,
                                               auth::Authenticator& authority,
                                               api::Inference& models, const Clock& clock,
                                               Logger* log);
  ~Callers();

  api::Inference& inference() { return admission_; }
  aliases::AliasInference& aliases() { return aliases_; }
  const aliases::AliasInference& aliases() const { return aliases_; }
  // Applies the limits, weights, cache scopes and aliases of other settings. On an error nothing
  // changes. `apply` false: only checks them. Errors: invalid_value.
  Status Configure(const Settings& settings, bool apply);
  // As admission::Admission::CountLoad().
  Status CountLoad(const api::CallerRef& caller, const std::string& model) {
    return admission_.CountLoad(caller, model);
  }
  // Ends the requests of a credential that is no longer valid.
  void Revoke(std::string_view credential) { admission_.Revoke(credential); }
  // As Admission::LimitsLeft.
  std::vector<api::CallerLimitState> LimitsLeft(const api::Caller& caller) const {
    return admission_.LimitsLeft(caller);
  }
  const limits::Limiter& limiter() const { return limiter_; }
  void ListLimits(api::LiveState* state);
  const usage::Ledger& ledger() const { return ledger_; }
  // Waits until all usage recorded so far is written; returns the error if that failed. After the
  // last request, usage that this call does not write is lost when the process ends.
  Status WriteUsage() { return ledger_.Flush(); }

  // Caller of a request over MQTT, in `tenant`. An empty `credential` means that an external broker
  // authenticated the client. Errors: as auth::Authenticator::FromCredential.
  Result<api::CallerRef> OverMqtt(const std::string& credential, const std::string& tenant) const;

  // Re-resolves the caller of a stored request, because its permissions and limits may have changed
  // since it was accepted. Errors: as auth::Authenticator::FromCredential.
  Result<api::CallerRef> Still(const api::CallerRef& accepted) const;

 private:
  // `quotas` may be null: nothing is shared.
  Callers(admission::Policy policy, std::unique_ptr<limits::RedisQuotas> quotas,
          const Settings& settings, store::Store& store, auth::Authenticator& authority,
          api::Inference& models, const Clock& clock, Logger* log);
  // Restores today's usage from the ledger.
  Status Restore(store::Store& store, Logger* log);
  void Tick();

  auth::Authenticator& authority_;
  const std::unique_ptr<limits::RedisQuotas> quotas_;  // null: limits are this server's alone
  limits::Limiter limiter_;
  usage::Ledger ledger_;
  aliases::AliasInference aliases_;
  admission::Admission admission_;                  // in front of the aliases
  std::shared_ptr<const void> listening_;           // to revocations
  std::jthread ticker_;                             // uses all of the above
  std::unique_ptr<limits::SharingThread> sharing_;  // null if quotas_ is; uses quotas_ and limiter_
};

}  // namespace tutti::app
