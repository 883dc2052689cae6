// Handler factories of the method table (router.cc). Each makes the handler of one call.
#pragma once

#include <memory>

#include "server/grpc/call.h"

namespace tutti::rpc {

// KServe v2 and Triton's additions (inference/grpc_service.proto): kserve_calls.cc
std::unique_ptr<CallHandler> MakeServerLive(Call& call);
std::unique_ptr<CallHandler> MakeServerReady(Call& call);
std::unique_ptr<CallHandler> MakeModelReady(Call& call);
std::unique_ptr<CallHandler> MakeServerMetadata(Call& call);
std::unique_ptr<CallHandler> MakeModelMetadata(Call& call);
std::unique_ptr<CallHandler> MakeModelConfig(Call& call);
std::unique_ptr<CallHandler> MakeModelStatistics(Call& call);
std::unique_ptr<CallHandler> MakeRepositoryIndex(Call& call);
std::unique_ptr<CallHandler> MakeModelLoad(Call& call);
std::unique_ptr<CallHandler> MakeModelUnload(Call& call);
std::unique_ptr<CallHandler> MakeSystemUnregister(Call& call);
std::unique_ptr<CallHandler> MakeCudaUnregister(Call& call);
std::unique_ptr<CallHandler> MakeNotOffered(Call& call);  // shared memory, settings
// kserve_infer.cc, kserve_stream.cc
std::unique_ptr<CallHandler> MakeModelInfer(Call& call);
std::unique_ptr<CallHandler> MakeModelStreamInfer(Call& call);

// tutti.v1 (tutti/v1/tutti.proto): tutti_encode.cc, tutti_generate.cc, tutti_metrics.cc
std::unique_ptr<CallHandler> MakeEmbed(Call& call);
std::unique_ptr<CallHandler> MakeScore(Call& call);
std::unique_ptr<CallHandler> MakeGenerate(Call& call);
std::unique_ptr<CallHandler> MakeMetrics(Call& call);

// The standard's services: health.cc, reflection.cc
std::unique_ptr<CallHandler> MakeHealthCheck(Call& call);
std::unique_ptr<CallHandler> MakeHealthWatch(Call& call);
std::unique_ptr<CallHandler> MakeReflection(Call& call);
std::unique_ptr<CallHandler> MakeReflectionAlpha(Call& call);

}  // namespace tutti::rpc
