#include "app/config_reload.h"

#include <algorithm>
#include <utility>

#include "app/config/auth_options.h"
#include "app/mqtt/mqtt_servers.h"
#include "app/service.h"
#include "app/state.h"
#include "services/aliases/aliases.h"
#include "services/auth/principal.h"

namespace tutti::app {
namespace {

std::string Joined(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text;
}

void CountReload(telemetry::MetricsRegistry& metrics, bool ok) {
  for (const bool outcome : {true, false}) {
    metrics
        .GetCounter("tutti_config_reloads_total", "Reloads of the configuration, by outcome",
                    {{"outcome", outcome ? "applied" : "invalid"}})
        .Add(outcome == ok ? 1 : 0);
  }
  metrics
      .GetGauge("tutti_config_last_reload_ok",
                "1 if the last reload of the configuration was applied, 0 if it was invalid")
      .Set(ok ? 1 : 0);
}

}  // namespace

bool IsReloadable(std::string_view key) {
  if (key.starts_with("limits.")) return !key.starts_with("limits.redis");
  if (key.starts_with("auth.")) return true;
  constexpr std::string_view kKeys[] = {"alias",        "any-model-name", "api-key-file",
                                        "cache.shared", "log-level",      "tls-cert",
                                        "tls-key",      "tls-client-ca",  "tls-client-auth"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

ConfigReload::ConfigReload(const Settings& settings, std::string configured_key, const Parts& parts)
    : parts_(parts),
      start_(settings),
      current_(settings),
      configured_key_(std::move(configured_key)) {}

Result<http::ReloadReport> ConfigReload::Run() {
  const MutexLock lock(mutex_);
  Result<http::ReloadReport> report = ReadAndApply();
  CountReload(*parts_.metrics, report.ok());
  // Also after one that is refused: it may name a model that is new in the folder.
  if (done_ != nullptr) done_();
  if (!report.ok()) {
    parts_.log->Error("config.invalid", {{"why", report.status().message()},
                                         {"effect", "the settings have not changed"}});
    return report;
  }
  parts_.log->Info("config.reloaded", {{"applied", Joined(report->applied)},
                                       {"needs_restart", Joined(report->needs_restart)}});
  return report;
}

Result<http::ReloadReport> ConfigReload::ReadAndApply() {
  ASSIGN_OR_RETURN(Settings next, current_.Reread());
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(next.Text("log-level")));
  ASSIGN_OR_RETURN(const std::string key, ApiKey(next.Text("api-key-file")));
  ASSIGN_OR_RETURN(const auth::Authenticator::Options known, AuthOptions(next, key));
  auth::Authenticator& authority = parts_.state->authority();
  const bool has_keys = !authority.IsOpenWith(known, /*loopback=*/true);
  ASSIGN_OR_RETURN(const std::function<void()> servers,
                   parts_.servers->PrepareReload(next, key, has_keys));
  ASSIGN_OR_RETURN(const std::function<void()> mqtt, parts_.mqtt->LoadTls(next));
  Callers& callers = parts_.state->callers();
  RETURN_IF_ERROR(callers.Configure(next, /*apply=*/false));
  if (served_ != nullptr) RETURN_IF_ERROR(aliases::CheckAliases(next.aliases(), served_()));
  RETURN_IF_ERROR(authority.Configure(known));  // changes nothing if it fails

  // Nothing below this line fails.
  RETURN_IF_ERROR(callers.Configure(next, /*apply=*/true));  // was checked above
  servers();
  mqtt();
  parts_.log->SetLevel(level);
  if (key != configured_key_) {
    const std::string credential = auth::CredentialOf(auth::PrincipalKind::kKey, "configured");
    callers.Revoke(credential);
    parts_.mqtt->Revoke(credential);
    configured_key_ = key;
  }
  http::ReloadReport report;
  for (std::string& changed : next.ChangesSince(current_)) {
    if (IsReloadable(changed)) report.applied.push_back(std::move(changed));
  }
  for (std::string& changed : next.ChangesSince(start_)) {
    if (!IsReloadable(changed)) report.needs_restart.push_back(std::move(changed));
  }
  current_ = std::move(next);
  return report;
}

}  // namespace tutti::app
