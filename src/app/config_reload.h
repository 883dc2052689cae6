// ConfigReload: reads the configuration of a serving process again, and applies what may change
// while requests run:
//   limits, weights and cache scopes of tenants     the next request
//   the configured key, issuers of signed tokens    the next request; callers with the old key end
//   certificates                                    the next connection
//   aliases                                         the next request
//   the log level                                   the next line
// The folder of models is listed again.
// Everything is read and checked first. If anything is invalid, nothing changes.
//
// Owned by app::Service. Any thread may call Run(); calls are serialised. It reads files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/config/settings.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "server/http/connection/http_server.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class MqttServers;
class Servers;
class State;

// Whether a change of the option takes effect without a restart; also for "alias".
bool IsReloadable(std::string_view key);

class ConfigReload {
 public:
  struct Parts {  // all outlive it
    State* state = nullptr;
    Servers* servers = nullptr;
    MqttServers* mqtt = nullptr;
    Logger* log = nullptr;
    telemetry::MetricsRegistry* metrics = nullptr;
  };
  // `settings`: those of the start; `configured_key`: from ApiKey(), or "".
  ConfigReload(const Settings& settings, std::string configured_key, const Parts& parts);

  // The models that aliases may stand for. Without it any name is allowed: the workers of a
  // frontend come and go. Call it before the first Run().
  void CheckAliasesAgainst(std::function<std::vector<std::string>()> served) {
    served_ = std::move(served);
  }

  // Called after each reload, also after one that was refused. Call this before the first Run().
  void AfterReload(std::function<void()> done) { done_ = std::move(done); }

  // Errors: those of Settings::Resolve, and of the parts for the option at fault; nothing has
  // changed then.
  Result<http::ReloadReport> Run();

 private:
  Result<http::ReloadReport> ReadAndApply() REQUIRES(mutex_);

  const Parts parts_;
  const Settings start_;  // options that need a restart still have these values
  std::function<std::vector<std::string>()> served_;
  std::function<void()> done_;
  Mutex mutex_;
  Settings current_ GUARDED_BY(mutex_);
  std::string configured_key_ GUARDED_BY(mutex_);
};

}  // namespace tutti::app
