#include "protocol/schema/sampling_fields.h"

#include <string>
#include <utility>

#include "protocol/json/field_error.h"

namespace tutti::protocol {
namespace {

using Kind = api::Constraint::Kind;
using MaybeConstraint = std::optional<api::Constraint>;

Status UnsupportedForm(const std::string& param, std::string_view type, std::string_view forms) {
  return NotSupported(param,
                      param + " " + Excerpt(type) + " is not supported; use " + std::string(forms));
}

// A schema as an object, a boolean, or the text of one, as some clients send it.
Result<MaybeConstraint> SchemaOf(const Json& value, const std::string& param) {
  if (value.is_string())
    return MaybeConstraint(
        {.kind = Kind::kJsonSchema, .text = std::string(TextOf(value)), .param = param});
  if (!value.is_object() && !value.is_bool()) return MustBe(param, "a JSON schema: an object");
  return MaybeConstraint({.kind = Kind::kJsonSchema, .text = PrintJson(value), .param = param});
}

Result<MaybeConstraint> TextConstraint(const Json& value, Kind kind, const std::string& param) {
  if (!value.is_string()) return MustBe(param, "a string");
  return MaybeConstraint({.kind = kind, .text = std::string(TextOf(value)), .param = param});
}

Result<MaybeConstraint> Choices(const Json& value, const std::string& param) {
  if (!value.is_array() || value.get_array().empty())
    return MustBe(param, "a list of strings that is not empty");
  api::Constraint constraint{.kind = Kind::kChoice, .param = param};
  for (const Json& choice : value.get_array()) {
    if (!choice.is_string()) return MustBe(param, "a list of strings");
    constraint.choices.emplace_back(TextOf(choice));
  }
  return MaybeConstraint(std::move(constraint));
}

// {"type": "text" | "json_object" | "json_schema", ...}. Chat completions put the schema under
// json_schema, Responses next to the type. Text Generation Inference and its client have
// json_object, json or regex with the schema or expression as `value`.
Result<MaybeConstraint> ResponseFormat(const Json& value, const std::string& param, bool nested) {
  if (!value.is_object()) return MustBe(param, "an object with a type");
  const JsonObject& object = value.get_object();
  const Json* type = object.if_contains("type");
  if (type == nullptr) return IsMissing(param + ".type");
  if (!type->is_string()) return MustBe(param + ".type", "a string");
  const std::string_view name = TextOf(*type);
  if (name == "text") return MaybeConstraint();
  const auto member = [&](const char* key) {
    const Json* found = object.if_contains(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  };
  if (name == "json_object") {
    // llama.cpp takes a schema here as well.
    for (const char* const key : {"schema", "value"}) {
      if (const Json* schema = member(key)) return SchemaOf(*schema, param + "." + key);
    }
    return MaybeConstraint({.kind = Kind::kJsonObject, .param = param});
  }
  if (name == "json" || name == "regex") {
    const Json* source = member("value");
    if (source == nullptr) return IsMissing(param + ".value");
    return name == "json" ? SchemaOf(*source, param + ".value")
                          : TextConstraint(*source, Kind::kRegex, param + ".value");
  }
  if (name == "structural_tag")
    return MaybeConstraint(
        {.kind = Kind::kStructuralTag, .text = PrintJson(value), .param = param});
  if (name != "json_schema")
    return UnsupportedForm(param + ".type", name,
                           "text, json_object, json_schema, json, regex or structural_tag");
  const JsonObject* holder = &object;
  std::string path = param;
  if (nested) {
    path += ".json_schema";
    const Json* inner = object.if_contains("json_schema");
    if (inner == nullptr) return IsMissing(path);
    if (!inner->is_object()) return MustBe(path, "an object with a schema");
    holder = &inner->get_object();
  }
  const Json* schema = holder->if_contains("schema");
  if (schema == nullptr || schema->is_null()) return IsMissing(path + ".schema");
  return SchemaOf(*schema, path + ".schema");
}

// vLLM: one member says what; others are about how, and change nothing here.
Result<MaybeConstraint> StructuredOutputs(const Json& value, const std::string& param) {
  if (!value.is_object()) return MustBe(param, "an object");
  MaybeConstraint found;
  for (const auto& member : value.get_object()) {
    const std::string name(member.key().data(), member.key().size());
    const std::string path = param + "." + name;
    const Json& inner = member.value();
    if (inner.is_null()) continue;
    MaybeConstraint one;
    if (name == "json") {
      ASSIGN_OR_RETURN(one, SchemaOf(inner, path));
    } else if (name == "regex") {
      ASSIGN_OR_RETURN(one, TextConstraint(inner, Kind::kRegex, path));
    } else if (name == "choice") {
      ASSIGN_OR_RETURN(one, Choices(inner, path));
    } else if (name == "grammar") {
      ASSIGN_OR_RETURN(one, TextConstraint(inner, Kind::kGrammar, path));
    } else if (name == "structural_tag") {
      // The schema may be an object or its text.
      ASSIGN_OR_RETURN(one, SchemaOf(inner, path));
      one->kind = Kind::kStructuralTag;
    } else if (name == "json_object") {
      if (!inner.is_bool()) return MustBe(path, "true or false");
      if (inner.get_bool()) one = api::Constraint{.kind = Kind::kJsonObject, .param = path};
    } else if (name == "disable_fallback" || name == "disable_any_whitespace" ||
               name == "disable_additional_properties" || name == "whitespace_pattern" ||
               name == "_backend" || name == "backend") {
      continue;
    } else {
      return UnsupportedForm(param, name,
                             "json, regex, choice, grammar, structural_tag or json_object");
    }
    if (!one) continue;
    if (found) return BadValue(path, path + " and " + found->param + " exclude each other");
    found = std::move(one);
  }
  return found;
}

}  // namespace

void ReadSampling(const CheckedObject& object, api::SamplingParams* params) {
  // Assigns only values of the request; the others may come from the model.
  if (const auto value = object.Number("temperature")) params->temperature = *value;
  if (const auto value = object.Number("top_p")) params->top_p = *value;
  if (const auto value = object.Int("top_k")) params->top_k = static_cast<int>(*value);
  if (const auto value = object.Number("min_p")) params->min_p = *value;
  if (const auto value = object.Number("repetition_penalty")) params->repetition_penalty = *value;
  params->frequency_penalty =
      object.Number("frequency_penalty").value_or(params->frequency_penalty);
  params->presence_penalty = object.Number("presence_penalty").value_or(params->presence_penalty);
  params->logit_bias = object.Bias("logit_bias");
  params->allowed_token_ids = object.Tokens("allowed_token_ids");
  params->seed = object.Int("seed");
  params->ignore_eos = object.Bool("ignore_eos").value_or(false);
  params->stop = object.Strings("stop");
  params->stop_token_ids = object.Tokens("stop_token_ids");
  params->include_stop_in_output = object.Bool("include_stop_str_in_output").value_or(false);
  params->skip_special_tokens = object.Bool("skip_special_tokens").value_or(true);
}

Result<std::optional<int>> ReadReasoningBudget(const CheckedObject& object) {
  const std::optional<int64_t> vllm = object.Int("thinking_token_budget");
  const std::optional<int64_t> qwen = object.Int("thinking_budget");
  if (vllm.has_value() && qwen.has_value() && *vllm != *qwen) {
    return BadValue("thinking_budget",
                    "thinking_token_budget and thinking_budget are both given and differ");
  }
  const std::optional<int64_t> budget = vllm.has_value() ? vllm : qwen;
  if (!budget.has_value()) return std::optional<int>();
  return std::optional<int>(static_cast<int>(*budget));
}

Status SetLengths(const CheckedObject& object, std::optional<int64_t> most, const std::string& name,
                  api::SamplingParams* params) {
  params->min_tokens = static_cast<int>(object.Int("min_tokens").value_or(0));
  if (!most.has_value()) return OkStatus();
  if (params->min_tokens > *most) {
    return BadValue("min_tokens", "min_tokens (" + std::to_string(params->min_tokens) +
                                      ") exceeds " + name + " (" + std::to_string(*most) + ")");
  }
  params->max_tokens = static_cast<int>(*most);
  return OkStatus();
}

Result<std::optional<CheckedObject>> ReadStreamOptions(const CheckedObject& object, Scope scope,
                                                       bool stream, bool strict,
                                                       IgnoredFields* ignored) {
  const Json* value = object.Find("stream_options");
  if (value == nullptr) return std::optional<CheckedObject>();
  if (!stream) return BadValue("stream_options", "stream_options needs stream: true");
  ASSIGN_OR_RETURN(CheckedObject options,
                   CheckedObject::Check(scope, *value, "stream_options", strict, ignored));
  return std::optional<CheckedObject>(std::move(options));
}

Result<std::optional<api::Constraint>> ReadConstraint(const CheckedObject& object) {
  MaybeConstraint found;
  const auto read = [&](const char* name, auto reader) -> Status {
    const Json* value = object.Find(name);
    if (value == nullptr) return OkStatus();
    const std::string param = object.Param(name);
    ASSIGN_OR_RETURN(MaybeConstraint one, reader(*value, param));
    if (!one) return OkStatus();
    if (found) return BadValue(param, param + " and " + found->param + " exclude each other");
    found = std::move(one);
    return OkStatus();
  };
  const auto text = [](Kind kind) {
    return [kind](const Json& value, const std::string& param) {
      return TextConstraint(value, kind, param);
    };
  };
  // `format` inside of the object that the field holds.
  const auto member_format = [](const Json& value,
                                const std::string& param) -> Result<MaybeConstraint> {
    const Json* format = value.is_object() ? value.get_object().if_contains("format") : nullptr;
    if (format == nullptr || format->is_null()) return MaybeConstraint();
    return ResponseFormat(*format, param + ".format", /*nested=*/false);
  };
  if ((object.scope() & (kResponses | kMessages)) == 0) {
    RETURN_IF_ERROR(read("response_format", [](const Json& value, const std::string& param) {
      return ResponseFormat(value, param, /*nested=*/true);
    }));
  }
  if ((object.scope() & kResponses) != 0) {
    RETURN_IF_ERROR(read("text", member_format));
  }
  if ((object.scope() & kMessages) != 0) {
    RETURN_IF_ERROR(read("output_config", member_format));
    RETURN_IF_ERROR(read("output_format", [](const Json& value, const std::string& param) {
      return ResponseFormat(value, param, /*nested=*/false);
    }));
  }
  RETURN_IF_ERROR(read("structured_outputs", StructuredOutputs));
  RETURN_IF_ERROR(read("guided_json", SchemaOf));
  RETURN_IF_ERROR(read("guided_regex", text(Kind::kRegex)));
  RETURN_IF_ERROR(read("guided_choice", Choices));
  RETURN_IF_ERROR(read("guided_grammar", text(Kind::kGrammar)));
  RETURN_IF_ERROR(read("grammar", text(Kind::kGrammar)));
  RETURN_IF_ERROR(read("json_schema", SchemaOf));
  RETURN_IF_ERROR(read("format", [](const Json& value, const std::string& param) {
    if (value.is_string() && TextOf(value) == "json")
      return Result<MaybeConstraint>(MaybeConstraint({.kind = Kind::kJsonObject, .param = param}));
    return SchemaOf(value, param);
  }));
  return found;
}

}  // namespace tutti::protocol
