// Models as the KServe v2 servers (gRPC, REST) see them: tensors in, tensors out, with one or
// several responses per request.
//
// A Model is shared by all servers; any thread. An Execution is one running request, owned by one
// server's call. The call asks it for responses after its waker was woken or its due() has come, so
// that no response is made before the client can take it. Destroying an Execution cancels what is
// left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/kserve/tensor.h"

namespace tutti::kserve {

// --- what a model is ---

struct TensorSpec {
  std::string name;
  DataType type = DataType::kInvalid;
  Shape dims;             // -1 = any; without the batch dimension
  bool optional = false;  // inputs
  // An alternative name, type or shape of a listed input: accepted, but not listed to clients.
  bool alias = false;
};

struct ModelConfig {
  std::string name;
  std::string platform, backend;
  int max_batch_size = 0;  // 0: no batch dimension is added to dims
  std::vector<TensorSpec> inputs, outputs;
  bool decoupled = false;  // 0..n responses for a request
  // The operation under which requests are counted.
  enum class Task { kOther, kEmbed, kScore, kGenerate };
  Task task = Task::kOther;
  // Scheduling as listed in the model's configuration: none, batches across requests, or sequences.
  enum class Scheduling { kNone, kDynamicBatching, kSequence, kOldestSequence };
  Scheduling scheduling = Scheduling::kNone;
  // For kDynamicBatching: the preferred batch size (0: none), and the longest time that a batch
  // waits for more requests.
  int preferred_batch = 0;
  int64_t max_queue_delay_us = 0;
  bool controls_corrid = false, controls_end = false;  // sequences; also start, ready
  std::vector<std::pair<std::string, std::string>> parameters;
};

inline constexpr std::string_view kModelVersion = "1";  // the only version of each model

// --- what is asked of it ---

using ParameterValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using Parameters = std::vector<std::pair<std::string, ParameterValue>>;

// The correlation id of a sequence: a number (0 = none) or a text (empty = none).
using CorrelationId = std::variant<uint64_t, std::string>;

struct InferRequest {
  std::string model, version;
  std::string id;  // from the client; copied into each response
  std::vector<Tensor> inputs;
  std::vector<std::string> outputs;  // requested; empty = all
  Parameters parameters;             // parameters without a field of their own (request.h)
  bool strict = false;               // unknown parameters are errors
  CorrelationId sequence_id = uint64_t{0};
  bool sequence_start = false, sequence_end = false;
  api::Priority priority = api::Priority::kInteractive;
  bool empty_final_response = false;  // decoupled models: send an empty last response
  TimePoint deadline = TimePoint::max();
  std::string request_id;      // of the call, for logs
  TraceContext trace_context;  // sent by the caller; may be invalid
  api::CallerRef caller;
  std::shared_ptr<api::RateLimits> rate_limits;  // these as api::GenerateRequest's
  std::string route;
  api::CacheControl cache = {};
  std::shared_ptr<api::CacheReport> cache_report = {};
};

// Executions and times of one request, for the statistics of the model.
struct Spent {
  uint64_t items = 1;       // size of the request's batch
  uint64_t executions = 1;  // executions for the request; 0 if the model counts them itself
  Duration queue{0}, input{0}, infer{0}, output{0};
};

struct InferResponse {
  std::vector<Tensor> outputs;
  Parameters parameters;
  bool final = false;  // the last response of its request
  bool empty = false;  // has no outputs; only with `final`
  Spent spent;         // for the whole request; set if `final`
};

class Execution {
 public:
  virtual ~Execution() = default;
  // The next response; nothing if there is none yet; or the reason why the request failed. Not
  // called again after a failure or a final response.
  virtual Result<std::optional<InferResponse>> Next() = 0;
  // When to call Next() without a wake-up.
  virtual TimePoint due() const { return TimePoint::max(); }
  // False while the request is still being prepared, such as its prompt being tokenised.
  virtual bool prepared() const { return true; }
  // Names of parameters that the model ignores, fit for a header. Constant.
  virtual std::vector<std::string> unread() const { return {}; }
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual Status ready() const { return OkStatus(); }
  // `request` has passed CheckRequest(). `waker` is woken when there may be a response.
  virtual Result<std::unique_ptr<Execution>> Start(InferRequest request,
                                                   std::shared_ptr<Waker> waker) = 0;
  // Total executions and items, through all servers, if the model counts them.
  virtual std::optional<std::pair<uint64_t, uint64_t>> Executed() const { return std::nullopt; }
};

// An execution that is complete from the beginning.
class DoneExecution final : public Execution {
 public:
  explicit DoneExecution(InferResponse response) : response_(std::move(response)) {
    response_.final = true;
  }
  Result<std::optional<InferResponse>> Next() override {
    return std::optional<InferResponse>(std::move(response_));
  }

 private:
  InferResponse response_;
};

// Reduces an execution that may give several responses to the single non-empty response of a unary
// call, or to an error. Owned by one call; one thread.
class OneResponse {
 public:
  // Takes what there is. Nothing: not yet; not called again after a failure or a response. Errors:
  // the execution's; invalid_value with the text `several` for a second response. A request without
  // any response has an empty one.
  Result<std::optional<InferResponse>> Take(Execution& execution, const std::string& several) {
    while (true) {
      ASSIGN_OR_RETURN(std::optional<InferResponse> next, execution.Next());
      if (!next.has_value()) return std::optional<InferResponse>();
      const bool last = next->final;
      if (!next->empty) {
        if (held_.has_value()) return InvalidArgument("invalid_value", several);
        held_ = std::move(*next);
      }
      if (last) return std::optional(std::exchange(held_, std::nullopt).value_or(InferResponse()));
    }
  }

 private:
  std::optional<InferResponse> held_;  // until it is known to be the only one
};

}  // namespace tutti::kserve
