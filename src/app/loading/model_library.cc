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

std::vector<api::PullBlob> ShownBlobs(const models::PullState& state) {
  std::vector<api::PullBlob> shown;
  api::PullBlob others;
  for (const models::BlobState& blob : state.blobs) {
    if (shown.size() < api::kMaxPullBlobs) {
      shown.push_back({.digest = DigestOf(blob), .total = blob.size, .fetched = blob.bytes});
    } else {
      others.total += blob.size;
      others.fetched += blob.bytes;
    }
  }
  if (const size_t count = state.blobs.size() - shown.size(); count > 0) {
    others.digest = fmt::format("others:{} files", count);
    shown.push_back(std::move(others));
  }
  return shown;
}

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
    to->blobs = ShownBlobs(*state_);
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
    RETURN_IF_ERROR(RestorePulled({.name = job.name(), .commit = {}}));
    RecordPulled({.name = job.name(), .commit = {}});
    return OkStatus();
  }
  const models::HubName& name = *job.hub_name();
  log_.Info("model.pulling", {{"model", job.name()}});
  const models::PullOptions options{.workers = kFilesAtOnce, .observer = &job, .stop = &job.stop()};
  ASSIGN_OR_RETURN(const models::PulledModel pulled, models::Pull(name, options_.hub, options));
  *fetched = pulled.fetched;
  const std::string served_name = ServedNameOf(job.name(), name);
  RETURN_IF_ERROR(List(name, served_name, pulled.path, pulled.commit));
  RecordPulled({.name = served_name, .commit = pulled.commit});
  return OkStatus();
}

Status ModelLibrary::List(const models::HubName& name, const std::string& served_name,
                          const std::string& path, const std::string& commit) {
  RETURN_IF_ERROR(CheckServedName(served_name));
  // The files of this model alone: without a revision the name may mean all of the repository, of
  // which other models may be listed.
  models::HubName removed = name;
  removed.revision = commit;
  return manager_.AddPulled({.served_name = served_name, .path = path},
                            [folder = options_.hub.cache_folder, removed] {
                              return models::HubCache(folder).Remove(removed).status();
                            });
}

Status ModelLibrary::RestorePulled(const PulledNames::Pulled& pulled) {
  if (manager_.Lists(pulled.name)) return OkStatus();
  if (pulled.commit.empty()) {
    if (!IsKnownModel(pulled.name)) return api::ModelNotFound(pulled.name);
    ASSIGN_OR_RETURN(ModelRef known, ResolveModel(pulled.name));
    return manager_.AddPulled(std::move(known), nullptr);
  }
  ASSIGN_OR_RETURN(models::HubName name, models::ParseHubName(pulled.name));
  name.revision = pulled.commit;
  ASSIGN_OR_RETURN(const models::CachedModel cached,
                   models::HubCache(options_.hub.cache_folder).Find(name));
  return List(name, pulled.name, cached.path, pulled.commit);
}

void ModelLibrary::Restore() {
  if (options_.record.empty()) return;
  const Result<PulledNames> read = ReadPulledNames(options_.record);
  if (!read.ok()) {
    log_.Warn("models.record_unreadable", {{"error", read.status().message()}});
    return;
  }
  const auto note = [&](const std::string& name, const Status& status) {
    if (!status.ok())
      log_.Warn("model.not_listed_again", {{"model", name}, {"error", status.message()}});
    return status.ok();
  };
  PulledNames names;
  for (const PulledNames::Pulled& pulled : read->pulled) {
    if (note(pulled.name, RestorePulled(pulled))) names.pulled.push_back(pulled);
  }
  for (const PulledNames::Copy& copy : read->copies) {
    Status status = CheckServedName(copy.name);
    if (status.ok()) status = manager_.AddAlias(copy.model, copy.name);
    if (note(copy.name, status)) names.copies.push_back(copy);
  }
  const MutexLock lock(record_mutex_);
  names_ = std::move(names);
}

void ModelLibrary::RecordPulled(PulledNames::Pulled pulled) {
  Record([&](PulledNames* names) {
    std::erase_if(names->pulled, [&](const auto& known) { return known.name == pulled.name; });
    names->pulled.push_back(std::move(pulled));
  });
}

void ModelLibrary::Record(const std::function<void(PulledNames*)>& change) {
  if (options_.record.empty()) return;
  const MutexLock lock(record_mutex_);
  change(&names_);
  const auto gone = [&](const auto& entry) { return !manager_.Lists(entry.name); };
  std::erase_if(names_.pulled, gone);
  std::erase_if(names_.copies, gone);
  const Status written = WritePulledNames(options_.record, names_);
  if (!written.ok()) log_.Warn("models.record_not_written", {{"error", written.message()}});
}

Status ModelLibrary::Copy(const std::string& source, const std::string& name) {
  RETURN_IF_ERROR(CheckServedName(name));
  RETURN_IF_ERROR(manager_.AddAlias(source, name));
  Record([&](PulledNames* names) {
    std::erase_if(names->copies, [&](const auto& known) { return known.name == name; });
    names->copies.push_back({.name = name, .model = source});
  });
  log_.Info("model.copied", {{"model", source}, {"name", name}});
  return OkStatus();
}

void ModelLibrary::Remove(const std::string& model, Done done) {
  manager_.Remove(model, [this, model, done = std::move(done)](Status status) {
    if (status.ok()) {
      Record([](PulledNames*) {});
      log_.Info("model.removed", {{"model", model}});
    }
    done(std::move(status));
  });
}

}  // namespace tutti::app
