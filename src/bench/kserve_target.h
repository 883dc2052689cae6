// Targets of encoder benches that speak KServe's open inference protocol (v2), as Triton, KServe,
// MLServer and others do, over HTTP or gRPC: texts go to the model's first input of type BYTES, and
// the first output of type FP32 counts as vectors. Names and ranks come from the model's metadata.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/encode_target.h"

namespace tutti::bench {

// An input or output as the metadata describes it.
struct KserveTensor {
  std::string name, datatype;
  size_t rank = 1;
};

// The tensors that a bench uses: shape [texts] for the input if its rank is 1, else [texts, 1].
struct KserveModel {
  KserveTensor input, output;
};
// Errors: unsupported_model, naming what the model has, if there is no such input or output.
Result<KserveModel> ChooseKserveTensors(const std::string& model,
                                        const std::vector<KserveTensor>& inputs,
                                        const std::vector<KserveTensor>& outputs);

// POST /v2/models/MODEL/infer in JSON, with one kept connection for each client. `model` must be
// given. Errors: those of the request for the model's metadata.
Result<std::unique_ptr<EncodeTarget>> KserveHttpTarget(const client::Server& server,
                                                       const std::string& model,
                                                       const std::string& api_key);

// inference.GRPCInferenceService/ModelInfer, on one channel for all clients. `url`:
// "grpc://127.0.0.1:8081".
Result<std::unique_ptr<GrpcTarget>> KserveGrpcTarget(const std::string& url,
                                                     const std::string& model,
                                                     const std::string& api_key);

}  // namespace tutti::bench
