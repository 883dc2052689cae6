#include "chat_template/tool_structure.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/validate.h"
#include "chat_template/harmony.h"
#include "chat_template/tool_arguments.h"

namespace tutti::chat_template {
namespace {

using grammar::Structure;
using Json = boost::json::value;
using JsonObject = boost::json::object;

JsonObject ObjectOf(std::string_view schema) {
  boost::system::error_code error;
  Json value = boost::json::parse(schema, error);
  return !error && value.is_object() ? std::move(value.get_object()) : JsonObject();
}

std::string SchemaParam(const api::Tool& tool) { return tool.param + ".parameters"; }

// One parameter of a function.
struct Parameter {
  std::string name;
  std::string schema;                     // stands alone
  std::string type;                       // empty: several, or none is declared
  std::vector<std::string> choices = {};  // of an enum of texts
  bool required = false;
  std::string param = {};
};

std::vector<Parameter> ParametersOf(const api::Tool& tool) {
  const JsonObject root = ObjectOf(tool.parameters);
  std::vector<Parameter> found;
  const Json* properties = root.if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return found;
  const Json* required = root.if_contains("required");
  for (const auto& member : properties->get_object()) {
    Parameter one{.name = std::string(member.key()),
                  .schema = {},
                  .type = {},
                  .param = SchemaParam(tool) + ".properties." + std::string(member.key())};
    if (required != nullptr && required->is_array()) {
      for (const Json& name : required->get_array())
        one.required |= name.is_string() && name.get_string() == member.key();
    }
    Json schema = member.value();
    if (schema.is_object()) {
      JsonObject& object = schema.get_object();
      if (const Json* type = object.if_contains("type"); type != nullptr && type->is_string())
        one.type = type->get_string();
      if (const Json* choices = object.if_contains("enum");
          choices != nullptr && choices->is_array()) {
        for (const Json& choice : choices->get_array()) {
          if (choice.is_string()) one.choices.emplace_back(choice.get_string());
        }
        if (one.choices.size() != choices->get_array().size()) one.choices.clear();
      }
      // References are to the whole schema.
      for (const char* const definitions : {"$defs", "definitions"}) {
        if (const Json* all = root.if_contains(definitions); all != nullptr)
          object.emplace(definitions, *all);
      }
    }
    one.schema = boost::json::serialize(schema);
    found.push_back(std::move(one));
  }
  // The order does not matter to a call: optional ones come last, each with its separator.
  std::stable_partition(found.begin(), found.end(), [](const Parameter& p) { return p.required; });
  return found;
}

bool IsText(const Parameter& parameter) {
  return parameter.type == "string" || !parameter.choices.empty();
}

// A value between tags: texts stand as they are.
Structure TaggedValue(const Parameter& parameter, std::string_view value_end) {
  if (!parameter.choices.empty())
    return {.kind = Structure::Kind::kChoice, .texts = parameter.choices};
  if (!IsText(parameter)) return Structure::Schema(parameter.schema, parameter.param);
  return {.kind = Structure::Kind::kPlainText, .texts = {std::string(Trim(value_end))}};
}

Structure PythonicValue(const Parameter& parameter) {
  if (parameter.type == "boolean")
    return {.kind = Structure::Kind::kChoice, .texts = {"True", "False"}};
  if (parameter.type == "null") return Structure::Text("None");
  return Structure::Schema(parameter.schema, parameter.param);
}

class CallBuilder {
 public:
  CallBuilder(const ToolSyntax& syntax, const SpecialTokenTexts& tokens)
      : syntax_(syntax), tokens_(tokens) {}

  Structure Call(const api::Tool& tool) const {
    std::vector<Structure> parts;
    const auto marker = [&](std::string_view text) {
      if (!text.empty()) parts.push_back(MarkerStructure(text, tokens_));
    };
    marker(syntax_.call_begin);
    switch (syntax_.call) {
      case ToolSyntax::Call::kJson:
        parts.push_back(Structure::Text("{\"name\": " + JsonString(tool.name) + ", \"" +
                                        std::string(syntax_.arguments_key) + "\": "));
        parts.push_back(Arguments(tool));
        parts.push_back(Structure::Text("}"));
        break;
      case ToolSyntax::Call::kNamed:
        parts.push_back(Structure::Text(std::string(syntax_.name_begin) + tool.name));
        if (syntax_.numbered)
          parts.push_back({.kind = Structure::Kind::kRegex, .text = ":(0|[1-9][0-9]{0,2})"});
        marker(syntax_.name_end);
        parts.push_back(Arguments(tool));
        break;
      case ToolSyntax::Call::kTagged:
        parts.push_back(Structure::Text(tool.name));
        marker(syntax_.name_end);
        for (const Parameter& parameter : ParametersOf(tool)) {
          Structure one = Structure::Sequence(
              {MarkerStructure(syntax_.key_begin, tokens_), Structure::Text(parameter.name),
               MarkerStructure(syntax_.key_end, tokens_), TaggedValue(parameter, syntax_.value_end),
               MarkerStructure(syntax_.value_end, tokens_)});
          parts.push_back(parameter.required ? std::move(one)
                                             : Structure::Optional(std::move(one)));
        }
        break;
      case ToolSyntax::Call::kPythonic:
        parts.push_back(Structure::Text(tool.name + "("));
        parts.push_back(Keywords(tool));
        parts.push_back(Structure::Text(")"));
        break;
      case ToolSyntax::Call::kHarmony:
        break;  // HarmonyAnswer()
    }
    marker(syntax_.call_end);
    return Structure::Sequence(std::move(parts));
  }

  Structure Calls(const std::vector<api::Tool>& tools, bool parallel) const {
    std::vector<Structure> ways;
    for (const api::Tool& tool : tools) ways.push_back(Call(tool));
    Structure calls{
        .kind = Structure::Kind::kRepeat,
        .min = 1,
        .max = parallel && syntax_.parallel ? static_cast<uint32_t>(api::kMaxToolCalls) : 1,
        .parts = {Structure::Alternatives(std::move(ways))}};
    if (!syntax_.separator.empty())
      calls.parts.push_back(MarkerStructure(syntax_.separator, tokens_));
    std::vector<Structure> parts;
    if (!syntax_.begin.empty()) parts.push_back(MarkerStructure(syntax_.begin, tokens_));
    if (syntax_.list) {
      // Versions of one family differ in the blank.
      if (!syntax_.begin.empty()) parts.push_back(Structure::Optional(Structure::Text(" ")));
      parts.push_back(Structure::Text("["));
    }
    parts.push_back(std::move(calls));
    if (syntax_.list) parts.push_back(Structure::Text("]"));
    if (!syntax_.end.empty()) parts.push_back(MarkerStructure(syntax_.end, tokens_));
    return Structure::Sequence(std::move(parts));
  }

  // Any text that does not begin a call.
  Structure NoCall(const std::vector<api::Tool>& tools) const {
    const std::string marker(Trim(syntax_.marker()));
    if (marker.empty()) {
      Structure text{.kind = Structure::Kind::kOtherStart};
      if (!syntax_.list) text.texts = {"{\"name\""};
      if (syntax_.list) {
        for (const api::Tool& tool : tools) text.texts.push_back("[" + tool.name + "(");
      }
      return text;
    }
    Structure text{.kind = Structure::Kind::kFreeText};
    const auto token = std::find_if(tokens_.begin(), tokens_.end(),
                                    [&](const auto& one) { return marker.starts_with(one.first); });
    if (token != tokens_.end()) {
      text.tokens = {token->second};
    } else {
      text.texts = {marker};
    }
    return text;
  }

 private:
  static Structure Arguments(const api::Tool& tool) {
    return Structure::Schema(ArgumentsSchema(tool.parameters), SchemaParam(tool));
  }

  // KEY=VALUE, ... with the required ones first.
  static Structure Keywords(const api::Tool& tool) {
    const std::vector<Parameter> parameters = ParametersOf(tool);
    const auto item = [&](size_t i) {
      return Structure::Sequence(
          {Structure::Text(parameters[i].name + "="), PythonicValue(parameters[i])});
    };
    // Those behind the first: all required ones, and any of the others.
    const auto rest = [&](size_t first) {
      std::vector<Structure> parts;
      for (size_t i = first; i < parameters.size(); ++i) {
        Structure next = Structure::Sequence({Structure::Text(", "), item(i)});
        parts.push_back(parameters[i].required ? std::move(next)
                                               : Structure::Optional(std::move(next)));
      }
      return Structure::Sequence(std::move(parts));
    };
    if (parameters.empty()) return Structure::Text("");
    if (parameters[0].required) return Structure::Sequence({item(0), rest(1)});
    std::vector<Structure> ways = {Structure::Text("")};
    for (size_t i = 0; i < parameters.size(); ++i)
      ways.push_back(Structure::Sequence({item(i), rest(i + 1)}));
    return Structure::Alternatives(std::move(ways));
  }

  const ToolSyntax& syntax_;
  const SpecialTokenTexts& tokens_;
};

// Keeps types, members and their names; drops ranges, patterns, lengths and conditions.
Json Relaxed(const Json& schema, int depth) {
  constexpr int kMaxSchemaDepth = 32;
  if (depth > kMaxSchemaDepth) return JsonObject();
  if (!schema.is_object()) return schema;
  JsonObject kept;
  for (const auto& member : schema.get_object()) {
    const std::string_view key(member.key().data(), member.key().size());
    const Json& value = member.value();
    if (key == "type" || key == "enum" || key == "const" || key == "required" || key == "$ref") {
      kept.emplace(key, value);
    } else if ((key == "properties" || key == "$defs" || key == "definitions") &&
               value.is_object()) {
      JsonObject inner;
      for (const auto& one : value.get_object())
        inner.emplace(one.key(), Relaxed(one.value(), depth + 1));
      kept.emplace(key, std::move(inner));
    } else if (key == "items" || key == "additionalProperties") {
      kept.emplace(key, Relaxed(value, depth + 1));
    } else if ((key == "anyOf" || key == "oneOf") && value.is_array()) {
      boost::json::array inner;
      for (const Json& one : value.get_array()) inner.push_back(Relaxed(one, depth + 1));
      if (!kept.contains("anyOf")) kept.emplace("anyOf", std::move(inner));
    }
  }
  return kept;
}

}  // namespace

grammar::Structure MarkerStructure(std::string_view text, const SpecialTokenTexts& tokens) {
  std::vector<Structure> parts;
  std::string plain;
  while (!text.empty()) {
    const auto token = std::find_if(tokens.begin(), tokens.end(),
                                    [&](const auto& one) { return text.starts_with(one.first); });
    if (token == tokens.end()) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    if (!plain.empty()) parts.push_back(Structure::Text(std::exchange(plain, {})));
    parts.push_back({.kind = Structure::Kind::kToken, .token = token->second});
    text.remove_prefix(token->first.size());
  }
  if (!plain.empty()) parts.push_back(Structure::Text(std::move(plain)));
  return parts.size() == 1 ? std::move(parts[0]) : Structure::Sequence(std::move(parts));
}

SpecialTokenTexts MarkerTokens(const ToolSyntax& syntax, const SpecialTokenTexts& all) {
  SpecialTokenTexts found;
  for (const auto& one : all) {
    for (const std::string_view marker :
         {syntax.begin, syntax.end, syntax.call_begin, syntax.call_end, syntax.name_end,
          syntax.key_begin, syntax.key_end, syntax.value_end, syntax.marks}) {
      if (one.first.empty() || marker.find(one.first) == std::string_view::npos) continue;
      found.push_back(one);
      break;
    }
  }
  // The longest first: one may begin another.
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  return found;
}

grammar::Structure ToolAnswer(const ToolSyntax& syntax, const AnswerShape& shape,
                              const SpecialTokenTexts& tokens) {
  if (syntax.call == ToolSyntax::Call::kHarmony) return HarmonyAnswer(shape, tokens);
  const CallBuilder builder(syntax, tokens);
  using Kind = api::ToolChoice::Kind;
  switch (shape.choice.kind) {
    case Kind::kNone:
      return shape.text ? *shape.text : builder.NoCall(shape.tools);
    case Kind::kRequired:
      return builder.Calls(shape.tools, shape.parallel);
    case Kind::kNamed: {
      std::vector<api::Tool> named = shape.tools;
      std::erase_if(named, [&](const api::Tool& tool) { return tool.name != shape.choice.name; });
      return builder.Calls(named, /*parallel=*/false);
    }
    case Kind::kAuto:
      break;
  }
  Structure calls = builder.Calls(shape.tools, shape.parallel);
  if (shape.text) return Structure::Alternatives({*shape.text, std::move(calls)});
  Structure text = builder.NoCall(shape.tools);
  if (text.kind == Structure::Kind::kOtherStart)
    return Structure::Alternatives({std::move(text), std::move(calls)});
  return Structure::Sequence({std::move(text), Structure::Optional(std::move(calls))});
}

std::string ArgumentsSchema(std::string_view schema) {
  JsonObject object = ObjectOf(schema);
  if (!object.contains("type") && !object.contains("$ref")) object.emplace("type", "object");
  return boost::json::serialize(object);
}

std::string RelaxedSchema(std::string_view schema) {
  return boost::json::serialize(Relaxed(Json(ObjectOf(schema)), 0));
}

}  // namespace tutti::chat_template
