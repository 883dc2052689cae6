#include "app/model_loader.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "app/model_plan.h"
#include "base/cpus.h"

namespace tutti::app {

Status InModelFile(Status status, const ModelRef& ref) {
  return FindOption(status.param()) != nullptr ? std::move(status)
                                               : std::move(status).WithContext(ref.path);
}

uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kib) return kib << 10;
  }
  return 0;
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

OpenedModel::OpenedModel(std::unique_ptr<ModelPlan> plan) : plan_(std::move(plan)) {}
OpenedModel::~OpenedModel() = default;
OpenedModel::OpenedModel(OpenedModel&&) noexcept = default;
const std::string& OpenedModel::summary() const { return plan_->summary; }
const std::string& OpenedModel::notice() const { return plan_->notice; }

Result<OpenedModel> OpenedModel::Open(const ModelRef& ref, const LoadContext& context) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(ref.path, error);
  ASSIGN_OR_RETURN(std::unique_ptr<ModelPlan> plan,
                   folder ? PlanEncoder(ref, context) : PlanDecoder(ref, context));
  return OpenedModel(std::move(plan));
}

Result<std::shared_ptr<const gateway::ServedModel>> OpenedModel::Load(
    std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) && {
  return plan_->Load(std::move(progress), std::move(device));
}

}  // namespace tutti::app
