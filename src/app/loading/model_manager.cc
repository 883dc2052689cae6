#include "app/loading/model_manager.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "api/validate.h"
#include "app/loading/model_folder.h"
#include "app/process/memory.h"
#include "base/ascii.h"
#include "base/go_duration.h"
#include "base/quote.h"
#include "base/threads.h"

namespace tutti::app {
namespace {

using api::ModelState;
using std::chrono::milliseconds;

// Interval at which the loader looks whether requests of unloaded models have ended.
constexpr milliseconds kPoll(5);
// A list of more models is published at most this often for those whose headers alone were read.
constexpr size_t kFewModels = 64;
constexpr milliseconds kPublishEvery(250);
// A model that failed to load is not tried again for this long: each attempt reads its files.
constexpr std::chrono::seconds kRetryFailed(5);
// A busy model is evicted for one that has waited this long, but not before it was loaded this
// long: it answers the requests that it was loaded for.
constexpr milliseconds kWaitForIdle(200), kLeastStay(1000);
// Share of the process's memory limit that models may take if no budget is set: the rest is for
// requests.
constexpr double kDefaultShare = 0.9;
// Nice value of the thread that packs weights. At 19 a load next to busy processes took more than a
// minute; at 5 it gets about a quarter of a core that an engine keeps busy.
constexpr int kPackNice = 5;

// Runs `work` on a thread of low priority, so that loading takes few turns from running models.
// Errors: internal_error where the system refuses a thread.
template <typename Work>
Status AtLowPriority(const Work& work) {
  try {
    std::thread thread([&work] {
      NameThread("tutti-pack");
      // Linux takes it for the calling thread, and the threads that it starts.
      (void)setpriority(PRIO_PROCESS, 0, kPackNice);
      work();
    });
    thread.join();
    return OkStatus();
  } catch (const std::system_error& error) {
    return Internal(std::string("cannot start a thread: ") + error.what());
  }
}

std::string_view NameOf(ModelManager::UnloadReason why) {
  using enum ModelManager::UnloadReason;
  return why == kRequest ? "request" : why == kKeepAlive ? "keep_alive" : "evicted";
}

// "a, b" -> {"a", "b"}
std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (const std::string_view name = Trimmed(text.substr(0, comma)); !name.empty())
      names.emplace_back(name);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

int64_t MiB(int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

}  // namespace

Result<Duration> ParseKeepAlive(std::string_view text, const std::string& param) {
  if (text == "off") return api::kForever;
  const bool plain = !text.empty() && text.back() >= '0' && text.back() <= '9';
  const std::optional<Duration> parsed = ParseGoDuration(std::string(text) + (plain ? "s" : ""));
  if (!parsed.has_value()) {
    return BadValue(param, param + " must be a time such as 5m or 300 (seconds), 0, or off, not " +
                               Quote(text, 32));
  }
  return *parsed < Duration::zero() ? api::kForever : *parsed;
}

Result<ModelManagerOptions> ModelManagerOptionsFrom(const Settings& settings) {
  ModelManagerOptions options;
  options.folder = settings.Text("models");
  options.pins = SplitNames(settings.Text("pin"));
  const int64_t limit = MemoryLimitFrom(settings);
  options.budget = settings.OptionalInt("memory.budget")
                       .value_or(static_cast<int64_t>(static_cast<double>(limit) * kDefaultShare));
  options.budget_is_set = settings.OptionalInt("memory.budget").has_value();
  ASSIGN_OR_RETURN(options.keep_alive, ParseKeepAlive(settings.Text("keep-alive"), "keep-alive"));
  options.wait = settings.Text("load.on_demand") == "wait";
  options.wait_limits.time = FromSeconds(settings.Number("load.wait_s"));
  options.wait_limits.requests = static_cast<size_t>(settings.Int("load.queue"));
  options.unload_limit = FromSeconds(settings.Number("drain_s"));
  return options;
}

ModelManager::ModelManager(ModelManagerOptions options, LocalInference& inference, Logger& log)
    : options_(std::move(options)),
      inference_(inference),
      gateway_(inference.gateway()),
      clock_(inference.clock()),
      log_(log) {
  gateway_.UseSource(this, options_.wait_limits);
  inference_.UseControl(this);
}

ModelManager::~ModelManager() { Stop(); }

Status ModelManager::List(const std::vector<ModelRef>& models, const std::vector<int64_t>& bytes) {
  std::vector<ModelRef> folder;
  if (!options_.folder.empty()) {
    Result<std::vector<ModelRef>> found = ModelsInFolder(options_.folder);
    if (!found.ok()) return std::move(found).status().WithParam("models");
    folder = *std::move(found);
  }
  const MutexLock lock(mutex_);
  int64_t sum = 0;
  for (size_t i = 0; i < models.size(); ++i) {
    auto entry = std::make_unique<Entry>();
    entry->ref = models[i];
    entry->info.id = models[i].served_name;
    entry->pinned = true;
    entry->state = ModelState::kLoading;  // by the caller
    sum += entry->bytes = bytes[i];
    entries_.push_back(std::move(entry));
  }
  if (options_.budget_is_set && sum > options_.budget) {
    return BadValue("memory.budget",
                    fmt::format("the models on the command line need {} MiB, memory budget {} MiB; "
                                "raise --memory-budget or lower --kv-cache-bytes",
                                MiB(sum), MiB(options_.budget)));
  }
  MergeFolder(std::move(folder));
  for (const std::string& name : options_.pins) {
    Entry* const entry = FindLocked(name);
    if (entry == nullptr) {
      return BadValue("pin",
                      fmt::format("--pin names no model of {}: {}",
                                  options_.folder.empty() ? "the command line" : options_.folder,
                                  Quote(name, 64)));
    }
    entry->pinned = true;
    if (entry->state == ModelState::kUnloaded) (void)WantLocked(*entry, false);
  }
  Publish();
  return OkStatus();
}

Status ModelManager::Start() {
  RETURN_IF_ERROR(inference_.StartDevice());
  std::vector<Done> loaded;  // by the caller, since they were asked for
  {
    const MutexLock lock(mutex_);
    for (const auto& entry : entries_) {
      if (entry->state != ModelState::kLoading) continue;
      entry->served = inference_.Loaded(entry->ref.served_name);
      if (entry->served == nullptr) continue;
      entry->state = ModelState::kLoaded;
      entry->loaded_at = clock_.Now();
      entry->info = entry->served->info;
      entry->bytes = entry->info.status.memory_bytes;
      entry->known = true;
      for (Done& done : TakeLoads(*entry)) loaded.push_back(std::move(done));
    }
    Publish();
  }
  CallAll(loaded, OkStatus());
  try {
    thread_ = std::thread([this] { Main(); });
  } catch (const std::system_error& error) {
    return Internal(std::string("cannot start a thread: ") + error.what());
  }
  return OkStatus();
}

void ModelManager::Stop() {
  {
    const MutexLock lock(mutex_);
    stop_.store(true);
    cancel_load_.store(true);
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  std::vector<Done> left;
  std::vector<std::string> names;
  {
    const MutexLock lock(mutex_);
    for (const auto& entry : entries_) {
      names.push_back(entry->ref.served_name);
      for (Done& done : TakeLoads(*entry)) left.push_back(std::move(done));
      for (std::vector<Done>* list : {&entry->on_unloaded, &entry->on_removed}) {
        left.insert(left.end(), list->begin(), list->end());
        list->clear();
      }
    }
  }
  for (const std::string& name : names) gateway_.FailWaiting(name, Draining());
  CallAll(left, Draining());
}

// --- other threads ---

ModelManager::Entry* ModelManager::FindLocked(const std::string& model) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    const std::vector<std::string>& aliases = entry->aliases;
    return entry->ref.served_name == model ||
           std::find(aliases.begin(), aliases.end(), model) != aliases.end();
  });
  return found == entries_.end() ? nullptr : found->get();
}

Status ModelManager::WantLocked(Entry& entry, bool retry) {
  if (stop_.load()) return Draining();
  if (!entry.on_removed.empty()) return api::ModelNotFound(entry.ref.served_name);
  if (!retry && entry.state == ModelState::kFailed && clock_.Now() - entry.failed_at < kRetryFailed)
    return entry.failure;
  const bool there = entry.state == ModelState::kLoaded || entry.state == ModelState::kLoading;
  if (there && !entry.unload) return OkStatus();
  if (entry.wanted == 0) {
    entry.wanted = ++wishes_;
    entry.wanted_since = clock_.Now();
    changed_.NotifyAll();
  }
  return OkStatus();
}

Status ModelManager::Want(const std::string& model) {
  const MutexLock lock(mutex_);
  Entry* entry = FindLocked(model);
  for (const AdapterRef& adapter : inference_.KeptAdapters()) {
    if (entry == nullptr && adapter.name == model) entry = FindLocked(adapter.base);
  }
  if (entry == nullptr) return api::ModelNotFound(model);
  RETURN_IF_ERROR(WantLocked(*entry, false));
  if (options_.wait) return OkStatus();
  return Unavailable("model_loading", "model " + model + " is being loaded; retry later")
      .WithRetryAfter(std::chrono::seconds(1));
}

void ModelManager::Load(const std::string& model, Done done) {
  Status status;
  {
    const MutexLock lock(mutex_);
    Entry* const entry = FindLocked(model);
    const bool waits = entry != nullptr && (entry->state != ModelState::kLoaded || entry->unload);
    if (entry == nullptr) {
      status = api::ModelNotFound(model);
    } else if (const size_t waiting = waits ? LoadsThatWait() : 0;
               waits && waiting >= options_.wait_limits.requests) {
      status = Unavailable("queue_full",
                           fmt::format("{} calls wait for models that are being loaded, limit {}; "
                                       "retry later",
                                       waiting, options_.wait_limits.requests));
    } else {
      status = WantLocked(*entry, true);
    }
    if (status.ok() && waits) {
      entry->on_loaded.push_back({std::move(done), clock_.Now()});
      return;
    }
  }
  done(std::move(status));
}

std::vector<ModelManager::Done> ModelManager::TakeLoads(Entry& entry) {
  std::vector<Done> taken;
  for (LoadWait& wait : entry.on_loaded) taken.push_back(std::move(wait.done));
  entry.on_loaded.clear();
  return taken;
}

size_t ModelManager::LoadsThatWait() const {
  size_t waiting = 0;
  for (const auto& entry : entries_) waiting += entry->on_loaded.size();
  return waiting;
}

void ModelManager::Unload(const std::string& model, Done done) {
  Status status;
  std::string name = model;  // its own, of which requests wait
  std::vector<Done> loads;
  bool waits = false;
  {
    const MutexLock lock(mutex_);
    Entry* const entry = FindLocked(model);
    if (entry == nullptr) {
      status = api::ModelNotFound(model);
    } else if (stop_.load()) {
      status = Draining();
    } else {
      name = entry->ref.served_name;
      waits = !Rests(*entry);
      entry->wanted = 0;
      entry->opened.reset();
      if (entry->state != ModelState::kLoading) loads = TakeLoads(*entry);
      if (entry->state == ModelState::kLoading) cancel_load_.store(true);
      if (waits && entry->state != ModelState::kUnloading && !entry->unload) {
        entry->unload = true;
        entry->why = UnloadReason::kRequest;
      }
      if (waits) entry->on_unloaded.push_back(std::move(done));
      changed_.NotifyAll();
    }
  }
  const Status unloaded = Unavailable("model_loading", "model " + name + " was unloaded");
  CallAll(loads, unloaded);
  if (status.ok()) gateway_.FailWaiting(name, unloaded);
  if (!waits) done(std::move(status));
}

void ModelManager::KeepAlive(const std::string& model, Duration keep_alive) {
  const MutexLock lock(mutex_);
  Entry* const entry = FindLocked(model);
  if (entry == nullptr || entry->served == nullptr) return;
  gateway::ModelUse& use = *entry->served->use;
  use.keep_alive_ns.store(keep_alive.count());
  use.last_ns.store(clock_.Now().time_since_epoch().count());
}

ModelManager::Stats ModelManager::stats() const {
  const auto waiting = static_cast<int>(gateway_.waiting());
  const MutexLock lock(mutex_);
  Stats stats = counts_;
  for (const auto& entry : entries_) {
    ++stats.models[static_cast<size_t>(entry->state)];
    if (!Rests(*entry)) stats.bytes += entry->bytes;
  }
  stats.budget = options_.budget;
  stats.waiting = waiting;
  return stats;
}

void ModelManager::Look() {
  gateway_.EndWaiting();
  EndLateLoads();
  const MutexLock lock(mutex_);
  const TimePoint now = clock_.Now();
  for (const auto& entry : entries_) {
    if (entry->state != ModelState::kLoaded || entry->pinned || entry->unload) continue;
    gateway::ModelUse& use = *entry->served->use;
    if (!Idle(*entry)) use.last_ns.store(now.time_since_epoch().count());
    const Duration keep(use.keep_alive_ns.load());
    if (keep == api::kForever || !Idle(*entry)) continue;
    if (now - TimePoint(Duration(use.last_ns.load())) < keep) continue;
    entry->unload = true;
    entry->why = UnloadReason::kKeepAlive;
    changed_.NotifyAll();
  }
}

// A load that has begun ends by itself; one that waits for room may wait as long as other models
// have requests.
void ModelManager::EndLateLoads() {
  std::vector<std::pair<Done, Status>> late;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_.Now();
    for (const auto& entry : entries_) {
      if (entry->state == ModelState::kLoading) continue;
      std::erase_if(entry->on_loaded, [&](LoadWait& wait) {
        if (now - wait.since < options_.wait_limits.time) return false;
        late.emplace_back(
            std::move(wait.done),
            Unavailable("model_loading",
                        fmt::format("model {} was not loaded within {:.0f} s; retry later",
                                    entry->ref.served_name, ToSeconds(options_.wait_limits.time))));
        return true;
      });
    }
  }
  for (const auto& [done, why] : late) done(why);
}

// --- the loader thread ---

void ModelManager::Main() {
  NameThread("tutti-loader");
  while (true) {
    Work work = WaitForWork();
    switch (work.job) {
      case Job::kNone:
        break;
      case Job::kStop:
        return;
      case Job::kOpen:
        RunOpen(*work.entry);
        break;
      case Job::kLoad:
        RunLoad(*work.entry, *std::move(work.opened));
        break;
      case Job::kRefuse:
        Fail(*work.entry, work.why);
        break;
      case Job::kEndRequests:
        log_.Warn("model.unload_limit", {{"model", work.entry->ref.served_name},
                                         {"requests", work.entry->served->unfinished()},
                                         {"limit_s", ToSeconds(options_.unload_limit)}});
        (void)work.entry->served->Drain(clock_.Now());
        break;
      case Job::kRelease:
        RunRelease(*work.entry);
        break;
      case Job::kRemove:
        RunRemove(*work.entry);
        break;
      case Job::kRescan:
        RunRescan();
        break;
    }
  }
}

ModelManager::Work ModelManager::WaitForWork() {
  const MutexLock lock(mutex_);
  while (true) {
    if (stop_.load()) return {.job = Job::kStop};
    Work work = NextWork(clock_.Now());
    if (work.job != Job::kNone) return work;
    const bool polls = std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) {
      return entry->state == ModelState::kUnloading || entry->wanted != 0;
    });
    if (polls) {
      (void)changed_.WaitFor(mutex_, kPoll);
    } else {
      changed_.Wait(mutex_);
    }
  }
}

// No request runs, and none has found the model and is on its way to it: other references than the
// entry's, the gateway's and that of LocalInference are requests'.
bool ModelManager::Idle(const Entry& entry) {
  constexpr long kOwn = 3;  // NOLINT(google-runtime-int): the type of use_count()
  return entry.served->unfinished() == 0 && entry.served.use_count() <= kOwn;
}

ModelManager::Work ModelManager::NextWork(TimePoint now) {
  Work work = ChooseWork(now);
  if (unpublished_ && work.job != Job::kOpen) Publish();
  return work;
}

ModelManager::Work ModelManager::ChooseWork(TimePoint now) {
  for (const auto& entry : entries_) {
    if (entry->state == ModelState::kLoaded && entry->unload) BeginUnload(*entry, entry->why, now);
  }
  for (const auto& entry : entries_) {
    if (entry->state != ModelState::kUnloading) continue;
    // The gateway's reference is gone.
    if (entry->served->unfinished() == 0 && entry->served.use_count() <= 2 &&
        entry->served->engine.use_count() <= 1)  // of adapters
      return {.job = Job::kRelease, .entry = entry.get()};
    if (!entry->ended && now - entry->unload_since >= options_.unload_limit) {
      entry->ended = true;
      return {.job = Job::kEndRequests, .entry = entry.get()};
    }
  }
  if (ForgetGone()) Publish();
  // Before loads: what is loaded next may have new files.
  if (rescan_) {
    rescan_ = false;
    return {.job = Job::kRescan};
  }
  if (Work load = NextLoad(now); load.job != Job::kNone) return load;
  for (const auto& entry : entries_) {
    if (!entry->on_removed.empty()) return {.job = Job::kRemove, .entry = entry.get()};
  }
  for (const auto& entry : entries_) {
    if (!entry->known && entry->state == ModelState::kUnloaded)
      return {.job = Job::kOpen, .entry = entry.get()};
  }
  return {};
}

ModelManager::Work ModelManager::NextLoad(TimePoint now) {
  Entry* next = nullptr;
  for (const auto& entry : entries_) {
    if (!Rests(*entry) || entry->wanted == 0) continue;
    if (next == nullptr || entry->wanted < next->wanted) next = entry.get();
  }
  if (next == nullptr) return {};
  if (!next->opened.has_value()) return {.job = Job::kOpen, .entry = next};
  switch (MakeRoom(*next, now)) {
    case Fit::kWaits:
      return {};
    case Fit::kNever:
      return {.job = Job::kRefuse, .entry = next, .why = TooLarge(*next)};
    case Fit::kFits:
      break;
  }
  next->state = ModelState::kLoading;
  next->wanted = 0;
  next->failure = OkStatus();
  cancel_load_.store(false);
  Publish();
  Work work{.job = Job::kLoad, .entry = next, .opened = std::move(next->opened)};
  next->opened.reset();
  return work;
}

ModelManager::Fit ModelManager::MakeRoom(const Entry& entry, TimePoint now) {
  if (options_.budget <= 0) return Fit::kFits;
  while (true) {
    int64_t used = 0, pinned = 0, leaving = 0;
    for (const auto& other : entries_) {
      if (Rests(*other)) continue;
      used += other->bytes;
      if (other->pinned && other->state != ModelState::kUnloading) pinned += other->bytes;
      if (other->state == ModelState::kUnloading) leaving += other->bytes;
    }
    if (used + entry.bytes <= options_.budget) return Fit::kFits;
    if (pinned + entry.bytes > options_.budget) return Fit::kNever;
    if (used - leaving + entry.bytes <= options_.budget) return Fit::kWaits;
    Entry* const victim = Victim(entry, now);
    if (victim == nullptr) return Fit::kWaits;
    BeginUnload(*victim, UnloadReason::kEvicted, now);
  }
}

// The idle model that was used least recently. Where all are busy, `entry` must not wait for ever:
// the one that was loaded first leaves, once it has stayed for a while.
ModelManager::Entry* ModelManager::Victim(const Entry& entry, TimePoint now) {
  Entry *idle = nullptr, *busy = nullptr;
  const auto used = [](const Entry& each) { return each.served->use->last_ns.load(); };
  for (const auto& other : entries_) {
    if (other->state != ModelState::kLoaded || other->pinned) continue;
    if (Idle(*other)) {
      if (idle == nullptr || used(*other) < used(*idle)) idle = other.get();
    } else if (now - other->loaded_at >= kLeastStay) {
      if (busy == nullptr || other->loaded_at < busy->loaded_at) busy = other.get();
    }
  }
  if (idle != nullptr) return idle;
  return now - entry.wanted_since >= kWaitForIdle ? busy : nullptr;
}

void ModelManager::BeginUnload(Entry& entry, UnloadReason why, TimePoint now) {
  entry.state = ModelState::kUnloading;
  entry.unload = false;
  entry.why = why;
  entry.unload_since = now;
  entry.ended = false;
  // Later requests wait, and want the model again.
  gateway_.RemoveModel(*entry.served);
  Publish();
  log_.Info("model.unloading", {{"model", entry.ref.served_name},
                                {"why", NameOf(why)},
                                {"requests", entry.served->unfinished()}});
}

Status ModelManager::TooLarge(const Entry& entry) const {
  int64_t pinned = 0;
  for (const auto& other : entries_) {
    if (other->pinned && other->state == ModelState::kLoaded) pinned += other->bytes;
  }
  return Status(StatusCode::kFailedPrecondition, "model_too_large",
                fmt::format("model {} needs {} MiB, memory budget {} MiB, pinned models {} MiB; "
                            "raise --memory-budget or lower --kv-cache-bytes",
                            entry.ref.served_name, MiB(entry.bytes), MiB(options_.budget),
                            MiB(pinned)))
      .WithParam("model");
}

Status ModelManager::FailureOf(const Entry& entry, const Status& why) {
  if (why.reason() == "model_too_large" || why.reason() == "draining" ||
      why.reason() == "model_loading")
    return why;
  return Unavailable("model_load_failed",
                     fmt::format("model {} cannot be loaded ({}); the server's log has the details",
                                 entry.ref.served_name, why.reason()))
      .WithParam("model");
}

void ModelManager::Fail(Entry& entry, const Status& why) {
  const Status failure = FailureOf(entry, why);
  log_.Warn("model.load_failed",
            {{"model", entry.ref.served_name}, {"code", why.reason()}, {"error", why.message()}});
  std::vector<Done> loaded, unloaded;
  {
    const MutexLock lock(mutex_);
    const bool stopped = failure.reason() == "model_loading";
    entry.state = stopped ? ModelState::kUnloaded : ModelState::kFailed;
    entry.failure = stopped ? OkStatus() : failure;
    entry.failed_at = clock_.Now();
    entry.wanted = 0;
    entry.unload = false;
    entry.opened.reset();
    loaded = TakeLoads(entry);
    unloaded.swap(entry.on_unloaded);
    if (!stopped) ++counts_.failed_loads;
    Publish();
  }
  gateway_.FailWaiting(entry.ref.served_name, failure);
  CallAll(loaded, failure);
  CallAll(unloaded, OkStatus());
}

void ModelManager::RunOpen(Entry& entry) {
  std::optional<Result<OpenedModel>> opened;
  const Status started =
      AtLowPriority([&] { opened.emplace(inference_.OpenInBackground(entry.ref)); });
  if (!started.ok()) return Fail(entry, started);
  if (!opened->ok()) return Fail(entry, opened->status());
  const MutexLock lock(mutex_);
  entry.known = true;
  entry.info = (*opened)->info();
  entry.bytes = entry.info.status.memory_bytes;
  if (entry.wanted != 0) entry.opened.emplace(**std::move(opened));
  // Thousands of headers may be read one after the other, and each list is made anew.
  if (entry.wanted != 0 || entries_.size() <= kFewModels ||
      clock_.Now() - published_at_ >= kPublishEvery) {
    Publish();
  } else {
    unpublished_ = true;
  }
}

void ModelManager::RunLoad(Entry& entry, OpenedModel opened) {
  const std::string& name = entry.ref.served_name;
  const int64_t bytes = entry.bytes;
  log_.Info("model.loading", {{"model", name}, {"bytes", bytes}});
  if (on_memory_) on_memory_(bytes);
  const TimePoint begin = clock_.Now();
  Result<std::shared_ptr<const gateway::ServedModel>> made = Internal("not loaded");
  const Status started = AtLowPriority([&] {
    made = inference_.Make(std::move(opened), [this](size_t /*done*/, size_t /*total*/) {
      return !cancel_load_.load();
    });
  });
  if (!started.ok()) made = started;
  const Duration took = clock_.Now() - begin;
  if (!made.ok()) {
    malloc_trim(0);
    if (on_memory_) on_memory_(-bytes);
    const bool cancelled = cancel_load_.load();
    return Fail(
        entry, cancelled ? Unavailable("model_loading", "loading of model " + name + " was stopped")
                         : made.status());
  }
  const std::shared_ptr<const gateway::ServedModel> served = *std::move(made);
  malloc_trim(0);  // what only loading needed
  gateway::ModelUse& use = *served->use;
  if (!entry.pinned) use.default_keep_alive_ns = options_.keep_alive.count();
  if (const Status adapters = inference_.Serve(served); !adapters.ok()) {
    if (on_memory_) on_memory_(-bytes);
    return Fail(entry, adapters);
  }
  const int64_t actual = served->info.status.memory_bytes;
  if (on_memory_) on_memory_(actual - bytes);
  std::vector<Done> loaded;
  {
    const MutexLock lock(mutex_);
    entry.info = served->info;
    entry.bytes = actual;
    entry.served = served;
    entry.state = ModelState::kLoaded;
    entry.loaded_at = clock_.Now();
    loaded = TakeLoads(entry);
    ++counts_.loads;
    counts_.loading += took;
    Publish();
  }
  log_.Info("model.loaded", {{"model", name}, {"bytes", actual}, {"seconds", ToSeconds(took)}});
  CallAll(loaded, OkStatus());
}

void ModelManager::RunRelease(Entry& entry) {
  std::shared_ptr<const gateway::ServedModel> served;
  {
    const MutexLock lock(mutex_);
    served = std::move(entry.served);
    entry.served = nullptr;
  }
  inference_.Forget(*served);
  // A health probe may hold a reference for a moment. The model must end on this thread: its engine
  // waits for the end of a step.
  while (served.use_count() > 1) std::this_thread::sleep_for(milliseconds(1));
  served.reset();
  malloc_trim(0);
  std::vector<Done> unloaded;
  int64_t bytes = 0;
  Duration took{0};
  UnloadReason why = UnloadReason::kRequest;
  {
    const MutexLock lock(mutex_);
    entry.state = ModelState::kUnloaded;
    bytes = entry.bytes;
    took = clock_.Now() - entry.unload_since;
    why = entry.why;
    unloaded.swap(entry.on_unloaded);
    ++counts_.unloads[static_cast<size_t>(why)];
    Publish();
  }
  if (on_memory_) on_memory_(-bytes);
  log_.Info("model.unloaded", {{"model", entry.ref.served_name},
                               {"why", NameOf(why)},
                               {"bytes", bytes},
                               {"seconds", ToSeconds(took)}});
  CallAll(unloaded, OkStatus());
}

}  // namespace tutti::app
