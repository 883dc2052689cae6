#include "app/state.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/config/auth_options.h"
#include "app/config/options.h"
#include "app/control.h"
#include "app/store.h"
#include "base/clock.h"
#include "protocol/control.h"
#include "services/batches/control.h"
#include "services/jobs/control.h"
#include "services/responses/response_rows.h"
#include "services/sessions/history.h"
#include "services/webhooks/webhooks.h"
#include "store/ask_store.h"

namespace tutti::app {
namespace {

// Null where none is asked for.
Result<std::unique_ptr<ConversationLog>> OpenConversationLog(const Settings& settings,
                                                             const Clock* clock, Logger* log) {
  if (!settings.IsSet("debug.conversations")) {
    if (!settings.IsSet("debug.session")) return std::unique_ptr<ConversationLog>();
    return InvalidArgument("invalid_value",
                           "debug.session also needs debug.conversations: the file to write to")
        .WithParam("debug.conversations");
  }
  return ConversationLog::Open({.file = settings.Text("debug.conversations"),
                                .session = settings.Text("debug.session"),
                                .file_bytes = settings.Int("debug.file_bytes"),
                                .time = std::chrono::seconds(settings.Int("debug.time_s"))},
                               clock, &UnixMillis, log);
}

// `webhooks` may be null.
jobs::Jobs::Options JobOptions(const Settings& settings, const webhooks::Webhooks* webhooks) {
  const auto seconds = [&](const char* name) { return std::chrono::seconds(settings.Int(name)); };
  jobs::Jobs::Options options;
  options.slots = settings.Int("jobs.slots");
  options.max_attempts = settings.Int("jobs.max_attempts");
  options.lease = seconds("jobs.lease_s");
  options.heartbeat = options.lease / 3;
  options.window = seconds("jobs.window_s");
  options.limits.queued = settings.Int("jobs.queued");
  options.limits.result_bytes = settings.Int("jobs.result_bytes");
  options.limits.result_ttl_ms = settings.Int("jobs.result_ttl_s") * 1000;
  if (webhooks != nullptr)
    options.webhook = [webhooks](const std::string& url) { return webhooks->Check(url); };
  return options;
}

batches::Files::Options FileOptions(const Settings& settings, const std::string& folder) {
  batches::Files::Options options;
  if (!folder.empty()) options.folder = (std::filesystem::path(folder) / "files").string();
  options.limits.file_bytes = settings.Int("files.file_bytes");
  options.limits.owner_bytes = settings.Int("files.tenant_bytes");
  return options;
}

batches::Batches::Options BatchOptions(const Settings& settings) {
  batches::Batches::Options options;
  options.slots = settings.Int("batches.slots");
  options.max_attempts = settings.Int("batches.max_attempts");
  options.limits.lines = settings.Int("batches.lines");
  options.window = std::chrono::seconds(settings.Int("batches.window_s"));
  return options;
}

sessions::SessionOptions WatchedBy(sessions::TurnWatcher* watcher) {
  sessions::SessionOptions options;
  options.watcher = watcher;
  return options;
}

// Each may hold 64 KiB, and take the time of a password's hash.
constexpr size_t kMaxOperatorRequests = 64;

constexpr const char* kWebhookSecretFile = "jobs.webhook_secret_file";
// Two, while the one replaces the other.
constexpr size_t kMaxWebhookSecrets = 2;

Status BadWebhookSecret(std::string why) {
  return InvalidArgument("invalid_value", std::move(why)).WithParam(kWebhookSecretFile);
}

// Options for jobs.webhooks = "on". Errors: invalid_value (secret file not set, readable by others,
// or malformed).
Result<webhooks::Webhooks::Options> WebhookOptions(const Settings& settings) {
  webhooks::Webhooks::Options options;
  const std::string& path = settings.Text(kWebhookSecretFile);
  if (path.empty()) {
    return BadWebhookSecret(
        "jobs.webhooks needs a signing secret: `echo whsec_$(openssl rand -base64 32) > FILE; "
        "chmod 600 FILE` and jobs.webhook_secret_file = FILE");
  }
  struct stat known {};
  if (stat(path.c_str(), &known) != 0) return BadWebhookSecret(path + " cannot be read");
  if ((known.st_mode & 077) != 0)
    return BadWebhookSecret("others than its owner may read " + path + "; chmod 600 " + path);
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    Result<std::string> secret = webhooks::ReadSecret(line);
    if (!secret.ok()) return BadWebhookSecret(path + ": " + secret.status().message());
    options.secrets.push_back(*std::move(secret));
  }
  if (options.secrets.empty() || options.secrets.size() > kMaxWebhookSecrets)
    return BadWebhookSecret(
        path + " must hold one secret, or two while one replaces the other, a line each");
  for (const std::string& host : SplitList(settings.Text("jobs.webhook_hosts")))
    options.trusted.insert(host);
  options.ca_file = settings.Text("jobs.webhook_ca_file");
  if (!options.ca_file.empty() && stat(options.ca_file.c_str(), &known) != 0) {
    return InvalidArgument("invalid_value", options.ca_file + " cannot be read")
        .WithParam("jobs.webhook_ca_file");
  }
  return options;
}

}  // namespace

State::State(std::unique_ptr<store::Store> store, std::unique_ptr<auth::Accounts> accounts,
             std::unique_ptr<auth::Authenticator> authority, std::unique_ptr<Callers> callers,
             std::unique_ptr<ConversationLog> conversations, Caches caches,
             std::unique_ptr<webhooks::Webhooks> webhooks, std::unique_ptr<batches::Files> files,
             const jobs::Jobs::Options& jobs, const batches::Batches::Options& batches,
             Backend& backend, Logger* log)
    : store_(std::move(store)),
      accounts_(std::move(accounts)),
      authority_(std::move(authority)),
      callers_(std::move(callers)),
      caches_(std::move(caches)),
      log_(log),
      operator_log_(*authority_, log),
      conversations_(std::move(conversations)),
      webhooks_(std::move(webhooks)),
      files_(std::move(files)),  // from here on a thread may not be had: what has been made goes
      responses_({}, callers_->inference(), *store_, backend.clock(), &UnixSeconds),
      sessions_(WatchedBy(conversations_.get()), callers_->inference(), *store_, responses_,
                backend.clock(), &UnixSeconds),
      jobs_(jobs, callers_->inference(), *store_, backend.clock(), &UnixMillis,
            [&callers = *callers_](const api::CallerRef& accepted) {
              return callers.Still(accepted);
            }),
      batches_(batches, callers_->inference(), *store_, *files_, backend.clock(), &UnixMillis,
               [&callers = *callers_](const api::CallerRef& accepted) {
                 return callers.Still(accepted);
               }),
      idempotency_keys_({}, *store_, &UnixMillis),
      operator_(backend.clock(), kMaxOperatorRequests, "tutti-operator") {}

Result<std::unique_ptr<State>> State::Open(const Settings& settings,
                                           const std::string& configured_key, Backend& backend,
                                           Caches caches, Logger* log) {
  ASSIGN_OR_RETURN(const auth::Authenticator::Options known, AuthOptions(settings, configured_key));
  ASSIGN_OR_RETURN(const std::string folder, StoreFolder(settings));
  try {
    ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, OpenStore(folder));
    if (const std::string file = folder.empty() ? "" : StoreOpenToReaders(folder);
        !file.empty() && log != nullptr) {
      log->Warn("store.readable",
                {{"path", file}, {"why", "other users of this machine can read it: chmod go-rwx"}});
    }
    ASSIGN_OR_RETURN(std::unique_ptr<auth::Accounts> accounts,
                     auth::Accounts::Open(store.get(), /*serving=*/true));
    ASSIGN_OR_RETURN(std::unique_ptr<auth::Authenticator> authority,
                     auth::Authenticator::Create(accounts.get(), known));
    api::Inference& models = caches.questions == nullptr ? backend.models() : *caches.questions;
    ASSIGN_OR_RETURN(std::unique_ptr<Callers> callers,
                     Callers::Open(settings, *store, *authority, models, backend.clock(), log));
    ASSIGN_OR_RETURN(std::unique_ptr<ConversationLog> conversations,
                     OpenConversationLog(settings, &backend.clock(), log));
    ASSIGN_OR_RETURN(
        std::unique_ptr<batches::Files> files,
        batches::Files::Open(FileOptions(settings, folder), *store, backend.clock(), &UnixMillis));
    std::unique_ptr<webhooks::Webhooks> teller;
    if (settings.On("jobs.webhooks")) {
      ASSIGN_OR_RETURN(const webhooks::Webhooks::Options options, WebhookOptions(settings));
      teller = std::make_unique<webhooks::Webhooks>(options, *store, &UnixMillis, log);
    }
    const jobs::Jobs::Options jobs = JobOptions(settings, teller.get());
    std::unique_ptr<State> state(
        new State(std::move(store), std::move(accounts), std::move(authority), std::move(callers),
                  std::move(conversations), std::move(caches), std::move(teller), std::move(files),
                  jobs, BatchOptions(settings), backend, log));
    if (folder.empty()) return state;
    ASSIGN_OR_RETURN(
        state->control_,
        control::ControlServer::Open(folder, [&state = *state](std::string_view asked) {
          return protocol::ControlLine(state.AnswerOperator(asked, "control"));
        }));
    return state;
  } catch (const std::system_error& error) {  // the system refused a thread
    return Unavailable("overloaded", std::string("the services cannot start: ") + error.what());
  }
}

Result<std::string> State::AnswerOperator(std::string_view request, std::string_view by) {
  if (request == kModelsRequest) return ModelsAnswer(inference().Models());
  return operator_log_.Answer(request, by, [this](std::string_view asked) -> Result<std::string> {
    if (IsCacheRequest(asked)) return AnswerCacheControl(caches_, asked);
    if (jobs::IsJobsRequest(asked))
      return jobs::HandleControl(*store_, &jobs_, asked, UnixMillis());
    if (batches::IsBatchesRequest(asked)) return batches::HandleControl(*store_, batches_, asked);
    return AnswerControl(*store_, *authority_, asked);
  });
}

void State::Operate(std::string request, std::string by,
                    std::function<void(Result<std::string>)> done) {
  const bool posted =
      operator_.TryPost([this, request = std::move(request), by = std::move(by), done] {
        Result<std::string> answer = AnswerOperator(request, by);
        if (answer.ok()) return done(std::move(answer));
        done(store::ClientStatus(answer.status()));
      });
  if (posted) return;
  done(Unavailable("overloaded", std::to_string(kMaxOperatorRequests) +
                                     " requests of operators wait already; retry later"));
}

void State::Resume() {
  LogUnfinished();
  responses_.Resume();
  sessions_.Resume();
  jobs_.Start();
  batches_.Start();
}

void State::LogUnfinished() {
  int64_t responses = 0, turns = 0, waiting = 0;
  const Status status = store_->ReadNow([&](store::Database& rows) -> Status {
    ASSIGN_OR_RETURN(responses, responses::CountRunning(rows));
    ASSIGN_OR_RETURN(turns, sessions::CountPending(rows));
    ASSIGN_OR_RETURN(const jobs::JobCounts counts, jobs::CountJobs(rows));
    waiting = counts.queued + counts.running;
    return OkStatus();
  });
  if (log_ == nullptr || !status.ok() || responses + turns + waiting == 0) return;
  log_->Info("state.resumed", {{"responses", responses}, {"turns", turns}, {"jobs", waiting}});
}

}  // namespace tutti::app
