#include "protocol/schema/rows.h"

#include "api/encoding.h"
#include "api/validate.h"
#include "protocol/openai/batch.h"

namespace tutti::protocol {
namespace {

// --- dialogs ---

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
      Int("max_prompt_tokens", kTurn, 1, kInt32Max),
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
      Refused("logprobs", kResponses, {}, "use include: [\"message.output_text.logprobs\"]"),
      Refused("logprobs", kSessionTurn, {}, kLogprobsHint),
      Int("top_logprobs", kResponses, 0, api::kMaxLogprobs),
      Refused("top_logprobs", kSessionTurn, {}, kLogprobsHint),
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
      Text("before_item", kConversationFork, 1, kNameBytes),
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

// --- Anthropic's Messages API ---

constexpr double kToolSchemaBytes = 256 << 10;  // of one tool

FieldSpec StopSequencesRow() {
  FieldSpec row = Row("stop_sequences", kMessages, FieldType::kStrings, 1, api::kMaxStopBytes);
  row.count = api::kMaxStops;
  return row;
}

std::vector<FieldSpec> BodyRows() {
  constexpr std::string_view kNoLogprobs = "use /v1/chat/completions";
  return {
      // --- what is asked of which model ---
      Required(Text("model", kAnthropic, 1, kNameBytes)),
      Required(Row("messages", kAnthropic, FieldType::kArray, 1, api::kMaxMessages)),
      Row("system", kAnthropic, FieldType::kAny),
      Row("tools", kAnthropic, FieldType::kArray, 1, api::kMaxTools),
      Row("tool_choice", kAnthropic, FieldType::kAny),
      Row("thinking", kAnthropic, FieldType::kAny),
      Row("output_config", kAnthropic, FieldType::kAny),
      Row("output_format", kAnthropic, FieldType::kAny),
      // The prefix cache finds equal beginnings by itself.
      WithoutEffect(Row("cache_control", kAnthropic | kContentBlock | kMessagesTool,
                        FieldType::kObject, 0, kMetadataBytes)),

      // --- length and sampling: the rest of the chain has the rows of all routes ---
      Required(Int("max_tokens", kMessages, 1, kInt32Max)),
      StopSequencesRow(),
      Num("temperature", kMessages, 0, 1),

      // --- what comes back, when and for whom ---
      Flag("stream", kMessages),
      Choice("service_tier", kMessages, "auto|standard_only|default|flex|priority"),
      Row("metadata", kMessages, FieldType::kObject, 0, kMetadataBytes),
      Text("user_id", kRequestMetadata, 0, kNameBytes),

      // --- would change the answer, not in this release ---
      Refused("mcp_servers", kAnthropic, {"[]"}, "the server calls no tools itself"),
      Refused("container", kMessages, {}, "the server runs no code"),
      Refused("context_management", kAnthropic,
              {R"({})", R"({"edits":[]})",
               R"({"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})"},
              "the client edits its history"),
      Refused("inference_geo", kMessages, {"\"global\"", "\"not_available\""}),
      Refused("speed", kMessages, {"\"standard\""}),
      Refused("response_format", kMessages, {}, "use output_config.format"),
      Refused("max_completion_tokens", kMessages, {}, "use max_tokens"),
      Refused("add_generation_prompt", kAnthropic, {"true"},
              "a last message of role assistant is continued"),
      Refused("continue_final_message", kAnthropic, {},
              "a last message of role assistant is continued"),
      Refused("truncate_prompt_tokens", kMessages),
      Refused("n", kMessages, {}, "an answer is one message"),
      Refused("best_of", kMessages, {}, "an answer is one message"),
      Refused("logprobs", kMessages, {}, kNoLogprobs),
      Refused("top_logprobs", kMessages, {}, kNoLogprobs),
      Refused("prompt_logprobs", kMessages, {}, kNoLogprobs),
      Refused("echo", kMessages),
  };
}

std::vector<FieldSpec> MessageRows() {
  return {
      Required(Choice("role", kMessagesTurn, "user|assistant|system")),
      Required(Row("content", kMessagesTurn, FieldType::kAny)),
      // Each type of block has some of these; anthropic/request.cc asks for those that it needs.
      Required(Text("type", kContentBlock, 1, kNameBytes)),
      Text("text", kContentBlock, 0, kTextBytes),
      WithoutEffect(Row("citations", kContentBlock, FieldType::kAny)),
      Text("id", kContentBlock, 1, kNameBytes),
      Text("name", kContentBlock, 1, kNameBytes),
      Row("input", kContentBlock, FieldType::kAny),
      WithoutEffect(Row("caller", kContentBlock, FieldType::kAny)),
      Text("tool_use_id", kContentBlock, 1, kNameBytes),
      Row("content", kContentBlock, FieldType::kAny),
      WithoutEffect(Flag("is_error", kContentBlock)),
      Text("thinking", kContentBlock, 0, kTextBytes),
      WithoutEffect(Text("signature", kContentBlock, 0, kTextBytes)),
      WithoutEffect(Text("data", kContentBlock, 0, kTextBytes)),
  };
}

std::vector<FieldSpec> OptionRows() {
  return {
      Text("type", kMessagesTool, 1, kNameBytes),
      Required(Text("name", kMessagesTool, 1, api::kMaxToolNameBytes)),
      Text("description", kMessagesTool, 0, kTextBytes),
      Required(Row("input_schema", kMessagesTool, FieldType::kObject, 0, kToolSchemaBytes)),
      Flag("strict", kMessagesTool),
      WithoutEffect(Flag("eager_input_streaming", kMessagesTool)),
      Refused("defer_loading", kMessagesTool, {"false"}, "every tool is shown to the model"),
      Refused("allowed_callers", kMessagesTool, {R"(["direct"])"}, "the client calls its tools"),
      Refused("input_examples", kMessagesTool, {"[]"}, "write them into the description"),

      Required(Choice("type", kMessagesToolChoice, "auto|any|tool|none")),
      Text("name", kMessagesToolChoice, 1, api::kMaxToolNameBytes),
      Flag("disable_parallel_tool_use", kMessagesToolChoice),

      Required(Choice("type", kThinkingOptions, "enabled|disabled|adaptive")),
      // The model ends its thinking itself; max_tokens bounds both.
      Int("budget_tokens", kThinkingOptions, 1, kInt32Max),
      Refused("display", kThinkingOptions, {"\"summarized\""}),

      Row("format", kOutputConfig, FieldType::kAny),
      Choice("effort", kOutputConfig, "low|medium|high|xhigh|max"),
      Refused("task_budget", kOutputConfig, {}, "use max_tokens"),
  };
}

std::vector<FieldSpec> MessageBatchRows() {
  return {
      Required(Row("requests", kMessageBatch, FieldType::kArray, 1, kMaxBatchLines)),
      Required(Text("custom_id", kMessageBatchRequest, 1, kNameBytes)),
      Required(Row("params", kMessageBatchRequest, FieldType::kAny)),
  };
}

}  // namespace

std::vector<FieldSpec> EncodingRows() {
  constexpr ScopeSet kOpenAi = kEmbeddings | kRerank | kScore;
  constexpr ScopeSet kTei = kTeiEmbed | kTeiEmbedAll | kTeiPredict | kTeiRerank | kTeiSimilarity;
  constexpr ScopeSet kTeiVectors = kTeiEmbed | kTeiEmbedAll | kSimilarityParameters;
  constexpr ScopeSet kTeiCut =
      kTeiEmbed | kTeiEmbedAll | kTeiPredict | kTeiRerank | kSimilarityParameters;
  constexpr double kMost = api::kMaxEncodeInputs;
  constexpr std::string_view kCutHint = "use truncate_prompt_tokens";
  constexpr std::string_view kPromptHint = "use prompt_name, or write the prompt into the texts";
  constexpr std::string_view kTextHint = "this model reads texts only";
  return {
      // --- what is asked of which model ---
      Required(Text("model", kEmbeddings, 1, kNameBytes)),
      Text("model", kRerank | kScore | kTei, 1, kNameBytes),
      Required(Row("input", kEmbeddings, FieldType::kAny)),
      Required(
          Row("inputs", kTeiEmbed | kTeiEmbedAll | kTeiPredict | kTeiSimilarity, FieldType::kAny)),
      Required(Text("query", kRerank | kTeiRerank, 1, kTextBytes)),
      Required(Row("documents", kRerank, FieldType::kArray, 1, kMost)),
      Required(Row("texts", kTeiRerank, FieldType::kAny)),
      Row("text_1", kScore, FieldType::kAny),
      Row("text_2", kScore, FieldType::kAny),
      Row("queries", kScore, FieldType::kAny),
      Row("documents", kScore, FieldType::kAny),
      Row("items", kScore, FieldType::kAny),
      Row("data_1", kScore, FieldType::kAny),
      Row("data_2", kScore, FieldType::kAny),
      Required(Text("text", kDocument, 1, kTextBytes)),
      Required(Text("source_sentence", kSimilarityInputs, 1, kTextBytes)),
      Required(Row("sentences", kSimilarityInputs, FieldType::kAny)),
      Row("parameters", kTeiSimilarity, FieldType::kAny),
      Text("prompt_name", kOpenAi | kTeiVectors | kTeiRerank, 1, kNameBytes),
      Refused("messages", kOpenAi, {}, kTextHint),
      Refused("add_special_tokens", kOpenAi, {"true"}, "token ids are used as they are given"),
      Refused("mm_processor_kwargs", kOpenAi, {"{}"}, kTextHint),
      Refused("input_type", kOpenAi, {}, kPromptHint),
      Refused("task", kOpenAi, {}, kPromptHint),
      Refused("instruction", kOpenAi, {"\"\""}, kPromptHint),
      Refused("late_chunking", kEmbeddings, {"false"}),

      // --- length ---
      Int("truncate_prompt_tokens", kOpenAi, -1, kInt32Max),
      Choice("truncation_side", kOpenAi, "left|right"),
      Flag("truncate", kTeiCut),
      Choice("truncation_direction", kTeiCut, "Left|Right|left|right"),
      Refused("truncate", kOpenAi, {"false", "\"NONE\""}, kCutHint),
      Flag("truncation", kOpenAi),
      Refused("max_tokens_per_doc", kRerank, {}, kCutHint),
      Refused("max_chunks_per_doc", kRerank, {"1"}, "a document is read as one"),
      Refused("overlap_tokens", kRerank, {"0"}, "a document is read as one"),
      Refused("padding", kOpenAi, {"\"do_not_pad\""}),

      // --- what comes back ---
      Choice("encoding_format", kEmbeddings, "float|base64"),
      Int("dimensions", kEmbeddings | kTeiEmbed, 1, kInt32Max),
      Flag("normalize", kEmbeddings | kTeiEmbed),
      Int("top_n", kRerank, 0, kInt32Max),
      Flag("return_documents", kRerank),
      Flag("return_text", kTeiRerank),
      Flag("raw_scores", kRerank | kScore | kTeiPredict | kTeiRerank),
      Flag("use_activation", kRerank | kScore),
      Refused("use_activation", kEmbeddings, {}, "use normalize"),
      Refused("normalized", kEmbeddings, {}, "use normalize"),
      Refused("embed_dtype", kEmbeddings, {"\"float32\""}),
      Refused("endianness", kEmbeddings, {"\"native\"", "\"little\""}),
      Refused("embedding_type", kEmbeddings, {"\"float\""}, "use encoding_format"),
      Refused("embedding_types", kEmbeddings, {"[\"float\"]"}, "use encoding_format"),
      Refused("output_dtype", kEmbeddings, {"\"float\""}),
      Refused("output_dimension", kEmbeddings, {}, "use dimensions"),
      Refused("top_k", kRerank, {}, "use top_n"),
      Refused("rank_fields", kRerank, {"[\"text\"]"}, "documents are texts"),

      // --- when and where ---
      Choice("service_tier", kOpenAi | kTei, "auto|default|flex|priority"),
      Int("priority", kOpenAi | kTei, -kInt32Max, kInt32Max),
      Int("deadline_ms", kOpenAi | kTei, 1, kDayMs),
      Text("request_id", kOpenAi | kTei, 1, api::kMaxRequestIdBytes),

      // --- accepted, without effect on the answer ---
      WithoutEffect(Text("user", kOpenAi, 0, kMetadataBytes)),
      WithoutEffect(Text("safety_identifier", kOpenAi, 0, kMetadataBytes)),
      WithoutEffect(Row("metadata", kOpenAi, FieldType::kObject, 0, kMetadataBytes)),
      WithoutEffect(Text("cache_salt", kOpenAi, 1, kNameBytes)),
  };
}

std::vector<FieldSpec> DialogRows() {
  std::vector<FieldSpec> rows = TurnRows();
  for (FieldSpec& row : ConversationRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : MqttRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : SocketRows()) rows.push_back(std::move(row));
  return rows;
}

std::vector<FieldSpec> AnthropicRows() {
  std::vector<FieldSpec> rows = BodyRows();
  for (FieldSpec& row : MessageRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : OptionRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : MessageBatchRows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tutti::protocol
