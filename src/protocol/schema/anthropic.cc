#include <utility>

#include "api/validate.h"
#include "protocol/openai/batch.h"
#include "protocol/schema/rows.h"

namespace tutti::protocol {
namespace {

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

std::vector<FieldSpec> AnthropicRows() {
  std::vector<FieldSpec> rows = BodyRows();
  for (FieldSpec& row : MessageRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : OptionRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : MessageBatchRows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tutti::protocol
