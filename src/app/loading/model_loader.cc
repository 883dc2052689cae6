#include "app/loading/model_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "app/loading/model_plan.h"
#include "base/threads.h"
#include "model/model_files.h"

namespace tutti::app {

const std::shared_ptr<runner::ComputePool>& Device::pool() {
  if (pool_ == nullptr) {
    pool_ = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = threads_});
  }
  return pool_;
}

void Device::Start() {
  if (!loop_.started()) loop_.Start();
}

namespace {

// A fault names the model file, unless it is an option's: that one says so itself.
Status InModelFile(Status status, const std::string& path) {
  return FindOption(status.param()) != nullptr ? std::move(status)
                                               : std::move(status).WithContext(path);
}

Result<std::unique_ptr<ModelPlan>> PlanOf(const ModelRef& ref, const LoadContext& context) {
  const model::ModelFiles files = model::ModelFiles::At(ref.path);
  if (files.holds == model::ModelFiles::Holds::kEncoder) {
    ASSIGN_OR_RETURN(auto checkpoint, model::EncoderCheckpoint::FromFiles(files));
    return PlanEncoder(ref, context, std::move(checkpoint));
  }
  if (files.gguf != nullptr && files.gguf->tensors().empty()) {
    return InvalidArgument(
        "model_tensor_missing",
        "the file has a vocabulary but no weights; use it with `tokenize` or `inspect`");
  }
  ASSIGN_OR_RETURN(auto checkpoint, model::DecoderCheckpoint::FromFiles(files));
  return PlanDecoder(ref, context, std::move(checkpoint));
}

}  // namespace

int ThreadsFromSettings(const Settings& settings) {
  return static_cast<int>(settings.OptionalInt("threads").value_or(UsableCores()));
}

std::string ThreadsNotice(const Settings& settings) {
  const int threads = ThreadsFromSettings(settings), cores = UsableCores();
  if (threads <= cores) return "";
  return fmt::format(
      "--threads {} is more than the {} core{} this process may use: slower, as a rule", threads,
      cores, cores == 1 ? "" : "s");
}

Result<const kernels::KernelTable*> KernelsNamed(const std::string& isa) {
  if (isa.empty()) return kernels::SelectKernels();
  return kernels::SelectKernels(isa == "avx512" ? "avx512vnni" : isa);
}

Result<const kernels::KernelTable*> KernelsFromSettings(const Settings& settings) {
  return KernelsNamed(settings.IsSet("isa") ? settings.Text("isa") : "");
}

model::KvDtype KvDtypeFromSettings(const Settings& settings) {
  const std::string& dtype = settings.Text("kv-dtype");
  if (dtype == "int8") return model::KvDtype::kInt8;
  if (dtype == "fp32") return model::KvDtype::kF32;
  return dtype == "fp16" ? model::KvDtype::k16Bit : model::KvDtype::kByWeights;
}

OpenedModel::OpenedModel(std::unique_ptr<ModelPlan> plan) : plan_(std::move(plan)) {}
OpenedModel::~OpenedModel() = default;
OpenedModel::OpenedModel(OpenedModel&&) noexcept = default;
const std::string& OpenedModel::summary() const { return plan_->summary; }
const std::string& OpenedModel::notice() const { return plan_->notice; }
bool OpenedModel::generates() const { return plan_->generates; }
bool OpenedModel::chats() const { return plan_->chats; }
int OpenedModel::max_tokens() const { return plan_->max_tokens; }
const api::ModelInfo& OpenedModel::info() const { return plan_->info(); }

Result<OpenedModel> OpenedModel::Open(const ModelRef& ref, const LoadContext& context) {
  Result<std::unique_ptr<ModelPlan>> plan = PlanOf(ref, context);
  if (!plan.ok()) return InModelFile(std::move(plan).status(), ref.path);
  OpenedModel opened(*std::move(plan));
  opened.path_ = ref.path;
  return opened;
}

Status MustGenerate(const OpenedModel& model, const ModelRef& ref) {
  if (model.generates()) return OkStatus();
  return InvalidArgument(
             "invalid_value",
             "model " + ref.served_name +
                 " generates no text: it is an encoder (`tutti embed` prints embeddings)")
      .WithParam("model");
}

Status MustChat(const OpenedModel& model, const ModelRef& ref) {
  RETURN_IF_ERROR(MustGenerate(model, ref));
  if (model.chats()) return OkStatus();
  return InvalidArgument("invalid_value",
                         "model " + ref.served_name +
                             " has no chat template and only continues text; use `tutti run " +
                             ref.path + " --raw -p TEXT`")
      .WithParam("model");
}

std::string RemarksNotice(const ModelRef& ref, const std::vector<std::string>& remarks) {
  if (remarks.empty()) return "";
  return fmt::format("{}: {}", ref.path, fmt::join(remarks, "; "));
}

Result<std::shared_ptr<const gateway::ServedModel>> OpenedModel::Load(
    std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) && {
  auto served = plan_->Load(std::move(progress), std::move(device));
  if (served.ok()) return served;
  Status status = std::move(served).status();
  if (status.reason() == "out_of_memory" && plan_->generates) {
    status = ResourceExhausted(
        "out_of_memory",
        fmt::format("{}; lower --kv-cache-bytes, --context or --max-num-seqs, or load "
                    "a model with fewer bits (see `tutti inspect --memory {}`)",
                    status.message(), path_));
  }
  return InModelFile(std::move(status), path_);
}

}  // namespace tutti::app
