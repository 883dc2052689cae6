// What the KServe v2 doors (gRPC, REST) serve: models that take tensors and give tensors, once or
// several times for a request.
//
// A Model is shared by all doors; any thread. An Execution is one running request; it belongs to
// one door's call, which asks it for responses whenever its waker was told (or its time has come),
// so that what a slow client does not take is not made; destroying it cancels what is left.
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
#include "kserve/tensor.h"

namespace tutti::kserve {

// --- what a model is ---

struct TensorSpec {
  std::string name;
  DataType type = DataType::kInvalid;
  Shape dims;             // -1 = any; without the batch dimension
  bool optional = false;  // inputs
  // Another name, type or shape of a listed input, taken but not shown to clients.
  bool alias = false;
};

struct ModelConfig {
  std::string name;
  std::string platform, backend;
  int max_batch_size = 0;  // 0: no batch dimension is added to dims
  std::vector<TensorSpec> inputs, outputs;
  bool decoupled = false;  // 0..n responses for a request
  // What a request to it is counted as.
  enum class Task { kOther, kEmbed, kScore, kGenerate };
  Task task = Task::kOther;
  // How requests share the model, as clients ask: nothing, batches across requests, or sequences.
  enum class Scheduling { kNone, kDynamicBatching, kSequence, kOldestSequence };
  Scheduling scheduling = Scheduling::kNone;
  // Of kDynamicBatching: the batch that is aimed at (0: none), and the longest that one is held
  // back for more.
  int preferred_batch = 0;
  int64_t max_queue_delay_us = 0;
  bool controls_corrid = false, controls_end = false;  // of sequences, beside start and ready
  std::vector<std::pair<std::string, std::string>> parameters;
};

inline constexpr std::string_view kModelVersion = "1";  // the one there is of each

// --- what is asked of it ---

using ParameterValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using Parameters = std::vector<std::pair<std::string, ParameterValue>>;

// The correlation id of a sequence: a number (0 = none) or a text (empty = none).
using CorrelationId = std::variant<uint64_t, std::string>;

struct InferRequest {
  std::string model, version;
  std::string id;  // the client's; comes back with each response
  std::vector<Tensor> inputs;
  std::vector<std::string> outputs;  // wanted; none = all
  Parameters parameters;             // those that are not reserved (request.h)
  bool strict = false;               // parameters that the model does not know are errors
  CorrelationId sequence_id = uint64_t{0};
  bool sequence_start = false, sequence_end = false;
  api::Priority priority = api::Priority::kInteractive;
  bool empty_final_response = false;  // of a decoupled model: tell the end in a response of its own
  TimePoint deadline = TimePoint::max();
  std::string request_id;  // of the call, for logs
  api::CallerRef caller;
  std::shared_ptr<api::RateLimits> rate_limits;  // these as api::GenerateRequest's
  std::string route;
  api::CacheControl cache = {};
  std::shared_ptr<api::CacheReport> cache_report = {};
};

// Where the time of a request went; counts towards the model's statistics.
struct Spent {
  uint64_t items = 1;       // of the request's batch
  uint64_t executions = 1;  // of the model for it; 0 where the model counts them itself
  Duration queue{0}, input{0}, infer{0}, output{0};
};

struct InferResponse {
  std::vector<Tensor> outputs;
  Parameters parameters;
  bool final = false;  // the last of its request
  bool empty = false;  // says nothing but that; never without `final`
  Spent spent;         // of the whole request; with `final`
};

class Execution {
 public:
  virtual ~Execution() = default;
  // The next response; nothing when there is none yet; or why the request failed. Not called again
  // after a failure or a final response.
  virtual Result<std::optional<InferResponse>> Next() = 0;
  // When to ask again although nobody was woken.
  virtual TimePoint due() const { return TimePoint::max(); }
  // False while the request is still being prepared (its prompt read) somewhere behind.
  virtual bool prepared() const { return true; }
  // Names of parameters that the model knows nothing of, fit for a header. The same from its start.
  virtual std::vector<std::string> unread() const { return {}; }
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual Status ready() const { return OkStatus(); }
  // `request` has passed CheckRequest(). `waker` is told when there may be a response.
  virtual Result<std::unique_ptr<Execution>> Start(InferRequest request,
                                                   std::shared_ptr<api::StreamWaker> waker) = 0;
  // Executions and their items in all, through any door, where the model knows them.
  virtual std::optional<std::pair<uint64_t, uint64_t>> Executed() const { return std::nullopt; }
};

// An execution that was over when it began.
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

}  // namespace tutti::kserve
