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
               clock_) {}

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
  return OpenedModel::Open(ref, {.settings = &settings_,
                                 .clock = &clock_,
                                 .metrics = metrics_,
                                 .version = kVersion,
                                 .prefixes = prefixes_,
                                 .pack_threads = std::max(1, device_->threads() / 2)});
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
  ASSIGN_OR_RETURN(const auto adapters, OpenAdapters(*served));
  {
    const MutexLock lock(mutex_);
    served_.push_back(served);
    if (expected_ > 0) --expected_;
  }
  if (draining_.load()) served->BeginDrain();
  gateway_.AddModel(served);
  for (const auto& adapter : adapters) {
    if (Status added = gateway_.AddAdapter(adapter, false); !added.ok()) {
      gateway_.RemoveModel(*served);
      Forget(*served);
      return added;
    }
  }
  return OkStatus();
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

Result<std::vector<std::shared_ptr<const gateway::ServedModel>>> LocalInference::OpenAdapters(
    const gateway::ServedModel& base) {
  if (default_base_.empty() && base.info.generates) default_base_ = base.info.id;
  std::vector<std::shared_ptr<const gateway::ServedModel>> opened;
  for (const AdapterRef& adapter : start_adapters_) {
    if ((adapter.base.empty() ? default_base_ : adapter.base) != base.info.id) continue;
    ASSIGN_OR_RETURN(opened.emplace_back(), OpenAdapter(base, adapter, ""));
  }
  return opened;
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
