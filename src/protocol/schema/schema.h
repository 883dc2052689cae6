// The schema of all JSON requests except KServe's and Ollama's, as one table: name, scopes, type,
// range, class, error code. KServe's requests, whose tensors depend on the model, are parsed in
// protocol/kserve/json/request.h; Ollama's, which are converted to others, have tables of their own
// (protocol/ollama/request.cc).
//
// The rows define the checks (field_check.h, checked_object.h), the error messages and the
// generated boundary tests. Classes:
//   honoured        has the effect it documents
//   without effect  accepted and checked, cannot change the answer
//   refused         would change the answer and is not implemented: 400 unsupported_parameter
//                   with the field, unless its value is neutral, by its row or by
//                   neutral_values.h
// A field in no row is unknown: ignored and reported, or 400 unknown_parameter in strict mode.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::protocol {

// Kinds of JSON objects that have a schema; one bit each.
enum Scope : uint64_t {
  kChat = uint64_t{1} << 0,           // POST /v1/chat/completions
  kText = uint64_t{1} << 1,           // POST /v1/completions
  kGenerate = uint64_t{1} << 2,       // POST /generate
  kTokenize = uint64_t{1} << 3,       // POST /tokenize
  kDetokenize = uint64_t{1} << 4,     // POST /detokenize
  kApplyTemplate = uint64_t{1} << 5,  // POST /apply-template
  kMessage = uint64_t{1} << 6,        // an element of messages
  kPart = uint64_t{1} << 7,           // an element of a message's content
  kStreamOptions = uint64_t{1} << 8,
  kEmbeddings = uint64_t{1} << 9,              // POST /v1/embeddings
  kRerank = uint64_t{1} << 10,                 // POST /v1/rerank, with documents
  kScore = uint64_t{1} << 11,                  // POST /v1/score
  kTeiEmbed = uint64_t{1} << 12,               // POST /embed
  kTeiEmbedAll = uint64_t{1} << 13,            // POST /embed_all
  kTeiPredict = uint64_t{1} << 14,             // POST /predict
  kTeiRerank = uint64_t{1} << 15,              // POST /rerank, with texts
  kTeiSimilarity = uint64_t{1} << 16,          // POST /similarity
  kSimilarityInputs = uint64_t{1} << 17,       // its inputs
  kSimilarityParameters = uint64_t{1} << 18,   // its parameters
  kDocument = uint64_t{1} << 19,               // an element of documents, or of what is scored
  kDecode = uint64_t{1} << 20,                 // POST /decode
  kResponses = uint64_t{1} << 21,              // POST /v1/responses
  kTextOptions = uint64_t{1} << 22,            // its text
  kReasoningOptions = uint64_t{1} << 23,       // its reasoning
  kResponseStreamOptions = uint64_t{1} << 24,  // its stream_options
  kConversationName = uint64_t{1} << 25,       // its conversation
  kInputItem = uint64_t{1} << 26,              // a message of its input, or of items
  kInputPart = uint64_t{1} << 27,              // an element of an item's content
  kConversation = uint64_t{1} << 28,           // POST /v1/conversations
  kConversationUpdate = uint64_t{1} << 29,     // POST /v1/conversations/{id}
  kConversationItems = uint64_t{1} << 30,      // POST /v1/conversations/{id}/items
  kConversationFork = uint64_t{1} << 31,       // POST /v1/conversations/{id}/fork
  kMqttMessage = uint64_t{1} << 32,            // MQTT, native profile: .../in
  kMqttControl = uint64_t{1} << 33,            // .../ctl
  kProjectMessage = uint64_t{1} << 34,         // MQTT, project profile: .../user_input
  kProjectVerb = uint64_t{1} << 35,            // .../template, .../clear, .../delete
  kSocketEnvelope = uint64_t{1} << 36,         // WebSocket: what response.create adds to a body
  kSocketControl = uint64_t{1} << 37,          // its other messages
  kBatch = uint64_t{1} << 38,                  // POST /v1/batches
  kExpiresAfter = uint64_t{1} << 39,           // its output_expires_after
  kBatchLine = uint64_t{1} << 40,              // a line of its input
  kChatMessage = uint64_t{1} << 41,            // WebSocket, /v1/ws: a message of a session
  kChatControl = uint64_t{1} << 42,            // its other frames
  kPrediction = uint64_t{1} << 43,             // a chat's prediction
  kTool = uint64_t{1} << 44,                   // an element of a chat's tools
  kToolFunction = uint64_t{1} << 45,           // its function
  kResponseTool = uint64_t{1} << 46,           // an element of a response's tools
  kToolCall = uint64_t{1} << 47,               // an element of a message's tool_calls
  kCalledFunction = uint64_t{1} << 48,         // its function
  kCallItem = uint64_t{1} << 49,               // an item of type function_call
  kCallOutputItem = uint64_t{1} << 50,         // an item of type function_call_output
  kReasoningItem = uint64_t{1} << 51,          // an item of type reasoning
  kMessages = uint64_t{1} << 52,               // POST /v1/messages (Anthropic)
  kCountTokens = uint64_t{1} << 53,            // POST /v1/messages/count_tokens
  kMessagesTurn = uint64_t{1} << 54,           // an element of their messages
  kContentBlock = uint64_t{1} << 55,           // an element of a message's content
  kMessagesTool = uint64_t{1} << 56,           // an element of their tools
  kMessagesToolChoice = uint64_t{1} << 57,     // their tool_choice
  kThinkingOptions = uint64_t{1} << 58,        // their thinking
  kRequestMetadata = uint64_t{1} << 59,        // their metadata
  kOutputConfig = uint64_t{1} << 60,           // their output_config
  kMessageBatch = uint64_t{1} << 61,           // POST /v1/messages/batches
  kMessageBatchRequest = uint64_t{1} << 62,    // an element of its requests
  kInfill = uint64_t{1} << 63,                 // POST /infill (llama.cpp)
  kLastScope = kInfill,
  kSocketCreate = kResponses | kSocketEnvelope,
  kAnyGeneration = kChat | kText | kGenerate,
  kSessionTurn = kMqttMessage | kChatMessage,               // a message of a session (MQTT, /v1/ws)
  kTurn = kResponses | kSessionTurn,                        // ask for one turn of a dialog
  kSampled = kAnyGeneration | kInfill | kTurn | kMessages,  // take the fields of the sampling chain
  kAnthropic = kMessages | kCountTokens,                    // hold a dialog as Anthropic writes it
  // Scopes of inference requests, in which neutral values count as absent
  // (protocol/schema/neutral_values.h).
  kAsks = kSampled | kCountTokens | kTokenize | kDetokenize | kDecode | kApplyTemplate |
          kProjectMessage | kEmbeddings | kRerank | kScore | kTeiEmbed | kTeiEmbedAll |
          kTeiPredict | kTeiRerank | kTeiSimilarity,
};

using ScopeSet = uint64_t;  // of Scope;

// Bounds of whole numbers, as rows hold them.
constexpr double kInt32Max = 2147483647.0;
constexpr double kInt64Low = -9223372036854775808.0, kInt64High = 9223372036854775807.0;

// Bounds of dialogs that their readers also need.
inline constexpr double kIdBytes = 128;  // ids that clients give: messages, requests, sessions
inline constexpr size_t kMaxItemsAtOnce = 20;  // of a conversation, in one call
inline constexpr double kMaxPage = 100;        // items of one page of a list

enum class FieldType {
  kBool,
  kInteger,   // low..high
  kNumber,    // low..high, finite
  kString,    // low..high bytes
  kChoice,    // one of the words of `words`
  kStrings,   // a string or a list of at most `count`, each low..high bytes
  kTokenIds,  // low..`count` integers 0..2^31-1; an id outside: token_out_of_range
  kBias,      // object of at most `count` members: token id as text -> number low..high
  kArray,     // low..high elements, checked by its reader
  kObject,    // at most high bytes when written as JSON
  kAny,       // checked by its reader
};

enum class FieldClass { kHonoured, kNoEffect, kRefused };

struct FieldSpec {
  std::string_view name;
  ScopeSet scopes = 0;
  FieldType type = FieldType::kAny;
  double low = 0, high = 0;
  FieldClass field_class = FieldClass::kHonoured;
  bool required = false;
  bool above_low = false;            // low itself is outside (top_p > 0)
  bool keeps_neutral = false;        // values of neutral_values.h are read, not taken as absent
  size_t count = 0;                  // elements of a list
  std::string_view words;            // "a|b|c"
  std::vector<std::string> neutral;  // refused: values, as JSON, that ask for nothing
  std::string_view hint;             // refused: added to the message
  std::string_view out_of_range = "invalid_value";  // code of a value outside low..high

  bool In(Scope scope) const { return (scopes & scope) != 0; }
};

std::span<const FieldSpec> Schema();
const FieldSpec* FindField(Scope scope, std::string_view name);

}  // namespace tutti::protocol
