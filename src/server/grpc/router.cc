#include "server/grpc/router.h"

#include <algorithm>
#include <array>

#include "services/auth/grant.h"

namespace tutti::rpc {
namespace {

using telemetry::OpKind;

using namespace auth::rules;  // NOLINT: the words of the table

// Sorted by path. A row without names has the path, the factory and the rule.
constexpr auto kMethods = std::to_array<Method>({
    {.path = "/grpc.health.v1.Health/Check",
     .make = &MakeHealthCheck,
     .rule = kAnybody,
     .open = true,
     .measured = false},
    {.path = "/grpc.health.v1.Health/Watch",
     .make = &MakeHealthWatch,
     .rule = kAnybody,
     .open = true,
     .watches = true,
     .measured = false},
    {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     .make = &MakeReflection,
     .rule = kModels,
     .watches = true,
     .measured = false},
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .make = &MakeReflectionAlpha,
     .rule = kModels,
     .watches = true,
     .measured = false},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", &MakeNotOffered, kKnown},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", &MakeNotOffered, kKnown},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister", &MakeCudaUnregister, kModels},
    {"/inference.GRPCInferenceService/LogSettings", &MakeNotOffered, kKnown},
    {"/inference.GRPCInferenceService/ModelConfig", &MakeModelConfig, kModels},
    {.path = "/inference.GRPCInferenceService/ModelInfer",
     .make = &MakeModelInfer,
     .rule = kWork,
     .handled = true},
    {"/inference.GRPCInferenceService/ModelMetadata", &MakeModelMetadata, kModels},
    {"/inference.GRPCInferenceService/ModelReady", &MakeModelReady, kModels},
    {"/inference.GRPCInferenceService/ModelStatistics", &MakeModelStatistics, kModels},
    {.path = "/inference.GRPCInferenceService/ModelStreamInfer",
     .make = &MakeModelStreamInfer,
     .rule = kWork,
     .handled = true},
    {"/inference.GRPCInferenceService/RepositoryIndex", &MakeRepositoryIndex, kModels},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", &MakeModelLoad, kOperate},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", &MakeModelUnload, kOperate},
    {.path = "/inference.GRPCInferenceService/ServerLive",
     .make = &MakeServerLive,
     .rule = kAnybody,
     .open = true},
    {"/inference.GRPCInferenceService/ServerMetadata", &MakeServerMetadata, kModels},
    {.path = "/inference.GRPCInferenceService/ServerReady",
     .make = &MakeServerReady,
     .rule = kAnybody,
     .open = true},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister", &MakeNotOffered, kKnown},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", &MakeNotOffered, kKnown},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister", &MakeSystemUnregister,
     kModels},
    {"/inference.GRPCInferenceService/TraceSetting", &MakeNotOffered, kKnown},
    {.path = "/tutti.v1.Tutti/Embed",
     .make = &MakeEmbed,
     .rule = kEmbed,
     .op = OpKind::kEmbed,
     .handled = true},
    {.path = "/tutti.v1.Tutti/Generate",
     .make = &MakeGenerate,
     .rule = kGenerate,
     .op = OpKind::kGenerate,
     .handled = true},
    {.path = "/tutti.v1.Tutti/Metrics", .make = &MakeMetrics, .rule = kMetrics, .measured = false},
    {.path = "/tutti.v1.Tutti/Score",
     .make = &MakeScore,
     .rule = kEmbed,
     .op = OpKind::kScore,
     .handled = true},
});

constexpr bool Sorted() {
  return std::is_sorted(kMethods.begin(), kMethods.end(),
                        [](const Method& a, const Method& b) { return a.path < b.path; });
}
static_assert(Sorted());
// Default deny: a method without a complete access rule does not compile.
static_assert(std::all_of(kMethods.begin(), kMethods.end(), [](const Method& method) {
  return method.open == (method.rule == kAnybody);
}));

}  // namespace

std::span<const Method> Methods() { return kMethods; }

const Method* FindMethod(std::string_view path) {
  const auto found =
      std::lower_bound(kMethods.begin(), kMethods.end(), path,
                       [](const Method& method, std::string_view p) { return method.path < p; });
  return found != kMethods.end() && found->path == path ? &*found : nullptr;
}

}  // namespace tutti::rpc
