#include "app/loading/model_library.h"

#include <fmt/format.h>

#include <optional>
#include <system_error>
#include <utility>

#include "api/validate.h"
#include "app/loading/model_registry.h"
#include "base/quote.h"
#include "base/threads.h"
#include "services/models/hub_cache.h"
#include "services/models/pull.h"

namespace tutti::app {
namespace {

constexpr int kFilesAtOnce = 4;

// What clients call the model: the name as they typed it, also with the hub's address, which
// Ollama's users write. A revision chooses files and is no part of it.
std::string ServedNameOf(const std::string& typed, const models::HubName& name) {
  constexpr std::string_view kScheme = "https://";
  std::string_view text = typed;
  if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  const bool plain = text.ends_with(name.ServedName());
  return plain ? std::string(text) : name.ServedName();
}

// The error for clients: without paths of this machine.
Status ForClients(const std::string& model, const Status& why) {
  const std::string& reason = why.reason();
  if (reason == "quant_not_found" || reason == "hub_not_found")
    return NotFound("model_not_found", why.message()).WithParam("model");
  // For a known model without files, the message has their path.
  if (reason == "model_not_found") {
    return NotFound("model_not_found",
                    fmt::format("model {} is not here, and cannot be fetched by this name",
                                Quote(model, 128)))
        .WithParam("model");
  }
  if (reason == "model_ambiguous")
    return InvalidArgument("invalid_value", why.message()).WithParam("model");
  if (reason == "model_exists" || reason == "cancelled" || reason == "draining") return why;
  if (reason == "hub_denied") return why;
  if (reason.starts_with("hub_")) return Unavailable("pull_failed", why.message());
  return Unavailable(
      "pull_failed",
      fmt::format("model {} cannot be fetched ({}); the server's log has the details",
                  Quote(model, 128), reason));
}

std::string DigestOf(const models::BlobState& blob) {
  return (blob.kind == models::HashKind::kSha256 ? "sha256:" : "sha1:") + blob.hash;
}

}  // namespace

// Shared by the thread that pulls and the handle of the caller.
class ModelLibrary::Job final : public models::PullObserver {
 public:
  Job(std::string name, std::optional<models::HubName> hub_name)
      : name_(std::move(name)), hub_name_(std::move(hub_name)) {}

  const std::string& name() const { return name_; }
  // Nothing for a known model, which comes from its package.
  const std::optional<models::HubName>& hub_name() const { return hub_name_; }
  std::atomic<bool>& stop() { return stop_; }

  void Planned(const models::PullState& state) override {
    const MutexLock lock(mutex_);
    state_ = &state;
  }
  void Finished() override {
    const MutexLock lock(mutex_);
    CopyBlobs(&progress_);
    state_ = nullptr;
  }
  void End(Status result) {
    const MutexLock lock(mutex_);
    progress_.ended = true;
    progress_.result = std::move(result);
  }

  api::PullProgress progress() const {
    const MutexLock lock(mutex_);
    api::PullProgress progress = progress_;
    CopyBlobs(&progress);
    return progress;
  }
  bool ended() const {
    const MutexLock lock(mutex_);
    return progress_.ended;
  }

 private:
  void CopyBlobs(api::PullProgress* to) const REQUIRES(mutex_) {
    if (state_ == nullptr) return;
    to->blobs.clear();
    for (const models::BlobState& blob : state_->blobs)
      to->blobs.push_back({.digest = DigestOf(blob), .total = blob.size, .fetched = blob.bytes});
  }

  const std::string name_;
  const std::optional<models::HubName> hub_name_;
  std::atomic<bool> stop_{false};
  mutable Mutex mutex_;
  const models::PullState* state_ GUARDED_BY(mutex_) = nullptr;  // while files are fetched
  api::PullProgress progress_ GUARDED_BY(mutex_);
};

class ModelLibrary::Handle final : public api::ModelLibrary::Pull {
 public:
  explicit Handle(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  ~Handle() override { job_->stop().store(true); }
  api::PullProgress progress() const override { return job_->progress(); }

 private:
  const std::shared_ptr<Job> job_;
};

ModelLibrary::ModelLibrary(Options options, ModelManager& manager, Logger& log)
    : options_(std::move(options)), manager_(manager), log_(log) {}

ModelLibrary::~ModelLibrary() { Stop(); }

void ModelLibrary::Stop() {
  std::vector<Running> left;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    left.swap(running_);
  }
  for (Running& running : left) running.job->stop().store(true);
  for (Running& running : left) running.thread.join();
}

ModelLibrary::Stats ModelLibrary::stats() const {
  const MutexLock lock(mutex_);
  Stats stats = counts_;
  for (const Running& running : running_) stats.running += running.job->ended() ? 0 : 1;
  return stats;
}

Result<std::unique_ptr<api::ModelLibrary::Pull>> ModelLibrary::Begin(const std::string& name) {
  std::optional<models::HubName> hub_name;
  if (!manager_.Lists(name)) {
    if (!options_.allowed) {
      return Status(StatusCode::kPermissionDenied, "pull_not_allowed",
                    "this server does not fetch models; start it with --pull on-demand")
          .WithParam("model");
    }
    if (models::IsUrl(name) && !models::ParseHubName(name).ok()) {
      return InvalidArgument("invalid_value",
                             "models are pulled by name, not by URL; give ORG/NAME[:QUANT]")
          .WithParam("model");
    }
    if (!IsKnownModel(name)) {
      Result<models::HubName> parsed = models::ParseHubName(name);
      if (!parsed.ok()) return std::move(parsed).status().WithParam("model");
      // Before anything is fetched under a name that cannot be served.
      RETURN_IF_ERROR(CheckServedName(ServedNameOf(name, *parsed)).WithParam("model"));
      hub_name = *std::move(parsed);
    }
  }
  const MutexLock lock(mutex_);
  if (stopped_) return Draining();
  // Threads that have ended are joined here, which takes no time.
  std::erase_if(running_, [](Running& running) {
    if (!running.job->ended()) return false;
    running.thread.join();
    return true;
  });
  if (running_.size() >= kMaxPulls) {
    return Unavailable("pull_limit",
                       fmt::format("{} pulls run, limit {}; try again when one has ended",
                                   running_.size(), kMaxPulls))
        .WithRetryAfter(std::chrono::seconds(10));
  }
  auto job = std::make_shared<Job>(name, std::move(hub_name));
  try {
    running_.push_back({job, std::thread([this, job] {
                          NameThread("tutti-puller");
                          Run(*job);
                        })});
  } catch (const std::system_error& error) {
    return Internal(std::string("cannot start a thread: ") + error.what());
  }
  return std::unique_ptr<Pull>(std::make_unique<Handle>(std::move(job)));
}

void ModelLibrary::Run(Job& job) {
  uint64_t fetched = 0;
  Status result = Fetch(job, &fetched);
  if (result.ok()) {
    log_.Info("model.pulled", {{"model", job.name()}, {"bytes", fetched}});
  } else {
    log_.Warn("model.pull_failed",
              {{"model", job.name()}, {"code", result.reason()}, {"error", result.message()}});
  }
  {
    const MutexLock lock(mutex_);
    ++(result.ok() ? counts_.pulled : counts_.failed);
    counts_.bytes += fetched;
  }
  job.End(result.ok() ? OkStatus() : ForClients(job.name(), result));
}

Status ModelLibrary::Fetch(Job& job, uint64_t* fetched) {
  if (manager_.Lists(job.name())) return OkStatus();
  if (!job.hub_name().has_value()) {
    // It was listed, perhaps by a further name in the form of a path, and no longer is.
    if (!IsKnownModel(job.name())) return api::ModelNotFound(job.name());
    ASSIGN_OR_RETURN(ModelRef known, ResolveModel(job.name()));
    return manager_.AddPulled(std::move(known), nullptr);
  }
  const models::HubName& name = *job.hub_name();
  log_.Info("model.pulling", {{"model", job.name()}});
  const models::PullOptions options{.workers = kFilesAtOnce, .observer = &job, .stop = &job.stop()};
  ASSIGN_OR_RETURN(const models::PulledModel pulled, models::Pull(name, options_.hub, options));
  *fetched = pulled.fetched;
  ModelRef ref{.served_name = ServedNameOf(job.name(), name), .path = pulled.path};
  RETURN_IF_ERROR(CheckServedName(ref.served_name));
  // The files of this model alone: without a revision the name may mean all of the repository, of
  // which other models may be listed.
  models::HubName removed = name;
  removed.revision = pulled.commit;
  return manager_.AddPulled(std::move(ref), [folder = options_.hub.cache_folder, removed] {
    return models::HubCache(folder).Remove(removed).status();
  });
}

Status ModelLibrary::Copy(const std::string& source, const std::string& name) {
  RETURN_IF_ERROR(CheckServedName(name));
  RETURN_IF_ERROR(manager_.AddAlias(source, name));
  log_.Info("model.copied", {{"model", source}, {"name", name}});
  return OkStatus();
}

void ModelLibrary::Remove(const std::string& model, Done done) {
  manager_.Remove(model, [this, model, done = std::move(done)](Status status) {
    if (status.ok()) log_.Info("model.removed", {{"model", model}});
    done(std::move(status));
  });
}

}  // namespace tutti::app
