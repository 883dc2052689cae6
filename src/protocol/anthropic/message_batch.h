// JSON of Anthropic's message batches, which are stored as batches of protocol/openai/batch.h: the
// create request, the object, lists, and the lines of results. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/openai/batch.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/query_parameters.h"

namespace tutti::protocol {

// The endpoint of message batches; it distinguishes them from other batches.
inline constexpr std::string_view kMessagesEndpoint = "/v1/messages";

// POST /v1/messages/batches
struct MessageBatchCreate {
  std::string input;                // as the file of a batch: a line for each request
  std::vector<std::string> models;  // that the requests name, each once
  std::vector<std::string> ignored;
};
// Reads each request whole, so that a wrong one refuses the batch at once. Errors: those of
// ParseMessages below `requests[3].params`; unsupported_parameter (`stream`); invalid_value (a
// custom_id that comes twice, a request beyond kMaxBatchLineBytes).
Result<MessageBatchCreate> ParseMessageBatch(const Json& body, const ParseOptions& options);

// The query of GET /v1/messages/batches: `limit` (1 to 1,000) and `after_id`. Errors:
// unsupported_parameter
// (`before_id`).
Result<ListQuery> ParseMessageBatchListQuery(std::span<const QueryParameter> parameters,
                                             const ParseOptions& options, IgnoredFields* ignored);

std::string MessageBatchJson(const BatchView& batch);
std::string MessageBatchListJson(std::span<const BatchView> batches, bool more);
std::string MessageBatchDeletedJson(const std::string& id);

// A line of the results, with its end. `status_code` 0: the request has not run when the batch
// ended as `ending`. `body`: of status 200 the message, else an error in OpenAI's form.
std::string MessageBatchResultLine(const std::string& custom_id, int status_code,
                                   const std::string& body, BatchState ending);

}  // namespace tutti::protocol
