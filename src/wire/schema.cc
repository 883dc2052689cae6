#include "wire/schema.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "api/validate.h"
#include "wire/utf8.h"

namespace tutti::wire {
namespace {

constexpr double kInt32Max = 2147483647.0;
constexpr double kInt64Low = -9223372036854775808.0, kInt64High = 9223372036854775807.0;
constexpr double kNameBytes = 256;               // model, user and other names
constexpr double kTextBytes = 64.0 * (1 << 20);  // prompts: the body limit binds first
constexpr double kMetadataBytes = 64 << 10;
constexpr size_t kMaxPrompts = 128;  // of one completions request
constexpr double kDayMs = 24.0 * 3600 * 1000;

// --- rows, one constructor per type so that the table reads as a table ---
FieldSpec Row(std::string_view name, unsigned scopes, FieldType type, double low = 0,
              double high = 0) {
  FieldSpec row;
  row.name = name;
  row.scopes = scopes;
  row.type = type;
  row.low = low;
  row.high = high;
  return row;
}
FieldSpec Flag(std::string_view name, unsigned scopes) {
  return Row(name, scopes, FieldType::kBool);
}
FieldSpec Int(std::string_view name, unsigned scopes, double low, double high) {
  return Row(name, scopes, FieldType::kInteger, low, high);
}
FieldSpec Num(std::string_view name, unsigned scopes, double low, double high) {
  return Row(name, scopes, FieldType::kNumber, low, high);
}
FieldSpec Text(std::string_view name, unsigned scopes, double low, double high) {
  return Row(name, scopes, FieldType::kString, low, high);
}
FieldSpec Choice(std::string_view name, unsigned scopes, std::string_view words) {
  FieldSpec row = Row(name, scopes, FieldType::kChoice);
  row.words = words;
  return row;
}
FieldSpec Tokens(std::string_view name, unsigned scopes, size_t least, size_t most) {
  FieldSpec row = Row(name, scopes, FieldType::kTokenIds, static_cast<double>(least),
                      static_cast<double>(most));
  row.count = most;
  row.out_of_range = "token_out_of_range";
  return row;
}
FieldSpec Required(FieldSpec row) {
  row.required = true;
  return row;
}
FieldSpec AboveLow(FieldSpec row) {
  row.above_low = true;
  return row;
}
FieldSpec WithoutEffect(FieldSpec row) {
  row.field_class = FieldClass::kNoEffect;
  return row;
}
FieldSpec Refused(std::string_view name, unsigned scopes, std::vector<std::string> neutral = {},
                  std::string_view hint = "") {
  FieldSpec row = Row(name, scopes, FieldType::kAny);
  row.field_class = FieldClass::kRefused;
  row.neutral = std::move(neutral);
  row.hint = hint;
  return row;
}

FieldSpec StopRow(unsigned scopes) {
  FieldSpec row = Row("stop", scopes, FieldType::kStrings, 1, api::kMaxStopBytes);
  row.count = api::kMaxStops;
  return row;
}
FieldSpec BiasRow(unsigned scopes) {
  FieldSpec row = Row("logit_bias", scopes, FieldType::kBias, -api::kMaxLogitBiasValue,
                      api::kMaxLogitBiasValue);
  row.count = api::kMaxLogitBias;
  return row;
}

std::vector<FieldSpec> MakeSchema() {
  constexpr unsigned kPrompted = kChat | kGenerate | kTokenize | kApplyTemplate;  // take messages
  constexpr unsigned kEverything = kAnyGeneration | kTokenize | kDetokenize | kApplyTemplate;
  constexpr std::string_view kToolsHint = "tools are not available in this release";
  constexpr std::string_view kFormatHint = "constrained output is not available in this release";
  return {
      // --- what is asked of which model ---
      Required(Text("model", kChat | kText, 1, kNameBytes)),
      Text("model", kGenerate | kTokenize | kDetokenize | kApplyTemplate, 1, kNameBytes),
      Required(Row("messages", kChat | kApplyTemplate, FieldType::kArray, 1, api::kMaxMessages)),
      Row("messages", kGenerate | kTokenize, FieldType::kArray, 1, api::kMaxMessages),
      Required(Row("prompt", kText, FieldType::kAny, 1, kMaxPrompts)),
      Text("prompt", kGenerate | kTokenize, 0, kTextBytes),
      Flag("add_generation_prompt", kPrompted),
      Flag("continue_final_message", kPrompted),
      Flag("add_special_tokens", kText | kGenerate | kTokenize),
      Refused("add_special_tokens", kChat | kApplyTemplate, {"false"},
              "the chat template writes them"),
      Flag("parse_special", kText | kGenerate | kTokenize),
      Int("truncate_prompt_tokens", kAnyGeneration, 1, kInt32Max),
      Refused("truncation_side", kAnyGeneration, {"\"left\""}, "prompts are cut at their start"),

      // --- length ---
      Int("max_completion_tokens", kChat, 1, kInt32Max),
      Int("max_tokens", kChat | kGenerate, 1, kInt32Max),
      Int("max_tokens", kText, 0, kInt32Max),
      Int("min_tokens", kAnyGeneration, 0, kInt32Max),
      Flag("ignore_eos", kAnyGeneration),
      StopRow(kAnyGeneration),
      Tokens("stop_token_ids", kAnyGeneration, 0, api::kMaxStopTokens),
      Flag("include_stop_str_in_output", kAnyGeneration),

      // --- sampling ---
      Num("temperature", kAnyGeneration, 0, api::kMaxTemperature),
      AboveLow(Num("top_p", kAnyGeneration, 0, 1)),
      Int("top_k", kAnyGeneration, -1, kInt32Max),
      Num("min_p", kAnyGeneration, 0, 1),
      Num("frequency_penalty", kAnyGeneration, -api::kMaxPenalty, api::kMaxPenalty),
      Num("presence_penalty", kAnyGeneration, -api::kMaxPenalty, api::kMaxPenalty),
      AboveLow(Num("repetition_penalty", kAnyGeneration, 0, api::kMaxRepetitionPenalty)),
      BiasRow(kAnyGeneration),
      Tokens("allowed_token_ids", kAnyGeneration, 1, api::kMaxTokenIdList),
      Refused("bad_words", kAnyGeneration, {"[]"}, "use logit_bias"),
      Int("seed", kAnyGeneration, kInt64Low, kInt64High),
      Int("n", kChat | kText, 1, api::kMaxChoices),
      Int("best_of", kText, 1, api::kMaxChoices),

      // --- what comes back ---
      Flag("stream", kAnyGeneration),
      Row("stream_options", kChat | kText, FieldType::kAny),
      Flag("include_usage", kStreamOptions),
      Flag("continuous_usage_stats", kStreamOptions),
      Flag("include_obfuscation", kStreamOptions),
      Flag("echo", kText),
      Refused("suffix", kText, {"\"\""}, "the model has no fill-in-the-middle tokens"),
      Flag("logprobs", kChat),
      Int("logprobs", kText, 0, 5),
      Int("top_logprobs", kChat, 0, api::kMaxLogprobs),
      Int("prompt_logprobs", kChat | kText, 0, api::kMaxLogprobs),
      Flag("skip_special_tokens", kAnyGeneration),
      Refused("spaces_between_special_tokens", kAnyGeneration, {"true"}),
      Refused("return_token_ids", kAnyGeneration, {"false"}, "use /tokenize"),
      Refused("return_tokens_as_token_ids", kAnyGeneration, {"false"}),
      Flag("timings", kAnyGeneration),
      Flag("timings_per_token", kAnyGeneration),

      // --- when and where ---
      Choice("service_tier", kAnyGeneration, "auto|default|flex|priority"),
      Int("priority", kAnyGeneration, -kInt32Max, kInt32Max),
      Int("deadline_ms", kAnyGeneration, 1, kDayMs),
      Text("request_id", kAnyGeneration, 1, api::kMaxRequestIdBytes),
      Text("cache_salt", kAnyGeneration, 1, kNameBytes),
      Choice("cache", kAnyGeneration, "auto|bypass"),
      Refused("disconnect", kAnyGeneration, {"\"cancel\""}, "a request ends with its connection"),
      Refused("session", kAnyGeneration),

      // --- accepted, without effect on the answer ---
      WithoutEffect(Text("user", kEverything, 0, kMetadataBytes)),
      WithoutEffect(Text("safety_identifier", kEverything, 0, kMetadataBytes)),
      WithoutEffect(Row("metadata", kEverything, FieldType::kObject, 0, kMetadataBytes)),
      WithoutEffect(Text("prompt_cache_key", kEverything, 0, kMetadataBytes)),
      WithoutEffect(Text("prompt_cache_retention", kEverything, 0, kNameBytes)),

      // --- would change the answer, not in this release ---
      Refused("tools", kChat | kGenerate | kApplyTemplate | kTokenize, {"[]"}, kToolsHint),
      Refused("tool_choice", kChat | kGenerate, {"\"none\"", "\"auto\""}, kToolsHint),
      Refused("parallel_tool_calls", kChat | kGenerate, {"true"}, kToolsHint),
      Refused("functions", kChat, {"[]"}, "deprecated; use tools"),
      Refused("function_call", kChat, {"\"none\"", "\"auto\""}, "deprecated; use tools"),
      Refused("response_format", kAnyGeneration, {"{\"type\":\"text\"}"}, kFormatHint),
      Refused("structured_outputs", kAnyGeneration, {}, kFormatHint),
      Refused("guided_json", kAnyGeneration, {}, kFormatHint),
      Refused("guided_regex", kAnyGeneration, {}, kFormatHint),
      Refused("guided_choice", kAnyGeneration, {}, kFormatHint),
      Refused("guided_grammar", kAnyGeneration, {}, kFormatHint),
      Refused("guided_decoding_backend", kAnyGeneration, {}, kFormatHint),
      Refused("grammar", kAnyGeneration, {"\"\""}, kFormatHint),
      Refused("json_schema", kAnyGeneration, {}, kFormatHint),
      Refused("reasoning_effort", kAnyGeneration, {}, "the model's chat template does not name it"),
      Refused("verbosity", kAnyGeneration, {}, "the model's chat template does not name it"),
      Refused("chat_template", kPrompted, {}, "the template is the model's own"),
      Refused("chat_template_kwargs", kPrompted, {"{}"}, "the template takes none"),
      Refused("documents", kPrompted, {"[]"}),
      Refused("audio", kChat),
      Refused("modalities", kChat, {"[\"text\"]"}),
      Refused("prediction", kChat),
      Refused("web_search_options", kChat),
      Refused("store", kAnyGeneration, {"false"}, "nothing is stored"),
      Refused("background", kAnyGeneration, {"false"}),
      Refused("use_beam_search", kAnyGeneration, {"false"}),
      Refused("length_penalty", kAnyGeneration, {"1", "1.0"}, "beam search is not available"),
      Refused("min_keep", kAnyGeneration, {"0", "1"}),
      Refused("typical_p", kAnyGeneration, {"1", "1.0"}),
      Refused("mirostat", kAnyGeneration, {"0"}),
      Refused("dry_multiplier", kAnyGeneration, {"0", "0.0"}),
      Refused("xtc_probability", kAnyGeneration, {"0", "0.0"}),

      // --- messages ---
      Required(Choice("role", kMessage, "system|developer|user|assistant|tool")),
      Row("content", kMessage, FieldType::kAny),
      Text("name", kMessage, 1, kNameBytes),
      Text("tool_call_id", kMessage, 1, kNameBytes),
      Refused("tool_calls", kMessage, {"[]"}, kToolsHint),
      Refused("function_call", kMessage, {}, kToolsHint),
      Refused("audio", kMessage),
      Refused("refusal", kMessage, {"\"\""}),
      WithoutEffect(Text("reasoning_content", kMessage, 0, kTextBytes)),
      WithoutEffect(Text("reasoning", kMessage, 0, kTextBytes)),
      Required(Text("type", kPart, 1, kNameBytes)),
      Text("text", kPart, 0, kTextBytes),

      // --- tokenizer routes ---
      Flag("return_token_strs", kTokenize),
      Text("content", kTokenize, 0, kTextBytes),
      Flag("add_special", kTokenize),
      Flag("with_pieces", kTokenize),
      Row("inputs", kTokenize, FieldType::kAny, 1, kMaxPrompts),
      Refused("prompt_name", kTokenize, {}, "the model has no named prompts"),
      Required(Tokens("tokens", kDetokenize, 0, 8 << 20)),
  };
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

std::string Figure(double number) {
  std::string text;
  if (number == std::floor(number) && std::abs(number) < 1e15) {
    text = std::to_string(static_cast<int64_t>(number));
  } else {
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
    text.assign(buffer, end);
  }
  return text;
}

Status Bad(const std::string& param, const std::string& rule) {
  return InvalidArgument("invalid_value", param + " must be " + rule).WithParam(param);
}

std::string RangeText(const FieldSpec& field) {
  if (field.low <= kInt64Low) return "a 64-bit integer";
  return std::string(field.type == FieldType::kInteger ? "an integer" : "a number") +
         (field.above_low ? " above " + Figure(field.low) + " and at most " + Figure(field.high)
                          : " from " + Figure(field.low) + " to " + Figure(field.high));
}

bool InRange(const FieldSpec& field, double value) {
  return std::isfinite(value) && (field.above_low ? value > field.low : value >= field.low) &&
         value <= field.high;
}

Status CheckText(const FieldSpec& field, const Json& value, const std::string& param) {
  if (!value.is_string()) return Bad(param, "a string");
  const auto size = static_cast<double>(value.get_string().size());
  if (size >= field.low && size <= field.high) return OkStatus();
  return Bad(param, "a string of " + Figure(field.low) + " to " + Figure(field.high) +
                        " bytes, not " + Figure(size));
}

Status CheckBias(const FieldSpec& field, const Json& value, const std::string& param) {
  if (!value.is_object()) return Bad(param, "an object of token ids and numbers");
  const JsonObject& object = value.get_object();
  if (object.size() > field.count) {
    return Bad(param, "an object of at most " + std::to_string(field.count) + " members");
  }
  for (const auto& member : object) {
    const std::string_view key(member.key().data(), member.key().size());
    int64_t id = 0;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = end == key.data() + key.size() && !key.empty();
    if (!whole || (fault != std::errc() && fault != std::errc::result_out_of_range) ||
        (key.size() > 1 && key[0] == '0')) {
      return InvalidArgument("invalid_value",
                             param + " has a key that is not a token id: " + Excerpt(key))
          .WithParam(param);
    }
    if (fault != std::errc() || id < 0 || id > static_cast<int64_t>(kInt32Max)) {
      return InvalidArgument("token_out_of_range", param + " names token id " + Excerpt(key) +
                                                       ", which no vocabulary has")
          .WithParam(param);
    }
    const std::optional<double> bias = member.value().is_number()
                                           ? std::optional(member.value().to_number<double>())
                                           : std::nullopt;
    if (!bias.has_value() || !InRange(field, *bias)) {
      return InvalidArgument("invalid_value", param + " of token " + std::to_string(id) +
                                                  " must be " + RangeText(field))
          .WithParam(param);
    }
  }
  return OkStatus();
}

bool IsNeutral(const FieldSpec& field, const Json& value) {
  return std::any_of(field.neutral.begin(), field.neutral.end(),
                     [&](const std::string& text) { return boost::json::parse(text) == value; });
}

Status CheckRefused(const FieldSpec& field, const Json& value, const std::string& param) {
  if (IsNeutral(field, value)) return OkStatus();
  std::string message = param + " is not supported";
  if (!field.hint.empty()) message += ": " + std::string(field.hint);
  return InvalidArgument("unsupported_parameter", std::move(message)).WithParam(param);
}

Status MissingField(const std::string& param) {
  return InvalidArgument("missing_required_parameter", param + " is missing").WithParam(param);
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

std::optional<int64_t> AsInteger(const Json& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double number = value.get_double();
    if (number == std::floor(number) && number >= kInt64Low && number < kInt64High) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;  // uint64 only holds what int64 cannot
}

Result<std::vector<TokenId>> ReadTokenIds(const JsonArray& array, const std::string& param) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string element = param + "[" + std::to_string(i) + "]";
    if (!array[i].is_number()) {
      return InvalidArgument("invalid_value", element + " must be a token id").WithParam(element);
    }
    const std::optional<int64_t> id = AsInteger(array[i]);
    if (!id.has_value() && array[i].is_double() && std::abs(array[i].get_double()) < kInt64High) {
      return InvalidArgument("invalid_value", element + " must be a whole number")
          .WithParam(element);
    }
    if (!id.has_value() || *id < 0 || *id > static_cast<int64_t>(kInt32Max)) {
      return InvalidArgument("token_out_of_range",
                             element + " is a token id that no vocabulary has")
          .WithParam(element);
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Status CheckValue(const FieldSpec& field, const Json& value, const std::string& param) {
  if (field.field_class == FieldClass::kRefused) return CheckRefused(field, value, param);
  switch (field.type) {
    case FieldType::kBool:
      return value.is_bool() ? OkStatus() : Bad(param, "true or false");
    case FieldType::kInteger: {
      const std::optional<int64_t> number = AsInteger(value);
      const bool ok = number.has_value() && InRange(field, static_cast<double>(*number));
      return ok ? OkStatus() : Bad(param, RangeText(field));
    }
    case FieldType::kNumber:
      return value.is_number() && InRange(field, value.to_number<double>())
                 ? OkStatus()
                 : Bad(param, RangeText(field));
    case FieldType::kString:
      return CheckText(field, value, param);
    case FieldType::kChoice: {
      if (value.is_string()) {
        const std::string_view word(value.get_string().data(), value.get_string().size());
        std::string_view rest = field.words;
        while (!rest.empty()) {
          const size_t bar = std::min(rest.find('|'), rest.size());
          if (word == rest.substr(0, bar)) return OkStatus();
          rest.remove_prefix(std::min(bar + 1, rest.size()));
        }
      }
      std::string words(field.words);
      for (size_t at = 0; (at = words.find('|', at)) != std::string::npos;)
        words.replace(at, 1, ", ");
      return Bad(param, "one of " + words);
    }
    case FieldType::kStrings: {
      if (value.is_string()) return CheckText(field, value, param);
      if (!value.is_array()) return Bad(param, "a string or a list of strings");
      const JsonArray& array = value.get_array();
      if (array.size() > field.count)
        return Bad(param, "a list of at most " + std::to_string(field.count));
      for (size_t i = 0; i < array.size(); ++i) {
        RETURN_IF_ERROR(CheckText(field, array[i], param + "[" + std::to_string(i) + "]"));
      }
      return OkStatus();
    }
    case FieldType::kTokenIds: {
      if (!value.is_array()) return Bad(param, "a list of token ids");
      const size_t size = value.get_array().size();
      if (size > field.count || static_cast<double>(size) < field.low) {
        return Bad(param, "a list of " + Figure(field.low) + " to " + std::to_string(field.count) +
                              " token ids");
      }
      return ReadTokenIds(value.get_array(), param).status();
    }
    case FieldType::kBias:
      return CheckBias(field, value, param);
    case FieldType::kArray: {
      if (!value.is_array()) return Bad(param, "a list");
      const auto size = static_cast<double>(value.get_array().size());
      if (size >= field.low && size <= field.high) return OkStatus();
      return Bad(param,
                 "a list of " + Figure(field.low) + " to " + Figure(field.high) + " elements");
    }
    case FieldType::kObject: {
      if (!value.is_object()) return Bad(param, "an object");
      const auto size = static_cast<double>(boost::json::serialize(value).size());
      return size <= field.high
                 ? OkStatus()
                 : Bad(param, "an object of at most " + Figure(field.high) + " bytes");
    }
    case FieldType::kAny:
      return OkStatus();
  }
  return OkStatus();
}

void IgnoredFields::Add(std::string_view path) {
  constexpr size_t kMaxNames = 32, kMaxBytes = 64;
  std::string name;
  for (const char c : path.substr(0, kMaxBytes)) {
    const bool fit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || c == '.' || c == '[' || c == ']';
    name += fit ? c : '?';
  }
  if (names_.size() < kMaxNames && std::find(names_.begin(), names_.end(), name) == names_.end()) {
    names_.push_back(std::move(name));
  }
}

Result<CheckedObject> CheckedObject::Check(Scope scope, const Json& value, std::string path,
                                           bool strict, IgnoredFields* ignored) {
  if (!value.is_object()) {
    if (path.empty()) return InvalidArgument("invalid_json", "the body must be a JSON object");
    return InvalidArgument("invalid_value", path + " must be an object").WithParam(path);
  }
  const CheckedObject checked(scope, &value.get_object(), path);
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const auto& member : value.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const FieldSpec* field = FindField(scope, name);
    if (field == nullptr) {
      if (strict) {
        const std::string param = Excerpt(prefix + std::string(name.substr(0, 256)));
        return InvalidArgument("unknown_parameter", "unknown field " + param).WithParam(param);
      }
      ignored->Add(prefix + std::string(name.substr(0, 64)));
      continue;
    }
    if (member.value().is_null()) continue;
    RETURN_IF_ERROR(CheckValue(*field, member.value(), prefix + std::string(name)));
  }
  for (const FieldSpec& field : Table()) {
    if (field.required && field.In(scope) && checked.Find(field.name) == nullptr) {
      return MissingField(prefix + std::string(field.name));
    }
  }
  return checked;
}

const FieldSpec& CheckedObject::Spec(std::string_view name) const {
  const FieldSpec* field = FindField(scope_, name);
  CHECK(field != nullptr) << "no schema row for " << name;
  return *field;
}

const Json* CheckedObject::Find(std::string_view name) const {
  const Json* value = object_->if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string CheckedObject::Param(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

std::optional<bool> CheckedObject::Bool(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kBool) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : std::optional(value->get_bool());
}

std::optional<int64_t> CheckedObject::Int(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kInteger) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : AsInteger(*value);
}

std::optional<double> CheckedObject::Number(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kNumber) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : std::optional(value->to_number<double>());
}

std::optional<std::string> CheckedObject::Text(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kString || Spec(name).type == FieldType::kChoice) << name;
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value->get_string().data(), value->get_string().size());
}

std::vector<std::string> CheckedObject::Strings(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kStrings) << name;
  std::vector<std::string> out;
  const Json* value = Find(name);
  if (value == nullptr) return out;
  if (value->is_string()) {
    out.emplace_back(value->get_string().data(), value->get_string().size());
  } else {
    for (const Json& element : value->get_array()) {
      out.emplace_back(element.get_string().data(), element.get_string().size());
    }
  }
  return out;
}

std::vector<TokenId> CheckedObject::Tokens(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kTokenIds) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::vector<TokenId>()
                          : ReadTokenIds(value->get_array(), Param(name)).value();
}

std::vector<std::pair<TokenId, float>> CheckedObject::Bias(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kBias) << name;
  std::vector<std::pair<TokenId, float>> out;
  const Json* value = Find(name);
  if (value == nullptr) return out;
  for (const auto& member : value->get_object()) {
    TokenId id = 0;
    std::from_chars(member.key().data(), member.key().data() + member.key().size(), id);
    out.emplace_back(id, member.value().to_number<float>());
  }
  return out;
}

}  // namespace tutti::wire
