// What answers each method of the table (router.cc). Each makes the exchange of one call.
#pragma once

#include <memory>

#include "doors/grpc/call.h"

namespace tutti::rpc {

// KServe v2 and Triton's additions (inference/grpc_service.proto): kserve_calls.cc
std::unique_ptr<Exchange> MakeServerLive(Call& call);
std::unique_ptr<Exchange> MakeServerReady(Call& call);
std::unique_ptr<Exchange> MakeModelReady(Call& call);
std::unique_ptr<Exchange> MakeServerMetadata(Call& call);
std::unique_ptr<Exchange> MakeModelMetadata(Call& call);
std::unique_ptr<Exchange> MakeModelConfig(Call& call);
std::unique_ptr<Exchange> MakeModelStatistics(Call& call);
std::unique_ptr<Exchange> MakeRepositoryIndex(Call& call);
std::unique_ptr<Exchange> MakeModelLoad(Call& call);
std::unique_ptr<Exchange> MakeModelUnload(Call& call);
std::unique_ptr<Exchange> MakeSystemUnregister(Call& call);
std::unique_ptr<Exchange> MakeCudaUnregister(Call& call);
std::unique_ptr<Exchange> MakeNotOffered(Call& call);  // shared memory, settings
// kserve_infer.cc, kserve_stream.cc
std::unique_ptr<Exchange> MakeModelInfer(Call& call);
std::unique_ptr<Exchange> MakeModelStreamInfer(Call& call);

// tutti.v1 (tutti/v1/tutti.proto): tutti_encode.cc, tutti_generate.cc, tutti_metrics.cc
std::unique_ptr<Exchange> MakeEmbed(Call& call);
std::unique_ptr<Exchange> MakeScore(Call& call);
std::unique_ptr<Exchange> MakeGenerate(Call& call);
std::unique_ptr<Exchange> MakeMetrics(Call& call);

// The standard's services: health.cc, reflection.cc
std::unique_ptr<Exchange> MakeHealthCheck(Call& call);
std::unique_ptr<Exchange> MakeHealthWatch(Call& call);
std::unique_ptr<Exchange> MakeReflection(Call& call);
std::unique_ptr<Exchange> MakeReflectionAlpha(Call& call);

}  // namespace tutti::rpc
