#include "app/local_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>
#include <utility>

#include "app/version.h"
#include "base/quote.h"

namespace tutti::app {
namespace {

// Loading may run on a thread of its own, which no exception may leave.
template <typename Work>
auto WithoutThrowing(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out_of_memory", "not enough memory to load the model");
  } catch (const std::system_error& error) {
    return Internal(std::string("cannot start a thread: ") + error.what());
  }
}

}  // namespace

LocalInference::LocalInference(const Settings& settings, telemetry::MetricsRegistry* metrics,
                               Logger* log)
    : settings_(settings),
      metrics_(metrics),
      device_(std::make_shared<Device>(&clock_, ThreadsFromSettings(settings))),
      gateway_({.prep = static_cast<int>(settings.Int("prep")),
                .prep_threads = static_cast<int>(settings.Int("prep-threads")),
                .reasoning = api::ParseReasoningMode(settings.Text("reasoning")),
                .log = log},
               clock_),
      log_(log) {}

LocalInference::~LocalInference() = default;

void LocalInference::Expect(std::vector<std::string> names) {
  {
    const MutexLock lock(mutex_);
    expected_ = names.size();
  }
  gateway_.Expect(std::move(names));
}

Result<OpenedModel> LocalInference::Open(const ModelRef& ref, bool fuse) const {
  return OpenedModel::Open(ref, {.settings = &settings_,
                                 .clock = &clock_,
                                 .metrics = metrics_,
                                 .version = kVersion,
                                 .fuse = fuse,
                                 .prefixes = prefixes_});
}

Result<OpenedModel> LocalInference::OpenInBackground(const ModelRef& ref) const {
  // Requests that run keep half of the threads.
  const int threads = device_->threads();
  const int pack_threads = gateway_.Load().running > 0 ? std::max(1, threads / 2) : threads;
  return WithoutThrowing([&] {
    return OpenedModel::Open(ref, {.settings = &settings_,
                                   .clock = &clock_,
                                   .metrics = metrics_,
                                   .version = kVersion,
                                   .prefixes = prefixes_,
                                   .pack_threads = pack_threads});
  });
}

Status LocalInference::Load(OpenedModel model, std::function<bool(size_t, size_t)> progress,
                            bool step_by_hand) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const gateway::ServedModel> served,
                   Make(std::move(model), std::move(progress), step_by_hand));
  return Serve(served);
}

Result<std::shared_ptr<const gateway::ServedModel>> LocalInference::Make(
    OpenedModel model, std::function<bool(size_t, size_t)> progress, bool step_by_hand) {
  using Served = Result<std::shared_ptr<const gateway::ServedModel>>;
  return WithoutThrowing([&]() -> Served {
    Served served = std::move(model).Load(std::move(progress), device_);
    if (served.ok() && !step_by_hand) device_->Start();
    return served;
  });
}

Status LocalInference::Serve(const std::shared_ptr<const gateway::ServedModel>& served) {
  return WithoutThrowing([&] { return ServeWithAdapters(served); });
}

Status LocalInference::ServeWithAdapters(
    const std::shared_ptr<const gateway::ServedModel>& served) {
  std::vector<std::shared_ptr<const gateway::ServedModel>> adapters;
  const std::vector<KeptAdapter> kept = KeptAdaptersOf(*served);
  for (const KeptAdapter& adapter : kept) {
    auto opened = OpenAdapter(*served, adapter.ref, adapter.root);
    if (!opened.ok() && adapter.at_start) return std::move(opened).status();
    if (!opened.ok()) AbandonAdapter(adapter.ref.name, opened.status());
    adapters.push_back(opened.ok() ? *std::move(opened) : nullptr);
  }
  {
    const MutexLock lock(mutex_);
    served_.push_back(served);
    if (expected_ > 0) --expected_;
  }
  if (draining_.load()) served->BeginDrain();
  gateway_.AddModel(served);
  for (size_t i = 0; i < kept.size(); ++i) {
    // It may have been unloaded, or another one loaded under its name, since its files were read.
    if (adapters[i] == nullptr || !Keeps(kept[i].ref)) continue;
    Status added = gateway_.AddAdapter(adapters[i], false);
    if (added.ok()) {
      // An unload between the two lines above did not find it in the gateway.
      if (!Keeps(kept[i].ref)) (void)gateway_.RemoveAdapter(kept[i].ref.name);
      continue;
    }
    if (!kept[i].at_start) {
      AbandonAdapter(kept[i].ref.name, added);
      continue;
    }
    gateway_.RemoveModel(*served);
    Forget(*served);
    return added;
  }
  return OkStatus();
}

void LocalInference::UseAdapters(std::vector<AdapterRef> adapters) {
  const MutexLock lock(mutex_);
  for (AdapterRef& adapter : adapters)
    kept_.push_back({.ref = std::move(adapter), .root = "", .at_start = true});
}

void LocalInference::KeepAdapter(AdapterRef adapter, std::string root) {
  const MutexLock lock(mutex_);
  std::erase_if(kept_, [&](const KeptAdapter& kept) { return kept.ref.name == adapter.name; });
  kept_.push_back({.ref = std::move(adapter), .root = std::move(root)});
}

bool LocalInference::DropAdapter(const std::string& name) {
  const MutexLock lock(mutex_);
  return std::erase_if(kept_, [&](const KeptAdapter& kept) { return kept.ref.name == name; }) > 0;
}

std::vector<AdapterRef> LocalInference::KeptAdapters() const {
  const MutexLock lock(mutex_);
  std::vector<AdapterRef> adapters;
  for (const KeptAdapter& kept : kept_) {
    adapters.push_back(kept.ref);
    if (adapters.back().base.empty()) adapters.back().base = default_base_;
  }
  return adapters;
}

std::vector<LocalInference::KeptAdapter> LocalInference::KeptAdaptersOf(
    const gateway::ServedModel& base) {
  const MutexLock lock(mutex_);
  if (default_base_.empty() && base.info.generates) default_base_ = base.info.id;
  std::vector<KeptAdapter> adapters;
  for (const KeptAdapter& kept : kept_) {
    if ((kept.ref.base.empty() ? default_base_ : kept.ref.base) == base.info.id)
      adapters.push_back(kept);
  }
  return adapters;
}

bool LocalInference::Keeps(const AdapterRef& adapter) const {
  const MutexLock lock(mutex_);
  return std::any_of(kept_.begin(), kept_.end(), [&](const KeptAdapter& kept) {
    return kept.ref.name == adapter.name && kept.ref.path == adapter.path;
  });
}

void LocalInference::AbandonAdapter(const std::string& name, const Status& why) {
  (void)DropAdapter(name);
  if (log_ != nullptr) {
    log_->Warn("adapter.refused",
               {{"name", name}, {"code", why.reason()}, {"error", why.message()}});
  }
  gateway_.FailWaiting(
      name, Unavailable("model_load_failed",
                        fmt::format("adapter {} cannot be loaded again ({}); the server's log has "
                                    "the details",
                                    name, why.reason()))
                .WithParam("model"));
}

void LocalInference::Forget(const gateway::ServedModel& model) {
  const MutexLock lock(mutex_);
  std::erase_if(served_, [&](const auto& served) { return served.get() == &model; });
}

std::shared_ptr<const gateway::ServedModel> LocalInference::Loaded(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(served_.begin(), served_.end(),
                                  [&](const auto& served) { return served->info.id == name; });
  return found == served_.end() ? nullptr : *found;
}

Status LocalInference::StartDevice() {
  return WithoutThrowing([this]() -> Status {
    (void)device_->pool();
    device_->Start();
    return OkStatus();
  });
}

Result<std::shared_ptr<const gateway::ServedModel>> LocalInference::OpenAdapter(
    const gateway::ServedModel& base, const AdapterRef& adapter, const std::string& root) const {
  if (base.load_adapter == nullptr) {
    return BadValue("model", fmt::format("model {} takes no adapters; start with --lora-folder",
                                         Quote(base.info.id)));
  }
  auto loaded = base.load_adapter(adapter.path, root, adapter.scale);
  if (!loaded.ok()) {
    return std::move(loaded).status().WithContext(
        fmt::format("adapter {} ({})", adapter.name, Quote(adapter.path, 256)));
  }
  for (const std::string& remark : loaded->remarks)
    std::fprintf(stderr, "tutti: adapter %s: %s\n", Printable(adapter.name).c_str(),
                 Printable(remark).c_str());
  auto model = gateway::WithAdapter(base, adapter.name, std::move(loaded->adapter));
  model->summary = std::move(loaded->summary);
  return std::shared_ptr<const gateway::ServedModel>(std::move(model));
}

void LocalInference::LoadFailed(const Status& why) {
  const MutexLock lock(mutex_);
  load_failure_ = why.reason();
}

std::vector<std::shared_ptr<const gateway::ServedModel>> LocalInference::Served() const {
  const MutexLock lock(mutex_);
  return served_;
}

void LocalInference::BeginDrain() {
  draining_.store(true);
  for (const auto& model : Served()) model->BeginDrain();
}

bool LocalInference::Drain(Duration limit) {
  BeginDrain();
  const TimePoint deadline = clock_.Now() + limit;
  bool all = true;
  for (const auto& model : Served()) all = model->Drain(deadline) && all;
  return all;
}

Status LocalInference::started() const {
  const MutexLock lock(mutex_);
  if (!load_failure_.empty()) {
    return Unavailable("model_loading", "the model could not be loaded: " + load_failure_);
  }
  if (expected_ > 0) return Unavailable("model_loading", "the model is still being loaded");
  return OkStatus();
}

Status LocalInference::live() const {
  for (const auto& model : Served()) RETURN_IF_ERROR(model->Live());
  return OkStatus();
}

Status LocalInference::ready() const {
  if (draining_.load()) return Draining();
  RETURN_IF_ERROR(started());
  return live();
}

}  // namespace tutti::app
