#include "protocol/schema/dialogs.h"

#include "api/validate.h"
#include "protocol/schema/rows.h"

namespace tutti::protocol {
namespace {

constexpr double kLowestOutput = 16;  // OpenAI's least max_output_tokens
constexpr double kTopicBytes = 512;
constexpr double kTokenBytes = 8 << 10;

// Fields of requests for a turn of a dialog, without the fields of the sampling chain.
std::vector<FieldSpec> TurnRows() {
  constexpr std::string_view kSessionHint = "the session has its dialog";
  constexpr std::string_view kLogprobsHint = "use /v1/chat/completions";
  constexpr std::string_view kInputHint = "use input";
  constexpr ScopeSet kAnyItem = kInputItem | kCallItem | kCallOutputItem | kReasoningItem;
  return {
      // --- what is asked of which model ---
      Required(Text("model", kResponses, 1, kNameBytes)),
      Text("model", kSessionTurn, 1, kNameBytes),
      Required(Row("input", kTurn, FieldType::kAny)),
      Text("instructions", kTurn, 0, kTextBytes),
      Refused("messages", kTurn, {}, kInputHint),
      Refused("prompt", kTurn, {}, kInputHint),
      Refused("add_generation_prompt", kTurn, {"true"}),
      Refused("continue_final_message", kTurn, {"false"}),

      // --- which dialog, and what if it is busy ---
      Text("id", kResponses, 1, kIdBytes),
      Required(Text("id", kSessionTurn, 1, kIdBytes)),
      Choice("type", kSessionTurn, "message"),
      Text("project", kSessionTurn, 1, kIdBytes),
      Text("previous_response_id", kResponses, 1, kNameBytes),
      Row("conversation", kResponses, FieldType::kAny),
      Required(Text("id", kConversationName, 1, kNameBytes)),
      Refused("previous_response_id", kSessionTurn, {}, kSessionHint),
      Refused("conversation", kMqttMessage, {}, kSessionHint),
      Text("conversation", kChatMessage, 1, kNameBytes),
      Text("session", kChatMessage | kChatControl, 1, kIdBytes),
      Choice("policy", kTurn, "enqueue|reject|interrupt|rollback|steer"),
      Text("expected_last_item_id", kTurn, 1, kNameBytes),
      Choice("truncation", kTurn, "auto|disabled"),
      Refused("truncate_prompt_tokens", kTurn, {}, "use truncation"),
      Refused("context_management", kTurn, {}, "use truncation"),

      // --- length ---
      Int("max_output_tokens", kResponses, kLowestOutput, kInt32Max),
      Int("max_output_tokens", kSessionTurn, 1, kInt32Max),
      Int("max_tokens", kSessionTurn, 1, kInt32Max),
      Refused("max_tokens", kResponses, {}, "use max_output_tokens"),
      Refused("max_completion_tokens", kTurn, {}, "use max_output_tokens"),

      // --- what comes back ---
      Flag("stream", kResponses),
      Row("stream_options", kResponses, FieldType::kAny),
      Flag("include_obfuscation", kResponseStreamOptions),
      WithoutEffect(Flag("include_usage", kResponseStreamOptions)),  // the last event has it
      Refused("continuous_usage_stats", kResponseStreamOptions, {"false"}),
      Refused("stream", kSessionTurn, {"true"}, "the last event alone has the whole answer"),
      Flag("background", kResponses),
      Flag("store", kResponses),
      Refused("background", kSessionTurn, {"true"}, "a turn of a session outlives its client"),
      Refused("disconnect", kResponses, {"\"cancel\""}, "use background"),
      Refused("disconnect", kSessionTurn, {"\"detach\""},
              "a turn of a session outlives its client"),
      Row("metadata", kResponses, FieldType::kObject, 0, kMetadataBytes),
      Row("include", kResponses, FieldType::kAny),
      Row("text", kResponses, FieldType::kAny),
      Row("format", kTextOptions, FieldType::kAny),
      Refused("verbosity", kTextOptions, {"\"medium\""},
              "the model's chat template does not name it"),
      Refused("response_format", kResponses, {}, "use text.format"),
      Row("reasoning", kResponses, FieldType::kAny),
      Choice("effort", kReasoningOptions, "none|minimal|low|medium|high|xhigh|max"),
      Refused("summary", kReasoningOptions, {"\"auto\""}),
      Refused("context", kReasoningOptions, {"\"auto\""}),
      Refused("mode", kReasoningOptions, {"\"standard\""}),
      Refused("generate_summary", kReasoningOptions, {"\"auto\""}),
      Refused("moderation", kResponses),
      Refused("background_options", kResponses, {"{}"}, "use service_tier"),
      Refused("access_programs", kResponses, {"{}"}),
      Refused("image", kResponses, {"{}"}, "this model reads texts only"),
      WithoutEffect(Row("prompt_cache_options", kResponses, FieldType::kObject, 0, kMetadataBytes)),
      Refused("n", kTurn, {}, "a turn has one answer"),
      Refused("best_of", kTurn, {}, "a turn has one answer"),
      Refused("echo", kTurn),
      Refused("logprobs", kTurn, {}, kLogprobsHint),
      Refused("top_logprobs", kTurn, {}, kLogprobsHint),
      Refused("prompt_logprobs", kTurn, {}, kLogprobsHint),
      Refused("timings", kTurn),
      Refused("timings_per_token", kTurn),
      // The field limits calls of tools that the server runs, and this server runs none.
      WithoutEffect(Int("max_tool_calls", kTurn, 1, kInt32Max)),

      // --- items and their parts ---
      WithoutEffect(Text("type", kAnyItem, 1, kNameBytes)),  // which scope it is
      Required(Choice("role", kInputItem, "system|developer|user|assistant")),
      Required(Row("content", kInputItem, FieldType::kAny)),
      Required(Text("call_id", kCallItem | kCallOutputItem, 1, kNameBytes)),
      Required(Row("output", kCallOutputItem, FieldType::kAny)),
      Row("content", kReasoningItem, FieldType::kAny),
      WithoutEffect(Row("summary", kReasoningItem, FieldType::kAny)),
      WithoutEffect(Text("encrypted_content", kReasoningItem, 0, kTextBytes)),
      WithoutEffect(Text("id", kAnyItem, 1, kNameBytes)),
      WithoutEffect(Choice("status", kAnyItem, "in_progress|completed|incomplete")),
      WithoutEffect(Choice("phase", kInputItem, "commentary|final_answer")),
      Required(Text("type", kInputPart, 1, kNameBytes)),
      Required(Text("text", kInputPart, 0, kTextBytes)),
      WithoutEffect(Row("annotations", kInputPart, FieldType::kAny)),
      WithoutEffect(Row("logprobs", kInputPart, FieldType::kAny)),
      WithoutEffect(Row("prompt_cache_breakpoint", kInputPart, FieldType::kAny)),
  };
}

std::vector<FieldSpec> ConversationRows() {
  return {
      Row("metadata", kConversation | kConversationFork, FieldType::kObject, 0, kMetadataBytes),
      Required(Row("metadata", kConversationUpdate, FieldType::kObject, 0, kMetadataBytes)),
      Row("items", kConversation, FieldType::kAny),
      Required(Row("items", kConversationItems, FieldType::kArray, 1, kMaxItemsAtOnce)),
      WithoutEffect(Row("include", kConversationItems, FieldType::kAny)),
      Int("version", kConversationFork, 0, kInt64High),
  };
}

std::vector<FieldSpec> SocketRows() {
  return {
      Choice("type", kSocketEnvelope, "response.create"),
      Choice("type", kSocketControl, "response.cancel|subscribe|ping|auth"),
      Required(
          Choice("type", kChatControl, "cancel|resume|history|fork|clear|ping|subscribe|auth")),
      Text("stream_id", kSocketEnvelope | kSocketControl | kChatMessage | kChatControl, 1,
           kNameBytes),
      Text("response_id", kSocketControl, 1, kNameBytes),
      Text("conversation", kChatControl, 1, kNameBytes),
      Text("job_id", kSocketControl | kChatControl, 1, kNameBytes),
      Int("starting_after", kSocketControl, 0, kInt64High),
      Text("id", kSocketControl, 1, kIdBytes),
      Text("token", kSocketControl | kChatControl, 1, kTokenBytes),
  };
}

std::vector<FieldSpec> MqttRows() {
  return {
      // --- native profile: .../ctl; and the same over a WebSocket ---
      Required(Choice("type", kMqttControl, "cancel|resume|history|fork|clear|subscribe|ping")),
      Text("id", kMqttControl | kChatControl, 1, kIdBytes),
      Text("project", kMqttControl | kChatControl, 1, kIdBytes),
      Text("response_id", kMqttControl | kChatControl, 1, kNameBytes),
      Text("job_id", kMqttControl, 1, kNameBytes),
      Int("starting_after", kMqttControl | kChatControl, 0, kInt64High),
      Int("limit", kMqttControl | kChatControl, 1, kMaxPage),
      Text("into", kMqttControl | kChatControl, 1, kIdBytes),
      Int("version", kMqttControl | kChatControl, 0, kInt64High),

      // --- project profile: an empty id is none ---
      Text("sessionId", kProjectMessage | kProjectVerb, 0, kIdBytes),
      Text("clientId", kProjectMessage | kProjectVerb, 0, kIdBytes),
      Text("requestId", kProjectMessage | kProjectVerb, 0, kIdBytes),
      Text("replyTopic", kProjectMessage, 0, kTopicBytes),
      Required(Text("message", kProjectMessage, 0, kTextBytes)),
      Text("systemPrompt", kProjectMessage, 0, kTextBytes),
      Num("temperature", kProjectMessage, 0, api::kMaxTemperature),
      Num("topP", kProjectMessage, 0, 1),
      Int("maxTokens", kProjectMessage, 1, kInt32Max),
      Text("session_id", kProjectVerb, 0, kIdBytes),
      Text("target", kProjectVerb, 0, kIdBytes),
      Text("template", kProjectVerb, 0, kTextBytes),
      Text("system_prompt", kProjectVerb, 0, kTextBytes),
      Text("prompt_template", kProjectVerb, 0, kTextBytes),
      Flag("reset", kProjectVerb),
  };
}

}  // namespace

std::vector<FieldSpec> DialogRows() {
  std::vector<FieldSpec> rows = TurnRows();
  for (FieldSpec& row : ConversationRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : MqttRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : SocketRows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tutti::protocol
