#include "doors/grpc/router.h"

#include <algorithm>
#include <array>
#include <string>

#include "doors/grpc/services.h"

namespace tutti::rpc {
namespace {

using telemetry::OpKind;

// Sorted by path.
constexpr auto kMethods = std::to_array<Method>({
    {.path = "/grpc.health.v1.Health/Check",
     .make = &MakeHealthCheck,
     .open = true,
     .measured = false},
    {.path = "/grpc.health.v1.Health/Watch",
     .make = &MakeHealthWatch,
     .open = true,
     .watches = true,
     .measured = false},
    {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     .make = &MakeReflection,
     .watches = true,
     .measured = false},
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .make = &MakeReflectionAlpha,
     .watches = true,
     .measured = false},
    {.path = "/inference.GRPCInferenceService/CudaSharedMemoryRegister", .make = &MakeNotOffered},
    {.path = "/inference.GRPCInferenceService/CudaSharedMemoryStatus", .make = &MakeNotOffered},
    {.path = "/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
     .make = &MakeCudaUnregister},
    {.path = "/inference.GRPCInferenceService/LogSettings", .make = &MakeNotOffered},
    {.path = "/inference.GRPCInferenceService/ModelConfig", .make = &MakeModelConfig},
    {.path = "/inference.GRPCInferenceService/ModelInfer",
     .make = &MakeModelInfer,
     .handled = true},
    {.path = "/inference.GRPCInferenceService/ModelMetadata", .make = &MakeModelMetadata},
    {.path = "/inference.GRPCInferenceService/ModelReady", .make = &MakeModelReady},
    {.path = "/inference.GRPCInferenceService/ModelStatistics", .make = &MakeModelStatistics},
    {.path = "/inference.GRPCInferenceService/ModelStreamInfer",
     .make = &MakeModelStreamInfer,
     .handled = true},
    {.path = "/inference.GRPCInferenceService/RepositoryIndex", .make = &MakeRepositoryIndex},
    {.path = "/inference.GRPCInferenceService/RepositoryModelLoad", .make = &MakeModelLoad},
    {.path = "/inference.GRPCInferenceService/RepositoryModelUnload", .make = &MakeModelUnload},
    {.path = "/inference.GRPCInferenceService/ServerLive", .make = &MakeServerLive, .open = true},
    {.path = "/inference.GRPCInferenceService/ServerMetadata", .make = &MakeServerMetadata},
    {.path = "/inference.GRPCInferenceService/ServerReady", .make = &MakeServerReady, .open = true},
    {.path = "/inference.GRPCInferenceService/SystemSharedMemoryRegister", .make = &MakeNotOffered},
    {.path = "/inference.GRPCInferenceService/SystemSharedMemoryStatus", .make = &MakeNotOffered},
    {.path = "/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
     .make = &MakeSystemUnregister},
    {.path = "/inference.GRPCInferenceService/TraceSetting", .make = &MakeNotOffered},
    {.path = "/tutti.v1.Tutti/Embed", .make = &MakeEmbed, .op = OpKind::kEmbed, .handled = true},
    {.path = "/tutti.v1.Tutti/Generate",
     .make = &MakeGenerate,
     .op = OpKind::kGenerate,
     .handled = true},
    {.path = "/tutti.v1.Tutti/Metrics", .make = &MakeMetrics, .measured = false},
    {.path = "/tutti.v1.Tutti/Score", .make = &MakeScore, .op = OpKind::kScore, .handled = true},
});

constexpr bool Sorted() {
  return std::is_sorted(kMethods.begin(), kMethods.end(),
                        [](const Method& a, const Method& b) { return a.path < b.path; });
}
static_assert(Sorted());

}  // namespace

std::span<const Method> Methods() { return kMethods; }

const Method* FindMethod(std::string_view path) {
  const auto found =
      std::lower_bound(kMethods.begin(), kMethods.end(), path,
                       [](const Method& method, std::string_view p) { return method.path < p; });
  return found != kMethods.end() && found->path == path ? &*found : nullptr;
}

}  // namespace tutti::rpc
