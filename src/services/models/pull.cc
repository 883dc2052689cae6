#include "services/models/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "base/mutex.h"
#include "base/new_file.h"
#include "base/quote.h"
#include "base/text_file.h"
#include "base/threads.h"
#include "base/url.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/models/download.h"
#include "services/models/hub.h"

namespace tutti::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSourceFile = "source.json";

HttpOptions OptionsFor(const HubSettings& settings, const std::atomic<bool>* stop) {
  return {.user_agent = settings.user_agent,
          .ca_file = settings.ca_file,
          .patience = settings.patience,
          .stop = stop};
}

Status Offline(const std::string& name) {
  return Status(StatusCode::kFailedPrecondition, "hub_offline",
                name + " is not in the cache, and HF_HUB_OFFLINE is set");
}

// Several threads fetch the files of one model.
class BlobPull {
 public:
  BlobPull(const HubName& name, const HubSettings& settings, const PullOptions& options,
           const HubCache& cache, const HubRevision& revision, const FileChoice& choice)
      : name_(name),
        settings_(settings),
        options_(options),
        cache_(cache),
        revision_(revision),
        stop_(options.stop == nullptr ? own_stop_ : *options.stop) {
    std::set<std::string> seen;  // equal files have one blob
    for (const HubFile& file : choice.files) {
      if (seen.insert(file.hash).second) files_.push_back(file);
    }
    // Large ones first, so that no worker is left with one at the end.
    std::stable_sort(files_.begin(), files_.end(),
                     [](const HubFile& a, const HubFile& b) { return a.size > b.size; });
  }

  Status Run(uint64_t* fetched) {
    uint64_t total = 0, missing = 0;
    for (const HubFile& file : files_) {
      total += file.size;
      BlobState& blob = state_.blobs.emplace_back();
      blob.kind = file.kind;
      blob.hash = file.hash;
      blob.size = file.size;
      if (cache_.HasBlob(name_.repository, file.hash, file.size)) {
        blob.bytes = file.size;
        continue;
      }
      const uint64_t partial = PartialBytes(PartialOf(file));
      blob.bytes = partial;
      missing += file.size - std::min(partial, file.size);
    }
    state_.total = total;
    state_.name = name_.ToString();
    state_.commit = revision_.commit;
    state_.folder = cache_.RepositoryFolder(name_.repository);
    state_.files = static_cast<int>(files_.size());
    RETURN_IF_ERROR(CheckSpace(state_.folder, missing));
    if (options_.observer != nullptr) options_.observer->Planned(state_);
    std::vector<std::thread> workers;
    const int count = std::clamp(std::min<int>(options_.workers, state_.files), 1, 16);
    workers.reserve(static_cast<size_t>(count));
    try {
      for (int i = 0; i < count; ++i) {
        workers.emplace_back([this] {
          NameThread("tutti-pull");
          Work();
        });
      }
    } catch (const std::system_error&) {
      if (workers.empty()) Work();  // the system gives no thread: this one does all
    }
    for (std::thread& worker : workers) worker.join();
    if (options_.observer != nullptr) options_.observer->Finished();
    *fetched = fetched_;
    RETURN_IF_ERROR(fault_.Copy());
    return stop_ ? Cancelled() : OkStatus();
  }

 private:
  std::string BlobOf(const HubFile& file) const {
    return cache_.BlobPath(name_.repository, file.hash);
  }
  std::string PartialOf(const HubFile& file) const { return BlobOf(file) + ".incomplete"; }

  void Work() {
    HttpClient http(OptionsFor(settings_, &stop_));
    while (!stop_) {
      const size_t index = next_++;
      if (index >= files_.size()) return;
      Status status = Fetch(http, files_[index], state_.blobs[index].bytes);
      if (status.ok()) {
        ++state_.files_done;
        continue;
      }
      fault_.Update([&](Status& fault) {
        if (fault.ok()) fault = std::move(status);
      });
      stop_ = true;
    }
  }

  Status Fetch(HttpClient& http, const HubFile& file, std::atomic<uint64_t>& bytes) {
    if (cache_.HasBlob(name_.repository, file.hash, file.size)) return OkStatus();
    const uint64_t counted = PartialBytes(PartialOf(file));
    ASSIGN_OR_RETURN(const Descriptor lock,
                     cache_.LockBlob(name_.repository, file.hash, stop_, [&] {
                       if (options_.observer != nullptr) options_.observer->Waiting(file.path);
                     }));
    // Another process may have written meanwhile.
    if (cache_.HasBlob(name_.repository, file.hash, file.size)) {
      bytes += file.size - std::min(counted, file.size);
      return OkStatus();
    }
    const uint64_t partial = PartialBytes(PartialOf(file));
    bytes += partial - counted;
    Hub hub(settings_, http);
    DownloadTarget target;
    target.name = file.path;
    target.url = hub.FileUrl(name_.repository, revision_.commit, file.path);
    target.token = settings_.token;
    target.page = settings_.endpoint + "/" + name_.repository;
    target.partial = PartialOf(file);
    target.path = BlobOf(file);
    target.size = file.size;
    target.kind = file.kind;
    target.hash = file.hash;
    ASSIGN_OR_RETURN(const DownloadResult result, Download(http, target, &bytes));
    fetched_ += result.size - std::min(partial, result.size);
    return OkStatus();
  }

  const HubName& name_;
  const HubSettings& settings_;
  const PullOptions& options_;
  const HubCache& cache_;
  const HubRevision& revision_;
  std::vector<HubFile> files_;
  PullState state_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> own_stop_{false};
  std::atomic<bool>& stop_;
  std::atomic<uint64_t> fetched_{0};
  Synchronized<Status> fault_;  // the first one
};

// --- plain URLs ---

struct UrlPlace {
  std::string url;  // without query: the name of the model
  std::string folder;
  std::string file;  // "model.gguf"
  std::string path() const { return folder + "/" + file; }
};

Result<UrlPlace> PlaceOf(const std::string& url, const HubSettings& settings) {
  Url parsed;
  const UrlFault fault = ParseUrl(url, &parsed);
  const std::string scheme = parsed.scheme.has_value() ? std::string(*parsed.scheme) : "";
  if (fault != UrlFault::kNone ||
      !(scheme == "https" || (scheme == "http" && IsLoopback(parsed.host)))) {
    return InvalidArgument("invalid_value",
                           PublicPartOf(url) + " must be an https URL of a .gguf file");
  }
  if (parsed.user.has_value()) {
    return InvalidArgument(
        "invalid_value", "the URL holds a user name, which other users of this machine could see");
  }
  const std::string_view path = parsed.path;
  const std::optional<std::string> name =
      DecodeUrlPart(path.substr(std::min(path.rfind('/') + 1, path.size())));
  if (!name.has_value() || !name->ends_with(".gguf") || name->front() == '.' ||
      name->find('/') != std::string::npos || !IsSafeRelativePath(*name)) {
    return InvalidArgument("invalid_value",
                           "the path of " + PublicPartOf(url) + " must end in a name like m.gguf");
  }
  UrlPlace place;
  place.url = WithoutQuery(url);
  FileHash hash(HashKind::kSha256, 0);
  hash.Update(std::as_bytes(std::span(place.url)));
  place.folder = settings.url_folder + "/" + hash.FinishHex().substr(0, 16);
  place.file = *name;
  return place;
}

struct UrlSource {
  std::string url, sha256;
  uint64_t bytes = 0;
};

std::optional<UrlSource> ReadSource(const std::string& folder) {
  const auto text = ReadTextFile(folder + "/" + kSourceFile, 8192, "io_error");
  if (!text.ok()) return std::nullopt;
  const auto json = protocol::ParseJson(*text);
  if (!json.ok() || !json->root().is_object()) return std::nullopt;
  UrlSource source;
  source.url = std::string(protocol::TextMember(json->root(), "url"));
  source.sha256 = std::string(protocol::TextMember(json->root(), "sha256"));
  return source;
}

Status WriteSource(const UrlPlace& place, const DownloadResult& result) {
  std::string text;
  protocol::JsonWriter(&text)
      .BeginObject()
      .Member("url", place.url)
      .Member("sha256", result.hash)
      .EndObject();
  const std::string path = place.folder + "/" + kSourceFile;
  auto file = NewFile::Create(path + ".tmp", NewFile::Meanwhile::kNameless, 0666);
  if (!file.has_value() || !file->Append(std::as_bytes(std::span(text))) ||
      file->KeepAs(path, true) == NewFile::Kept::kNot)
    return CacheError(path, errno);
  return OkStatus();
}

Result<CachedModel> ModelAt(const UrlPlace& place) {
  struct stat found {};
  const std::optional<UrlSource> source = ReadSource(place.folder);
  if (!source.has_value() || stat(place.path().c_str(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return NotFound("model_not_pulled",
                    place.url + " is not in the cache; run: tutti pull " + place.url);
  }
  CachedModel model;
  model.name.repository = place.url;
  model.path = place.path();
  model.bytes = static_cast<uint64_t>(found.st_size);
  model.files = 1;
  model.time_s = static_cast<int64_t>(found.st_mtime);
  model.parts.push_back(
      {.path = place.file, .size = model.bytes, .kind = HashKind::kSha256, .hash = source->sha256});
  return model;
}

Result<Descriptor> LockUrl(const UrlPlace& place, PullObserver* observer, bool wait) {
  std::error_code error;
  fs::create_directories(place.folder, error);
  if (error) return CacheError(place.folder, error.value());
  const std::string path = place.folder + "/.lock";
  ASSIGN_OR_RETURN(std::optional<Descriptor> lock, TryLockFile(path));
  if (!lock.has_value() && !wait) {
    return Unavailable("cache_busy", place.url + " is being pulled; remove it when that has ended");
  }
  if (!lock.has_value() && observer != nullptr) observer->Waiting(place.file);
  while (!lock.has_value()) {
    HubCache::PauseForLock();
    fs::create_directories(place.folder, error);  // the other process may have removed it
    if (error) return CacheError(place.folder, error.value());
    ASSIGN_OR_RETURN(lock, TryLockFile(path));
  }
  return *std::move(lock);
}

}  // namespace

uint64_t PullState::bytes() const {
  uint64_t sum = 0;
  for (const BlobState& blob : blobs) sum += blob.bytes;
  return sum;
}

Result<PulledModel> Pull(const HubName& name, const HubSettings& settings,
                         const PullOptions& options) {
  const HubCache cache(settings.cache_folder);
  PulledModel pulled;
  if (settings.offline) {
    const Result<CachedModel> here = cache.Find(name);
    if (!here.ok())
      return here.status().reason() == "model_not_pulled" ? Offline(name.ToString())
                                                          : here.status();
    return PulledModel{.path = here->path, .commit = here->commit, .bytes = here->bytes};
  }
  HubRevision revision;
  {
    HttpClient http(OptionsFor(settings, options.stop));
    ASSIGN_OR_RETURN(revision, Hub(settings, http).List(name));
  }
  ASSIGN_OR_RETURN(const FileChoice choice,
                   ChooseFiles(revision.files, name.quant, name.repository));
  RETURN_IF_ERROR(cache.Prepare(name.repository));
  RETURN_IF_ERROR(BlobPull(name, settings, options, cache, revision, choice).Run(&pulled.fetched));
  RETURN_IF_ERROR(cache.Publish(name, revision.commit, choice));
  for (const HubFile& file : choice.files) pulled.bytes += file.size;
  pulled.commit = revision.commit;
  pulled.path = cache.RepositoryFolder(name.repository) + "/snapshots/" + revision.commit;
  if (!choice.entry.empty()) pulled.path += "/" + choice.entry;
  return pulled;
}

bool IsUrl(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

Result<PulledModel> PullUrl(const std::string& url, const std::string& sha256,
                            const HubSettings& settings, const PullOptions& options) {
  ASSIGN_OR_RETURN(const UrlPlace place, PlaceOf(url, settings));
  if (!sha256.empty() && !IsHashText(HashKind::kSha256, sha256))
    return InvalidArgument("invalid_value", "--sha256 must be 64 hexadecimal digits");
  if (settings.offline && !ModelAt(place).ok()) return Offline(place.url);
  ASSIGN_OR_RETURN(const Descriptor lock, LockUrl(place, options.observer, true));
  if (const Result<CachedModel> here = ModelAt(place); here.ok()) {
    if (!sha256.empty() && here->parts.front().hash != sha256) {
      return Status(StatusCode::kFailedPrecondition, "already_different",
                    place.url + " is here with SHA-256 " + here->parts.front().hash +
                        "; remove it with tutti models rm");
    }
    return PulledModel{.path = here->path, .bytes = here->bytes};
  }
  PullState state;
  state.name = place.url;
  state.folder = place.folder;
  state.files = 1;
  HttpClient http(OptionsFor(settings, options.stop));
  DownloadTarget target;
  target.name = place.file;
  target.url = url;
  target.page = place.url;
  target.partial = place.path() + ".incomplete";
  target.path = place.path();
  target.hash = sha256;
  target.validator_file = target.partial + ".etag";
  target.begins_with = "GGUF";
  const uint64_t partial = PartialBytes(target.partial);
  state.blobs.emplace_back().bytes = partial;
  RETURN_IF_ERROR(CheckSpace(place.folder, 1));
  if (options.observer != nullptr) options.observer->Planned(state);
  Result<DownloadResult> downloaded = Download(http, target, &state.blobs.front().bytes);
  if (options.observer != nullptr) options.observer->Finished();
  ASSIGN_OR_RETURN(const DownloadResult result, std::move(downloaded));
  RETURN_IF_ERROR(WriteSource(place, result));
  return PulledModel{.path = place.path(),
                     .bytes = result.size,
                     .fetched = result.size - std::min(partial, result.size)};
}

Result<CachedModel> FindUrl(const std::string& url, const HubSettings& settings) {
  ASSIGN_OR_RETURN(const UrlPlace place, PlaceOf(url, settings));
  return ModelAt(place);
}

std::vector<CachedModel> ListUrls(const HubSettings& settings) {
  std::vector<CachedModel> models;
  std::error_code error;
  for (fs::directory_iterator at(settings.url_folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::optional<UrlSource> source = ReadSource(at->path().string());
    if (!source.has_value()) continue;
    Result<CachedModel> model = FindUrl(source->url, settings);
    if (model.ok()) models.push_back(*std::move(model));
  }
  std::sort(models.begin(), models.end(), [](const CachedModel& a, const CachedModel& b) {
    return a.name.repository < b.name.repository;
  });
  return models;
}

Result<uint64_t> RemoveUrl(const std::string& url, const HubSettings& settings) {
  ASSIGN_OR_RETURN(const UrlPlace place, PlaceOf(url, settings));
  ASSIGN_OR_RETURN(const CachedModel model, ModelAt(place));
  ASSIGN_OR_RETURN(const Descriptor lock, LockUrl(place, nullptr, false));
  std::error_code error;
  fs::remove_all(place.folder, error);
  if (error) return CacheError(place.folder, error.value());
  return model.bytes;
}

}  // namespace tutti::models
