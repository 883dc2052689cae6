#include "protocol/schema/schema.h"

#include <unordered_map>

#include "api/encoding.h"
#include "api/validate.h"
#include "protocol/openai/file.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/rows.h"

namespace tutti::protocol {
namespace {

constexpr size_t kMaxPrompts = 128;  // of one completions request

FieldSpec StopRow(ScopeSet scopes) {
  FieldSpec row = Row("stop", scopes, FieldType::kStrings, 1, api::kMaxStopBytes);
  row.count = api::kMaxStops;
  return row;
}
FieldSpec BiasRow(ScopeSet scopes) {
  FieldSpec row = Row("logit_bias", scopes, FieldType::kBias, -api::kMaxLogitBiasValue,
                      api::kMaxLogitBiasValue);
  row.count = api::kMaxLogitBias;
  return row;
}

// Batches: the create request, and the lines of the input.
std::vector<FieldSpec> BatchRows() {
  return {
      Required(Text("input_file_id", kBatch, 1, kNameBytes)),
      Required(Choice("endpoint", kBatch,
                      "/v1/responses|/v1/chat/completions|/v1/completions|/v1/embeddings|"
                      "/v1/decisions|/v1/systemone")),
      Required(Choice("completion_window", kBatch, "24h")),
      Row("metadata", kBatch, FieldType::kObject, 0, kMetadataBytes),
      Row("output_expires_after", kBatch, FieldType::kAny),
      Required(Choice("anchor", kExpiresAfter, "created_at")),
      Required(Int("seconds", kExpiresAfter, static_cast<double>(kLeastExpirySeconds),
                   static_cast<double>(kMaxExpirySeconds))),
      Required(Text("custom_id", kBatchLine, 1, kNameBytes)),
      Required(Row("method", kBatchLine, FieldType::kAny)),
      Required(Row("url", kBatchLine, FieldType::kAny)),
      Required(Row("body", kBatchLine, FieldType::kAny)),
  };
}

std::vector<FieldSpec> GenerationRows() {
  constexpr ScopeSet kPrompted = kChat | kGenerate | kTokenize | kApplyTemplate;  // take messages
  constexpr ScopeSet kTemplated = kPrompted | kTurn | kAnthropic;  // render a chat template
  constexpr ScopeSet kEverything = kSampled | kTokenize | kDetokenize | kApplyTemplate;
  constexpr std::string_view kLogprobsHint = "the routes of /v1 have log-probabilities";
  return {
      // --- what is asked of which model ---
      Required(Text("model", kChat | kText, 1, kNameBytes)),
      Text("model", kGenerate | kInfill | kTokenize | kDetokenize | kDecode | kApplyTemplate, 1,
           kNameBytes),
      Required(Row("messages", kChat | kApplyTemplate, FieldType::kArray, 1, api::kMaxMessages)),
      Row("messages", kGenerate | kTokenize, FieldType::kArray, 1, api::kMaxMessages),
      Required(Row("prompt", kText, FieldType::kAny, 1, kMaxPrompts)),
      Text("prompt", kGenerate | kInfill | kTokenize, 0, kTextBytes),
      Text("suffix", kText, 0, kTextBytes),
      Refused("suffix", kGenerate, {}, "/v1/completions and /infill have it"),
      Required(Text("input_prefix", kInfill, 0, kTextBytes)),
      Required(Text("input_suffix", kInfill, 0, kTextBytes)),
      Row("input_extra", kInfill, FieldType::kArray, 1, api::kMaxContextFiles),
      Flag("add_generation_prompt", kPrompted),
      Flag("continue_final_message", kPrompted),
      Row("chat_template_kwargs", kTemplated, FieldType::kObject, 0, kMaxTemplateArgumentBytes),
      Flag("enable_thinking", kTemplated),
      Choice("reasoning_effort", kTemplated, "minimal|low|medium|high|xhigh|max"),
      Int("thinking_token_budget", kChat | kGenerate | kTurn, 0, kInt32Max),
      Int("thinking_budget", kChat | kGenerate | kTurn, 0, kInt32Max),
      Flag("add_special_tokens", kText | kGenerate | kTokenize),
      Refused("add_special_tokens", kChat | kApplyTemplate | kTurn, {"false"},
              "the chat template writes them"),
      Flag("parse_special", kText | kGenerate | kTokenize),
      Int("truncate_prompt_tokens", kAnyGeneration, 1, kInt32Max),
      Refused("truncation_side", kSampled, {"\"left\""}, "prompts are cut at their start"),

      // --- length ---
      Int("max_completion_tokens", kChat, 1, kInt32Max),
      Int("max_tokens", kChat | kGenerate | kInfill, 1, kInt32Max),
      Int("n_predict", kInfill, -1, kInt32Max),
      Int("max_tokens", kText, 0, kInt32Max),
      Refused("max_completion_tokens", kGenerate, {}, "use max_tokens"),
      Int("min_tokens", kSampled, 0, kInt32Max),
      Flag("ignore_eos", kSampled),
      StopRow(kSampled),
      Tokens("stop_token_ids", kSampled, 0, api::kMaxStopTokens),
      Flag("include_stop_str_in_output", kSampled),

      // --- sampling ---
      Num("temperature", kSampled & ~kMessages, 0, api::kMaxTemperature),
      Num("top_p", kSampled, 0, 1),
      Int("top_k", kSampled, -1, kInt32Max),
      Num("min_p", kSampled, 0, 1),
      Num("frequency_penalty", kSampled, -api::kMaxPenalty, api::kMaxPenalty),
      Num("presence_penalty", kSampled, -api::kMaxPenalty, api::kMaxPenalty),
      AboveLow(Num("repetition_penalty", kSampled, 0, api::kMaxRepetitionPenalty)),
      BiasRow(kSampled),
      Tokens("allowed_token_ids", kSampled, 1, api::kMaxTokenIdList),
      Refused("bad_words", kSampled, {}, "use logit_bias"),
      Int("seed", kSampled, kInt64Low, kInt64High),
      Int("n", kChat | kText, 1, api::kMaxChoices),
      Refused("n", kGenerate | kInfill, {}, "this route answers once"),
      Int("best_of", kText, 1, api::kMaxChoices),
      Refused("best_of", kChat | kGenerate),

      Row("prediction", kChat, FieldType::kAny),

      // --- what the answer must satisfy (protocol/schema/sampling_fields.h) ---
      Row("response_format", kAnyGeneration | kSessionTurn, FieldType::kAny),
      Row("structured_outputs", kSampled, FieldType::kAny),
      Row("guided_json", kSampled, FieldType::kAny),
      Row("guided_regex", kSampled, FieldType::kAny),
      Row("guided_choice", kSampled, FieldType::kAny),
      Row("guided_grammar", kSampled, FieldType::kAny),
      WithoutEffect(Text("guided_decoding_backend", kSampled, 0, kNameBytes)),
      WithoutEffect(Text("guided_whitespace_pattern", kSampled, 0, kNameBytes)),
      Row("grammar", kSampled, FieldType::kAny),
      Row("json_schema", kSampled, FieldType::kAny),
      Row("format", kSampled, FieldType::kAny),

      // --- functions that the model may call (protocol/schema/chat_fields.h) ---
      Row("tools", kPrompted | kTurn, FieldType::kArray, 0, api::kMaxTools),
      KeepsNeutral(Row("tool_choice", kPrompted | kTurn, FieldType::kAny)),
      KeepsNeutral(Flag("parallel_tool_calls", kPrompted | kTurn)),
      Text("type", kTool | kResponseTool | kToolCall, 1, kNameBytes),
      Required(Row("function", kTool | kToolCall, FieldType::kAny)),
      Required(Text("name", kToolFunction | kResponseTool, 1, api::kMaxToolNameBytes)),
      Text("description", kToolFunction | kResponseTool, 0, kTextBytes),
      Row("parameters", kToolFunction | kResponseTool, FieldType::kAny),
      Flag("strict", kToolFunction | kResponseTool),

      // --- what comes back ---
      Flag("stream", kAnyGeneration | kInfill),
      Row("stream_options", kChat | kText, FieldType::kAny),
      Flag("include_usage", kStreamOptions),
      Flag("continuous_usage_stats", kStreamOptions),
      Flag("include_obfuscation", kStreamOptions),
      Flag("echo", kText),
      Refused("echo", kChat | kGenerate, {}, "/v1/completions has it"),
      Flag("logprobs", kChat),
      Int("logprobs", kText, 0, 5),
      Int("top_logprobs", kChat, 0, api::kMaxLogprobs),
      Refused("logprobs", kGenerate, {}, kLogprobsHint),
      Refused("top_logprobs", kGenerate, {}, kLogprobsHint),
      Int("prompt_logprobs", kChat | kText, 0, api::kMaxLogprobs),
      Refused("prompt_logprobs", kGenerate, {}, kLogprobsHint),
      Flag("skip_special_tokens", kSampled),
      Refused("spaces_between_special_tokens", kSampled),
      Refused("return_token_ids", kSampled, {}, "use /tokenize"),
      Refused("return_tokens_as_token_ids", kSampled),
      Flag("timings", kAnyGeneration),
      Flag("timings_per_token", kAnyGeneration),

      // --- when and where ---
      Choice("service_tier", kSampled & ~kMessages, "auto|default|flex|priority"),
      Int("priority", kSampled, -kInt32Max, kInt32Max),
      Int("deadline_ms", kSampled, 1, kDayMs),
      Text("request_id", kSampled, 1, api::kMaxRequestIdBytes),
      Text("cache_salt", kSampled, 1, kNameBytes),
      Choice("cache", kSampled, "auto|bypass"),
      Flag("explain_cache", kSampled),
      Refused("disconnect", kAnyGeneration, {"\"cancel\""}, "a request ends with its connection"),
      Refused("session", kAnyGeneration | kResponses | kMqttMessage),

      // --- accepted, without effect on the answer ---
      WithoutEffect(Text("user", kEverything, 0, kMetadataBytes)),
      WithoutEffect(Text("safety_identifier", kEverything, 0, kMetadataBytes)),
      WithoutEffect(Row("metadata", kEverything & ~(kResponses | kMessages), FieldType::kObject, 0,
                        kMetadataBytes)),
      WithoutEffect(Text("prompt_cache_key", kEverything, 0, kMetadataBytes)),
      WithoutEffect(Text("prompt_cache_retention", kEverything, 0, kNameBytes)),
      // Clients send it by habit; answers are kept by /v1/responses, turns by their session.
      WithoutEffect(Flag("store", kAnyGeneration | kInfill | kSessionTurn)),

      // --- would change the answer, not in this release ---
      Refused("functions", kChat | kGenerate | kTurn, {}, "deprecated; use tools"),
      Refused("function_call", kChat | kGenerate | kTurn, {}, "deprecated; use tools"),
      Refused("reasoning_effort", kText, {}, "no template renders a prompt"),
      Refused("verbosity", kSampled, {}, "the length of an answer is max_tokens"),
      Refused("chat_template", kTemplated, {}, "the template is the model's own"),
      Refused("chat_template_kwargs", kText, {}, "no template renders a prompt"),
      Refused("documents", kTemplated),
      Refused("audio", kChat | kGenerate | kTurn),
      Refused("modalities", kChat | kGenerate | kTurn, {"[\"text\"]"}),
      Refused("prediction", kGenerate | kTurn, {}, "/v1/chat/completions has it"),
      Refused("web_search_options", kChat | kGenerate | kTurn),
      Refused("background", kAnyGeneration, {"false"}),
      Refused("use_beam_search", kSampled),
      Refused("length_penalty", kSampled, {}, "beam search is not available"),
      Refused("min_keep", kSampled),
      Refused("typical_p", kSampled),
      Refused("mirostat", kSampled),
      Refused("repeat_penalty", kSampled, {}, "use repetition_penalty"),
      Refused("repeat_last_n", kSampled, {}, "repetition_penalty looks at all tokens"),
      Refused("n_predict", kSampled & ~kInfill, {}, "use max_tokens"),
      Refused("num_predict", kSampled, {}, "use max_tokens"),
      Refused("options", kSampled, {}, "put its members next to model"),
      Refused("dry_multiplier", kSampled),
      Refused("xtc_probability", kSampled),
      Refused("top_n_sigma", kSampled),
      Refused("dynatemp_range", kSampled),
      Refused("tfs_z", kSampled),
      Refused("top_a", kSampled),
      Refused("penalty_alpha", kSampled),
      // Editors send samplers, n_indent and t_max_predict_ms with every request to /infill: there
      // they are unknown fields, and reported as such.
      Refused("samplers", kSampled & ~kInfill, {}, "the order of the sampling chain is fixed"),
      Refused("lora", kSampled),
      Refused("n_probs", kSampled & ~kInfill, {}, "use logprobs"),
      Refused("n_probs", kInfill, {}, kLogprobsHint),
      Refused("n_indent", kSampled & ~kInfill),
      Refused("t_max_predict_ms", kSampled & ~kInfill, {}, "use deadline_ms"),
      Refused("logits_processors", kSampled),
      Refused("max_new_tokens", kSampled, {}, "use max_tokens"),
      Refused("do_sample", kSampled, {}, "temperature 0 is greedy"),
      Refused("num_beams", kSampled, {}, "beam search is not available"),
      Refused("no_repeat_ngram_size", kSampled),
      Refused("ban_eos_token", kSampled, {}, "use ignore_eos"),

      // --- messages ---
      Required(Choice("role", kMessage, "system|developer|user|assistant|tool")),
      Row("content", kMessage | kPrediction, FieldType::kAny),
      Text("name", kMessage, 1, kNameBytes),
      Text("tool_call_id", kMessage, 1, kNameBytes),
      Row("tool_calls", kMessage, FieldType::kArray, 0, api::kMaxToolCalls),
      Required(Text("id", kToolCall, 1, kNameBytes)),
      WithoutEffect(Int("index", kToolCall, 0, kInt32Max)),  // of a streamed call, sent back
      Required(Text("name", kCalledFunction | kCallItem, 1, kNameBytes)),
      Text("arguments", kCalledFunction | kCallItem, 0, kTextBytes),
      Refused("function_call", kMessage, {}, "deprecated; use tool_calls"),
      Refused("audio", kMessage),
      Refused("refusal", kMessage, {"\"\""}),
      Text("reasoning_content", kMessage, 0, kTextBytes),
      Text("reasoning", kMessage, 0, kTextBytes),
      Required(Text("type", kPart | kPrediction, 1, kNameBytes)),
      Text("text", kPart, 0, kTextBytes),

      // --- tokenizer routes ---
      Flag("return_token_strs", kTokenize),
      Text("content", kTokenize, 0, kTextBytes),
      Flag("add_special", kTokenize),
      Flag("with_pieces", kTokenize),
      Row("inputs", kTokenize, FieldType::kAny, 1, api::kMaxEncodeInputs),
      Refused("prompt_name", kTokenize, {}, "put the prompt before the text"),
      Required(Tokens("tokens", kDetokenize, 0, 8 << 20)),
      Required(Row("ids", kDecode, FieldType::kAny)),
      Flag("skip_special_tokens", kDecode),
  };
}

std::vector<FieldSpec> MakeSchema() {
  std::vector<FieldSpec> rows = GenerationRows();
  for (FieldSpec& row : EncodingRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : DialogRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : AnthropicRows()) rows.push_back(std::move(row));
  for (FieldSpec& row : BatchRows()) rows.push_back(std::move(row));
  return rows;
}

const std::vector<FieldSpec>& Table() {
  static const std::vector<FieldSpec> table = MakeSchema();
  return table;
}

// Rows by name; the few rows of one name differ in scope.
const std::unordered_multimap<std::string_view, const FieldSpec*>& ByName() {
  static const auto index = [] {
    std::unordered_multimap<std::string_view, const FieldSpec*> rows;
    for (const FieldSpec& row : Table()) rows.emplace(row.name, &row);
    return rows;
  }();
  return index;
}

}  // namespace

std::span<const FieldSpec> Schema() { return Table(); }

const FieldSpec* FindField(Scope scope, std::string_view name) {
  const auto [first, last] = ByName().equal_range(name);
  for (auto it = first; it != last; ++it) {
    if (it->second->In(scope)) return it->second;
  }
  return nullptr;
}

}  // namespace tutti::protocol
