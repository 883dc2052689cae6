#include "app/model_loader.h"

#include <optional>
#include <utility>

#include "app/model_plan.h"
#include "base/cpus.h"
#include "model/model_files.h"

namespace tutti::app {

Status InModelFile(Status status, const ModelRef& ref) {
  return FindOption(status.param()) != nullptr ? std::move(status)
                                               : std::move(status).WithContext(ref.path);
}

int ThreadsFromSettings(const Settings& settings) {
  return static_cast<int>(settings.OptionalInt("threads").value_or(UsableCores()));
}

Result<const kernels::KernelTable*> KernelsFromSettings(const Settings& settings) {
  std::optional<std::string> forced;
  if (settings.IsSet("isa"))
    forced = settings.Text("isa") == "avx512" ? "avx512vnni" : settings.Text("isa");
  return kernels::SelectKernels(forced);
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

Result<OpenedModel> OpenedModel::Open(const ModelRef& ref, const LoadContext& context) {
  const model::ModelFiles files = model::ModelFiles::At(ref.path);
  if (files.holds == model::ModelFiles::Holds::kEncoder) {
    ASSIGN_OR_RETURN(auto checkpoint, model::EncoderCheckpoint::FromFiles(files));
    ASSIGN_OR_RETURN(auto plan, PlanEncoder(ref, context, std::move(checkpoint)));
    return OpenedModel(std::move(plan));
  }
  if (files.gguf != nullptr && files.gguf->tensors().empty()) {
    return InvalidArgument(
        "model_tensor_missing",
        "the file holds a vocabulary and no weights: good for `tokenize` and `inspect` only");
  }
  ASSIGN_OR_RETURN(auto checkpoint, model::DecoderCheckpoint::FromFiles(files));
  ASSIGN_OR_RETURN(auto plan, PlanDecoder(ref, context, std::move(checkpoint)));
  return OpenedModel(std::move(plan));
}

Status MustGenerate(const OpenedModel& model, const ModelRef& ref) {
  if (model.generates()) return OkStatus();
  return InvalidArgument("invalid_value",
                         "model " + ref.served_name +
                             " generates no text: it is an encoder (`tutti embed` prints vectors)")
      .WithParam("model");
}

Result<std::shared_ptr<const gateway::ServedModel>> OpenedModel::Load(
    std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) && {
  return plan_->Load(std::move(progress), std::move(device));
}

}  // namespace tutti::app
