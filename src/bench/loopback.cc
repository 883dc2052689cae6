#include "bench/loopback.h"

#include <system_error>
#include <utility>

#include "api/caller.h"
#include "app/store.h"
#include "app/version.h"
#include "base/clock.h"

namespace tutti::bench {
namespace {

constexpr char kPrefix[] = "llm/v1", kTenant[] = "default";

// Discards the log of a bench's server.
class NoLines final : public Logger::Sink {
 public:
  void Line(std::string_view) override {}
};

sessions::SessionOptions Remembering(size_t resident) {
  sessions::SessionOptions options;
  options.resident = resident;
  options.dialogs = {.per_owner = 100'000, .per_tenant = 100'000};
  return options;
}

// With a port that the system chooses.
template <typename Options>
Options OnFreePort() {
  Options options;
  options.port = 0;
  return options;
}

http::HttpOptions QuietHttp() {
  http::HttpOptions options = OnFreePort<http::HttpOptions>();
  options.access_log = false;
  options.version = app::kVersion;
  return options;
}

// Every caller, without limits.
Result<api::CallerRef> CallerOf(const std::string&, const std::string& tenant) {
  return std::make_shared<const api::Caller>(api::Caller{.tenant = tenant});
}

std::vector<app::MqttProject> Named(const std::vector<std::string>& names) {
  std::vector<app::MqttProject> projects;
  for (const std::string& name : names) {
    app::MqttProject project;
    project.name = name;
    project.rate.limit = 0;
    projects.push_back(std::move(project));
  }
  return projects;
}

}  // namespace

Result<LoopbackAccounts> LoopbackAccounts::Open(const std::string& folder) {
  const std::vector<store::Migration> tables = app::StoreTables();
  LoopbackAccounts open;
  ASSIGN_OR_RETURN(open.store, store::Store::Open({.folder = folder}, tables));
  ASSIGN_OR_RETURN(open.accounts, auth::Accounts::Open(open.store.get()));
  ASSIGN_OR_RETURN(open.authority, auth::Authenticator::Create(open.accounts.get(), {}));
  return open;
}

GrpcLoopback::GrpcLoopback(app::LocalInference& inference, LoopbackAccounts accounts)
    : accounts_(std::move(accounts)),
      repository_(
          {.server_version = app::kVersion},
          {.inference = &inference.gateway(), .health = &inference, .clock = &inference.clock()}),
      server_(OnFreePort<rpc::GrpcOptions>(), {.inference = &inference.gateway(),
                                               .authority = accounts_.authority.get(),
                                               .health = &inference,
                                               .repository = &repository_,
                                               .clock = &inference.clock()}) {}

Result<std::unique_ptr<GrpcLoopback>> GrpcLoopback::Start(app::LocalInference& inference) {
  ASSIGN_OR_RETURN(LoopbackAccounts accounts, LoopbackAccounts::Open(/*folder=*/""));
  std::unique_ptr<GrpcLoopback> loopback(new GrpcLoopback(inference, std::move(accounts)));
  RETURN_IF_ERROR(loopback->server_.Start());
  return loopback;
}

ChatLoopback::ChatLoopback(app::LocalInference& inference, const Options& options,
                           LoopbackAccounts accounts)
    : accounts_(std::move(accounts)),
      log_(LogLevel::kError, std::make_shared<NoLines>()),
      responses_({}, inference.gateway(), *accounts_.store, inference.clock(), &UnixSeconds),
      sessions_(Remembering(options.resident), inference.gateway(), *accounts_.store, responses_,
                inference.clock(), &UnixSeconds),
      repository_(
          {.server_version = app::kVersion},
          {.inference = &inference.gateway(), .health = &inference, .clock = &inference.clock()}),
      http_(QuietHttp(), {.inference = &inference.gateway(),
                          .authority = accounts_.authority.get(),
                          .health = &inference,
                          .metrics = &metrics_,
                          .clock = &inference.clock(),
                          .repository = &repository_,
                          .responses = &responses_,
                          .sessions = &sessions_}),
      login_(*accounts_.authority, kPrefix, /*loopback=*/true, Named(options.projects), kTenant),
      listener_(OnFreePort<mqtt::listener::ListenerOptions>(),
                {.authenticator = &login_, .log = &log_, .clock = &inference.clock()}) {}

ChatLoopback::~ChatLoopback() {
  http_.Stop();
  if (profile_ != nullptr) profile_->Stop();
  listener_.Stop();
  profile_.reset();
}

Result<std::unique_ptr<ChatLoopback>> ChatLoopback::Start(app::LocalInference& inference,
                                                          const Options& options) {
  ASSIGN_OR_RETURN(LoopbackAccounts accounts, LoopbackAccounts::Open(options.store_folder));
  try {
    std::unique_ptr<ChatLoopback> loopback(
        new ChatLoopback(inference, options, std::move(accounts)));
    RETURN_IF_ERROR(loopback->Serve(inference, options));
    return loopback;
  } catch (const std::system_error& error) {  // the system refused a thread
    return Unavailable("overloaded", std::string("the services cannot start: ") + error.what());
  }
}

Status ChatLoopback::Serve(app::LocalInference& inference, const Options& options) {
  mqtt::chat::ProfileOptions profile;
  profile.prefix = kPrefix;
  profile.node = "bench";
  profile.tenant = kTenant;
  profile.version = app::kVersion;
  for (const std::string& name : options.projects) {
    mqtt::chat::ProjectSettings project;
    project.name = name;
    project.tenant = kTenant;
    project.reply_format = mqtt::chat::ReplyFormat::kJson;
    profile.projects.push_back(std::move(project));
  }
  ASSIGN_OR_RETURN(profile_, mqtt::chat::Profile::Make(profile, {.port = listener_,
                                                                 .sessions = sessions_,
                                                                 .responses = responses_,
                                                                 .inference = inference.gateway(),
                                                                 .clock = inference.clock(),
                                                                 .unix_ms = &UnixMillis,
                                                                 .log = log_,
                                                                 .admit = nullptr,
                                                                 .caller_of = &CallerOf}));
  RETURN_IF_ERROR(profile_->Subscribe());
  RETURN_IF_ERROR(http_.Start());
  RETURN_IF_ERROR(listener_.Start());
  profile_->Start();
  return OkStatus();
}

}  // namespace tutti::bench
