// JSON of OpenAI's /v1/batches: the create request, the batch object, lists, and the lines of input
// and output files. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/metadata.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

enum class BatchState : uint8_t {
  kValidating,
  kInProgress,
  kFinalizing,
  kCancelling,
  kCompleted,
  kFailed,
  kExpired,
  kCancelled,
};
constexpr bool Ended(BatchState state) { return state >= BatchState::kCompleted; }
std::string_view BatchStateName(BatchState state);

inline constexpr int64_t kMaxBatchLines = 50'000;
inline constexpr int64_t kMaxBatchInputs = 50'000;      // texts to embed, of all lines
inline constexpr int64_t kMaxBatchLineBytes = 1 << 20;  // without its end

// Its lines are responses, which are kept as that route keeps them.
inline constexpr std::string_view kResponsesEndpoint = "/v1/responses";

// POST /v1/batches
struct BatchCreate {
  std::string input_file_id, endpoint;
  Metadata metadata;
  int64_t output_expires_s = 0;  // after its creation; 0 = never
  std::vector<std::string> ignored;
};
Result<BatchCreate> ParseBatchCreate(const Json& body, const ParseOptions& options);

// A line of the input whose request may be run. `body`: JSON. Errors have the code that the batch's
// list of errors shows: invalid_json_line, invalid_method, invalid_url (it is not `endpoint`),
// unsupported_parameter (`stream`; of /v1/responses also `background`, `conversation`), those of
// the schema.
struct BatchLine {
  std::string custom_id, model;  // model: empty where the body names none
  std::string body;
  int64_t inputs = 0;  // texts to embed
};
Result<BatchLine> ReadBatchLine(std::string_view text, std::string_view endpoint);

// An error in the input file.
struct BatchError {
  std::string code, message, param;  // param: empty: none
  int64_t line = 0;                  // from 1; 0: of none
};
std::string BatchErrorsJson(std::span<const BatchError> errors);  // an array

struct BatchView {
  std::string id;                                                    // "batch_..."
  std::string endpoint, model, input_file, output_file, error_file;  // empty: none
  BatchState state = BatchState::kValidating;
  std::string errors;    // JSON, an array; empty: none
  std::string metadata;  // JSON, an object; empty: none
  // Unix; 0 = not yet.
  int64_t created_ms = 0, in_progress_ms = 0, expires_ms = 0, finalizing_ms = 0, completed_ms = 0,
          failed_ms = 0, expired_ms = 0, cancelling_ms = 0, cancelled_ms = 0;
  int64_t input_lines = 0;                       // of its input, empty ones too
  int64_t total = 0, completed = 0, failed = 0;  // lines
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
};
std::string BatchJson(const BatchView& batch);
// A page, newest first.
std::string BatchListJson(std::span<const BatchView> batches, bool more);

// Lines of the output, with their ends. The first is of a request that was answered, well or not.
std::string BatchAnswerLine(const std::string& id, const std::string& custom_id, int status_code,
                            const std::string& request_id, const std::string& body);
std::string BatchErrorLine(const std::string& id, const std::string& custom_id,
                           std::string_view code, std::string_view message);

}  // namespace tutti::protocol
