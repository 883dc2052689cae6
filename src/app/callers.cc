#include "app/callers.h"

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "app/config/remote_options.h"
#include "base/clock.h"
#include "base/threads.h"
#include "services/auth/principal.h"
#include "services/usage/ledger_rows.h"

namespace tutti::app {
namespace {

// Credential of callers that an MQTT broker authenticated and that have no account here.
constexpr const char* kBrokerCredential = "broker";

// Limits per `whom`: "tenant", "key" or "model". 0 means no limit, in the settings and the rules.
limits::Rules RulesFrom(const Settings& settings, const std::string& whom) {
  const auto number = [&](const char* name) { return settings.Int("limits." + whom + "_" + name); };
  limits::Rules rules;
  rules.requests_per_minute = number("requests_per_minute");
  rules.tokens_per_minute = number("tokens_per_minute");
  rules.concurrency = number("concurrency");
  rules.queued_tokens = number("queued_tokens");
  rules.tokens_per_day = number("daily_tokens");
  return rules;
}

Result<admission::Policy> PolicyFrom(const Settings& settings) {
  admission::Policy policy;
  policy.tenant = RulesFrom(settings, "tenant");
  policy.key = RulesFrom(settings, "key");
  policy.model = RulesFrom(settings, "model");
  Result<std::map<std::string, double, std::less<>>> weights =
      admission::ReadWeights(settings.Text("limits.weights"));
  if (!weights.ok()) return std::move(weights).status().WithParam("limits.weights");
  policy.weights = *std::move(weights);
  Result<std::map<std::string, std::string, std::less<>>> scopes =
      admission::ReadScopes(settings.Text("cache.shared"));
  if (!scopes.ok()) return std::move(scopes).status().WithParam("cache.shared");
  policy.cache_scopes = *std::move(scopes);
  policy.any_model_name = settings.On("any-model-name");
  return policy;
}

}  // namespace

Callers::Callers(admission::Policy policy, std::unique_ptr<limits::RedisQuotas> quotas,
                 const Settings& settings, store::Store& store, auth::Authenticator& authority,
                 api::Inference& models, const Clock& clock, Logger* log)
    : authority_(authority),
      quotas_(std::move(quotas)),
      limiter_({.shared = quotas_.get(),
                .requests_open = settings.Text("limits.redis_requests") == "open",
                .tokens_open = settings.Text("limits.redis_tokens") == "open"},
               &clock, &UnixSeconds),
      ledger_({.retention_days = static_cast<int>(settings.Int("usage.keep_days"))}, &store, &clock,
              log),
      aliases_(&models, &clock),
      admission_(std::move(policy), {.inference = &aliases_,
                                     .limiter = &limiter_,
                                     .ledger = &ledger_,
                                     .unix_ms = &UnixMillis,
                                     .valid =
                                         [&authority](const api::Caller& caller) {
                                           if (caller.credential == kBrokerCredential)
                                             return OkStatus();
                                           return authority.StillValid(caller.credential,
                                                                       std::time(nullptr));
                                         },
                                     .counted =
                                         [](const api::Caller& caller) {
                                           return caller.credential != auth::kOpenCredential;
                                         }}),
      listening_(authority.accounts().Listen([this](const auth::Ended& ended) {
        admission_.Revoke(auth::CredentialOf(ended.kind, ended.id));
      })) {
  aliases_.Set(settings.aliases());
}

Callers::~Callers() = default;

Result<std::unique_ptr<Callers>> Callers::Open(const Settings& settings, store::Store& store,
                                               auth::Authenticator& authority,
                                               api::Inference& models, const Clock& clock,
                                               Logger* log) {
  ASSIGN_OR_RETURN(admission::Policy policy, PolicyFrom(settings));
  ASSIGN_OR_RETURN(std::optional<redis::ConnectionOptions> redis, RedisFrom(settings, "limits"));
  std::unique_ptr<limits::RedisQuotas> quotas;
  if (redis.has_value()) quotas = std::make_unique<limits::RedisQuotas>(*std::move(redis));
  std::unique_ptr<Callers> callers(new Callers(std::move(policy), std::move(quotas), settings,
                                               store, authority, models, clock, log));
  RETURN_IF_ERROR(callers->Restore(store, log));
  try {
    callers->ticker_ = std::jthread([&self = *callers](const std::stop_token& stop) {
      NameThread("tutti-ledger");
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      for (int seconds = 0; !stop.stop_requested(); ++seconds) {
        wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
        self.ledger_.Tick(UnixMillis());
        if (seconds % 60 == 59) self.limiter_.DropIdle();
      }
    });
  } catch (const std::system_error& error) {
    return Unavailable("overloaded", std::string("the usage ledger cannot start: ") + error.what());
  }
  if (callers->quotas_ == nullptr) return callers;
  ASSIGN_OR_RETURN(callers->sharing_,
                   limits::SharingThread::Start(&callers->limiter_, [log](const Status& status) {
                     if (log == nullptr) return;
                     if (status.ok()) return log->Info("limits.redis_back");
                     log->Warn("limits.redis_unavailable", {{"reason", status.reason()}});
                   }));
  return callers;
}

Status Callers::Configure(const Settings& settings, bool apply) {
  ASSIGN_OR_RETURN(admission::Policy policy, PolicyFrom(settings));
  if (!apply) return OkStatus();
  admission_.SetPolicy(std::move(policy));
  aliases_.Set(settings.aliases());
  return OkStatus();
}

Status Callers::Restore(store::Store& store, Logger* log) {
  std::vector<usage::KeyTokens> used;
  RETURN_IF_ERROR(store.ReadNow([&](store::Database& rows) -> Status {
    ASSIGN_OR_RETURN(used, usage::DayTokens(rows, limits::DayOf(UnixSeconds())));
    return OkStatus();
  }));
  const size_t left_out =
      admission_.AddToDay(std::move(used), [this](const std::string& credential) {
        const auto who = authority_.FromCredential(credential, std::time(nullptr));
        return who.ok() ? (*who)->grant.limits : api::CallerLimits();
      });
  if (left_out > 0 && log != nullptr)
    log->Warn("usage.day_not_restored", {{"callers", static_cast<int64_t>(left_out)}});
  return OkStatus();
}

void Callers::ListLimits(api::LiveState* state) {
  for (limits::Limiter::Usage& usage : limiter_.ListUsage(api::LiveState::kMaxLimits)) {
    api::LiveLimits& row = state->limits.emplace_back();
    row.of = limits::NameOf(usage.kind);
    row.name = std::move(usage.name);
    for (const limits::KindView& each : usage.limits) {
      row.limits.push_back({admission::CallerNameOf(each.kind),
                            {each.view.limit, each.view.remaining, each.view.reset}});
    }
  }
}

Result<api::CallerRef> Callers::OverMqtt(const std::string& credential,
                                         const std::string& tenant) const {
  api::Caller caller;
  if (credential.empty()) {
    caller.credential = kBrokerCredential;
  } else {
    ASSIGN_OR_RETURN(const auth::PrincipalRef who,
                     authority_.FromCredential(credential, std::time(nullptr)));
    caller = *auth::CallerOf(*who);
  }
  caller.tenant = tenant;
  return std::make_shared<const api::Caller>(std::move(caller));
}

Result<api::CallerRef> Callers::Still(const api::CallerRef& accepted) const {
  // A token has its own expiry, and the open credential belongs to no account.
  if (accepted == nullptr || accepted->credential == auth::kOpenCredential ||
      accepted->credential.starts_with(auth::kTokenCredential)) {
    return accepted;
  }
  ASSIGN_OR_RETURN(const auth::PrincipalRef who,
                   authority_.FromCredential(accepted->credential, std::time(nullptr)));
  api::Caller caller = *auth::CallerOf(*who);
  caller.tenant = accepted->tenant;
  return std::make_shared<const api::Caller>(std::move(caller));
}

}  // namespace tutti::app
