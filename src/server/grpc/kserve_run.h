// One inference request of a call, from its message to its last response, and the conversion of
// both to the KServe core's types. Used by the unary call and, several at once, by the stream.
#pragma once

#include <inference/infer.pb.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/kserve/model.h"
#include "server/grpc/call.h"

namespace tutti::rpc {

// --- messages of inference/infer.proto as requests and responses of the KServe core; pure ---

// Takes the tensors' bytes out of `message`. Parameters that mean something over HTTP alone
// (binary_data_output, headers) are ordinary ones here, as with Triton: the model's. Errors:
// invalid_value, unsupported_parameter.
Result<kserve::InferRequest> ToRequest(inference::ModelInferRequest& message, TimePoint now);

// Takes the tensors' bytes out of `response`.
void FromResponse(kserve::InferResponse& response, inference::ModelInferResponse* message);

// --- one request ---

struct Run {
  std::string id;                                    // the client's
  std::string model;                                 // its name, as it is known here
  telemetry::OpKind op = telemetry::OpKind::kOther;  // what the model does
  bool decoupled = false;
  bool empty_final = false;  // the end is an empty response of its own
  Status failure;            // why there is no execution
  std::unique_ptr<kserve::Execution> execution;
  std::shared_ptr<api::CacheReport> cache_report;  // sent in its own responses; null: elsewhere

  // Reads `message` and starts its request; an error is stored in `failure`. The call counts as the
  // model's kind of operation. `report`: gets the response cache's outcome; may be null.
  static Run Begin(Call& call, inference::ModelInferRequest& message,
                   std::shared_ptr<api::CacheReport> report);

  // Records the stage times of a successful encoding; does nothing for other requests.
  void RecordStages(const Call& call, const kserve::Spent& spent) const;

  void Fill(kserve::InferResponse& response, inference::ModelInferResponse* message) const;
};

}  // namespace tutti::rpc
