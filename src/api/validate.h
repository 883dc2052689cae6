// Limits of request fields and their checks. The schema of `protocol` uses the constants; the
// gateway runs the checks for all servers and the library. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"

namespace tutti::api {

// The path of an element of a list, for errors: "messages[3]".
inline std::string ElementPath(std::string list, size_t index) {
  list += '[';
  list += std::to_string(index);
  list += ']';
  return list;
}

// Input contract; each bounds what an untrusted client could cost.
inline constexpr int kMaxChoices = 8;             // n: admission counts each as a sequence
inline constexpr int kMaxLogprobs = 20;           // top_logprobs
inline constexpr size_t kMaxStops = 16;           // stop strings
inline constexpr size_t kMaxStopBytes = 256;      // of one stop string
inline constexpr size_t kMaxStopTokens = 256;     // stop_token_ids
inline constexpr size_t kMaxLogitBias = 1024;     // entries
inline constexpr size_t kMaxTokenIdList = 65536;  // allowed_token_ids, banned_token_ids
inline constexpr size_t kMaxLabels = 255;         // of one question, scored as its answer
inline constexpr size_t kMaxLabelBytes = 1024;
inline constexpr size_t kMaxMessages = 2048;
inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 64;
inline constexpr size_t kMaxToolCalls = 128;      // of one message
inline constexpr size_t kMaxContextFiles = 1024;  // of one fill-in-the-middle prompt
inline constexpr size_t kMaxPieces = 1 << 18;     // tokens returned with their texts in one answer
inline constexpr size_t kMaxRequestIdBytes = 128;
// A query is copied for each of its documents: bytes of all pairs of a request together.
inline constexpr size_t kMaxPairBytes = 32 << 20;
inline constexpr double kMaxTemperature = 2.0;
inline constexpr double kMaxPenalty = 2.0;  // presence and frequency: [-2, 2]
inline constexpr double kMaxRepetitionPenalty = 10.0;
inline constexpr double kMaxLogitBiasValue = 100.0;
// Limits of a tenant's fair-share weight. Under contention a tenant with twice the weight gets
// twice the share.
inline constexpr double kMinTenantWeight = 0.01, kMaxTenantWeight = 100.0;

// Estimate of the memory that a waiting request holds and of the work to prepare it: texts, ids,
// and a constant per message.
size_t PromptBytes(const Prompt& prompt);
size_t RequestBytes(const GenerateRequest& request);  // the prompt and all lists

// Error for an unknown model name; quotes at most 64 bytes of `name`, as far as it is UTF-8.
Status ModelNotFound(std::string_view name);

// Error for more than kMaxPieces tokens.
Status TooManyPieces(size_t tokens);

// Checks the total size before a query of `query_bytes` is copied for each of `documents` documents
// with `document_bytes` in total; `param` names the documents. Errors: request_too_large beyond
// kMaxPairBytes.
Status CheckPairBytes(size_t query_bytes, size_t documents, size_t document_bytes,
                      const std::string& param);

// Checks the tenant weight of a GenerateRequest or an EncodeRequest.
Status CheckTenantWeight(double weight);

// All checks that need no model. `param` of the status names the OpenAI field.
Status ValidateRequest(const GenerateRequest& request);

// Errors: invalid_utf8, with the first invalid byte and its offset. The HTTP server refuses such
// text while parsing; this check covers the other servers, so that no bytes are lost silently.
Status CheckUtf8(std::string_view text, const std::string& param);

// Checks the tools of a chat, and that its tool_choice names one of them.
Status ValidateTools(const ChatPrompt& chat);

// Whether `name` is a valid function name: 1 to kMaxToolNameBytes of [A-Za-z0-9_.-].
bool IsToolName(std::string_view name);

// Checks continue_final_message: only a final message of the assistant can be continued.
Status ValidateLastMessage(const ChatPrompt& chat, const std::string& param);

// Errors: token_out_of_range, with the first id that is not in the vocabulary.
Status CheckTokens(const std::vector<TokenId>& ids, int vocab_size, const std::string& param);

// Checks the token ids of the bias, stop, allow and ban lists. Errors: token_out_of_range,
// invalid_logit_mask.
Status ValidateTokenIds(const SamplingParams& params, int vocab_size);

}  // namespace tutti::api
