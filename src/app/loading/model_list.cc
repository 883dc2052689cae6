// ModelManager: which models are listed, by what names: those of the folder, pulled ones, copies.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "api/validate.h"
#include "app/loading/model_folder.h"
#include "app/loading/model_manager.h"
#include "base/quote.h"

namespace tutti::app {
namespace {

using api::ModelState;

// Names that a model may have next to its own, and models that may be listed: each is held in
// memory and sent in lists.
constexpr size_t kMaxAliases = 64, kMaxModels = kMaxFolderEntries;

Status NameIsTaken(const std::string& name) {
  return Status(StatusCode::kAlreadyExists, "model_exists",
                "another model is called " + Quote(name, 128) + "; delete it or choose a new name")
      .WithParam("model");
}

}  // namespace

void ModelManager::Relist() {
  const MutexLock lock(mutex_);
  Publish();
}

void ModelManager::Rescan() {
  const MutexLock lock(mutex_);
  if (options_.folder.empty()) return;
  rescan_ = true;
  changed_.NotifyAll();
}

std::vector<std::string> ModelManager::names() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    names.push_back(entry->ref.served_name);
    names.insert(names.end(), entry->aliases.begin(), entry->aliases.end());
  }
  return names;
}

bool ModelManager::Lists(const std::string& name) const {
  const MutexLock lock(mutex_);
  return FindLocked(name) != nullptr;
}

Status ModelManager::AddPulled(ModelRef ref, std::function<Status()> remove_files) {
  const MutexLock lock(mutex_);
  if (stop_.load()) return Draining();
  const auto same_files = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->ref.path == ref.path && entry->on_removed.empty();
  });
  if (same_files != entries_.end()) return AddAliasLocked(**same_files, ref.served_name);
  if (FindLocked(ref.served_name) != nullptr || IsAdapter(ref.served_name))
    return NameIsTaken(ref.served_name);
  if (entries_.size() >= kMaxModels) {
    return ResourceExhausted("model_limit",
                             fmt::format("{} models are listed, limit {}; remove one of them",
                                         entries_.size(), kMaxModels));
  }
  auto entry = std::make_unique<Entry>();
  entry->info.id = ref.served_name;
  entry->info.created_unix_s = UnixSeconds();
  entry->ref = std::move(ref);
  entry->remove_files = std::move(remove_files);
  entries_.push_back(std::move(entry));
  Publish();
  changed_.NotifyAll();  // its header is read
  return OkStatus();
}

bool ModelManager::IsAdapter(const std::string& name) const {
  const std::vector<AdapterRef> adapters = inference_.KeptAdapters();
  return std::any_of(adapters.begin(), adapters.end(),
                     [&](const AdapterRef& adapter) { return adapter.name == name; });
}

Status ModelManager::AddAliasLocked(Entry& entry, const std::string& alias) {
  const Entry* const named = FindLocked(alias);
  if (named == &entry) return OkStatus();
  if (named != nullptr || IsAdapter(alias)) return NameIsTaken(alias);
  if (entry.aliases.size() >= kMaxAliases) {
    return ResourceExhausted("alias_limit",
                             fmt::format("model {} has {} further names, limit {}; remove one",
                                         entry.ref.served_name, entry.aliases.size(), kMaxAliases));
  }
  entry.aliases.push_back(alias);
  Publish();
  return OkStatus();
}

Status ModelManager::AddAlias(const std::string& model, const std::string& alias) {
  const MutexLock lock(mutex_);
  Entry* const entry = FindLocked(model);
  if (entry == nullptr || !entry->on_removed.empty()) return api::ModelNotFound(model);
  return AddAliasLocked(*entry, alias);
}

void ModelManager::Remove(const std::string& model, Done done) {
  Status status;
  {
    const MutexLock lock(mutex_);
    Entry* const entry = FindLocked(model);
    if (entry == nullptr) {
      status = api::ModelNotFound(model);
    } else if (stop_.load()) {
      status = Draining();
    } else if (entry->ref.served_name != model) {
      std::erase(entry->aliases, model);
      Publish();
    } else if (status = CheckRemovable(*entry); status.ok()) {
      entry->on_removed.push_back(std::move(done));
      changed_.NotifyAll();
      return;
    }
  }
  done(std::move(status));
}

Status ModelManager::CheckRemovable(const Entry& entry) {
  const auto in_use = [&](const char* why) {
    return Status(StatusCode::kFailedPrecondition, "model_in_use",
                  fmt::format("model {} {}", entry.ref.served_name, why))
        .WithParam("model");
  };
  if (entry.pinned) return in_use("is pinned by the command line; restart without it");
  if (entry.in_folder) return in_use("is a file of --models; delete the file and reload");
  if (entry.remove_files == nullptr) return in_use("was not pulled; its files stay");
  if (!entry.aliases.empty())
    return in_use(
        fmt::format("has the further name {}; delete it first", entry.aliases.front()).c_str());
  if (!Rests(entry) || entry.wanted != 0) return in_use("is loaded; unload it first");
  return OkStatus();
}

bool ModelManager::ForgetGone() {
  return std::erase_if(entries_, [](const auto& entry) {
           return entry->gone && Rests(*entry) && entry->wanted == 0;
         }) != 0;
}

size_t ModelManager::folder_models() const {
  const MutexLock lock(mutex_);
  return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(),
                                           [](const auto& entry) { return entry->in_folder; }));
}

void ModelManager::Publish() {
  unpublished_ = false;
  published_at_ = clock_.Now();
  std::vector<api::ModelInfo> listed;
  for (const auto& entry : entries_) {
    api::ModelInfo info = entry->info;
    info.aliases = entry->aliases;
    info.status = {.state = entry->state,
                   .pinned = entry->pinned,
                   .memory_bytes = entry->bytes,
                   .failure = entry->failure.reason()};
    listed.push_back(std::move(info));
  }
  // Adapters of models that are not loaded, behind all models.
  for (const AdapterRef& adapter : inference_.KeptAdapters()) {
    const Entry* const base = FindLocked(adapter.base);
    if (base == nullptr || base->state == ModelState::kLoaded) continue;
    api::ModelInfo info = base->info;
    info.id = adapter.name;
    info.parent = adapter.base;
    info.aliases.clear();
    info.digest.clear();  // its own is known once it is loaded
    info.encoder.reset();
    info.status = {.state = base->state, .pinned = base->pinned};
    listed.push_back(std::move(info));
  }
  gateway_.List(std::move(listed));
  if (on_change_) on_change_();
}

void ModelManager::RunRemove(Entry& entry) {
  const Status removed = entry.remove_files();
  if (!removed.ok()) {
    log_.Warn("model.remove_failed", {{"model", entry.ref.served_name},
                                      {"code", removed.reason()},
                                      {"error", removed.message()}});
  }
  std::vector<Done> done;
  const std::string name = entry.ref.served_name;
  {
    const MutexLock lock(mutex_);
    done.swap(entry.on_removed);
    // A model whose files are gone already is no longer listed either.
    if (removed.ok() || removed.reason() == "model_not_pulled") {
      std::erase_if(entries_, [&](const auto& each) { return each.get() == &entry; });
    }
    Publish();
  }
  const bool busy = removed.reason() == "cache_busy";
  const Status failure =
      busy ? Status(StatusCode::kFailedPrecondition, "model_in_use",
                    fmt::format("model {} is being pulled; try again later", name))
           : Internal(fmt::format("the files of model {} cannot be removed", name));
  CallAll(done, removed.ok() || removed.reason() == "model_not_pulled" ? OkStatus() : failure);
}

void ModelManager::RunRescan() {
  Result<std::vector<ModelRef>> found = ModelsInFolder(options_.folder);
  if (!found.ok()) {
    return log_.Warn("models.folder",
                     {{"folder", options_.folder}, {"error", found.status().message()}});
  }
  const MutexLock lock(mutex_);
  MergeFolder(*std::move(found));
  Publish();
}

// The files may have been replaced, in another form too, or mended: entries that rest are read
// again now, others when they are loaded next. Entries in use stay until they rest, also without
// files.
void ModelManager::MergeFolder(std::vector<ModelRef> found) {
  std::set<std::string> there;
  for (const ModelRef& ref : found) there.insert(ref.served_name);
  for (const auto& entry : entries_)
    entry->gone = entry->in_folder && !there.contains(entry->ref.served_name);
  ForgetGone();
  for (ModelRef& ref : found) {
    if (Entry* const listed = FindLocked(ref.served_name); listed != nullptr) {
      // A name that a copy gave to another model stays with that model.
      if (!listed->in_folder || listed->ref.served_name != ref.served_name) continue;
      listed->ref = std::move(ref);
      listed->known = false;
      listed->opened.reset();
      if (!Rests(*listed)) continue;
      listed->state = ModelState::kUnloaded;
      listed->failure = OkStatus();
      continue;
    }
    // Else the name would mean the adapter or the file, depending on which is loaded.
    if (IsAdapter(ref.served_name)) {
      log_.Warn("models.name_taken",
                {{"model", ref.served_name},
                 {"error", "an adapter has this name; unload it or rename the file"}});
      continue;
    }
    auto entry = std::make_unique<Entry>();
    entry->info.id = ref.served_name;
    entry->info.created_unix_s = UnixSeconds();
    entry->in_folder = true;
    entry->ref = std::move(ref);
    entries_.push_back(std::move(entry));
  }
  const auto folder = std::stable_partition(entries_.begin(), entries_.end(),
                                            [](const auto& entry) { return !entry->in_folder; });
  std::sort(folder, entries_.end(),
            [](const auto& a, const auto& b) { return a->ref.served_name < b->ref.served_name; });
}

}  // namespace tutti::app
