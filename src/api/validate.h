// The ranges of a request, in one place: constants that the wire schema names in its table, and the
// checks that the gateway runs for every door, the library included. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"

namespace tutti::api {

// Input contract; each bounds what an untrusted client could cost.
inline constexpr int kMaxChoices = 8;             // n: admission counts each as a sequence
inline constexpr int kMaxLogprobs = 20;           // top_logprobs
inline constexpr size_t kMaxStops = 16;           // stop strings
inline constexpr size_t kMaxStopBytes = 256;      // of one stop string
inline constexpr size_t kMaxStopTokens = 256;     // stop_token_ids
inline constexpr size_t kMaxLogitBias = 1024;     // entries
inline constexpr size_t kMaxTokenIdList = 65536;  // allowed_token_ids, banned_token_ids
inline constexpr size_t kMaxMessages = 2048;
inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 64;
inline constexpr size_t kMaxToolCalls = 128;      // of one message
inline constexpr size_t kMaxContextFiles = 1024;  // of one text with a hole
inline constexpr size_t kMaxPieces = 1 << 18;     // tokens told with their texts in one answer
inline constexpr size_t kMaxRequestIdBytes = 128;
// A query is copied for each of its documents: bytes of all pairs of a request together.
inline constexpr size_t kMaxPairBytes = 32 << 20;
inline constexpr double kMaxTemperature = 2.0;
inline constexpr double kMaxPenalty = 2.0;  // presence and frequency: [-2, 2]
inline constexpr double kMaxRepetitionPenalty = 10.0;
inline constexpr double kMaxLogitBiasValue = 100.0;
// Of two tenants that want more than there is, one of twice the weight gets twice as much.
inline constexpr double kMinTenantWeight = 0.01, kMaxTenantWeight = 100.0;

// Roughly the memory a request holds while it waits, and the work of preparing it: texts, ids, and
// a little for each message.
size_t PromptBytes(const Prompt& prompt);
size_t RequestBytes(const GenerateRequest& request);  // the prompt and all lists

// The refusal of a model that no one here is called; repeats `name` as far as it is UTF-8, at most
// 64 bytes of it.
Status ModelNotFound(std::string_view name);

// The refusal beyond kMaxPieces.
Status TooManyPieces(size_t tokens);

// Asked before a query of `query_bytes` is copied for each of `documents`, which have
// `document_bytes` together; `param` names them. Errors: request_too_large beyond kMaxPairBytes.
Status CheckPairBytes(size_t query_bytes, size_t documents, size_t document_bytes,
                      const std::string& param);

// Of a request of either kind.
Status CheckTenantWeight(double weight);

// What can be told without a model. `param` of the status names the OpenAI field.
Status ValidateRequest(const GenerateRequest& request);

// invalid_utf8, naming the first byte at fault and its offset: HTTP reads no such text, and no
// other way in may lose bytes of it in silence.
Status CheckUtf8(std::string_view text, const std::string& param);

// The tools of a chat, and whether its tool_choice is one of them.
Status ValidateTools(const ChatPrompt& chat);

// The name of a function: 1 to kMaxToolNameBytes of [A-Za-z0-9_.-].
bool IsToolName(std::string_view name);

// Only a last message of the assistant's can be continued. One that is not continued is answered
// with a new message of the assistant's.
Status ValidateLastMessage(const ChatPrompt& chat, const std::string& param);

// token_out_of_range, naming the first id that the vocabulary does not have.
Status CheckTokens(const std::vector<TokenId>& ids, int vocab_size, const std::string& param);

// What needs the vocabulary: token ids of bias, stop and allow lists; token_out_of_range,
// no_token_allowed.
Status ValidateTokenIds(const SamplingParams& params, int vocab_size);

}  // namespace tutti::api
