#include "chat_template/tool_structure.h"

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

#include "api/validate.h"
#include "chat_template/harmony.h"
#include "chat_template/tool_arguments.h"
#include "chat_template/tool_schema.h"

namespace tutti::chat_template {
namespace {

using grammar::Structure;
using Json = boost::json::value;
using JsonObject = boost::json::object;

std::string_view TextOf(const Json& value) {
  return {value.get_string().data(), value.get_string().size()};
}

// A value between tags; strings have no quotes.
Structure TaggedValue(const ToolParameter& parameter, std::string_view value_end) {
  if (!parameter.choices.empty())
    return {.kind = Structure::Kind::kChoice, .texts = parameter.choices};
  if (!IsText(parameter)) return Structure::Schema(parameter.schema, parameter.param);
  return {.kind = Structure::Kind::kPlainText, .texts = {std::string(Trim(value_end))}};
}

Structure PythonicValue(const ToolParameter& parameter) {
  if (parameter.type == "boolean")
    return {.kind = Structure::Kind::kChoice, .texts = {"True", "False"}};
  if (parameter.type == "null") return Structure::Text("None");
  return Structure::Schema(parameter.schema, parameter.param);
}

// {KEY:VALUE,...} of a bare call. Keys come in alphabetical order, as Gemma's templates show them.
// Ranges of numbers and lengths of lists are enforced, patterns and lengths of texts are not.
class BareBuilder {
 public:
  BareBuilder(const ToolSyntax& syntax, const SpecialTokenTexts& tokens, const api::Tool& tool)
      : quote_(syntax.text_quote), tokens_(tokens), root_(SchemaObjectOf(tool.parameters)) {}

  Structure Arguments() const { return Object(root_, kMaxDepth); }

 private:
  // Values of no declared type may hold others; each level multiplies the size of the grammar.
  static constexpr int kMaxAnyDepth = 2;
  static constexpr int kMaxDepth = 16;
  // Schemas that refer to themselves would grow with each level: what is referred to more often may
  // be any value.
  static constexpr int kMaxReferences = 64;

  Structure Quoted(Structure text) const {
    return Structure::Sequence(
        {MarkerStructure(quote_, tokens_), std::move(text), MarkerStructure(quote_, tokens_)});
  }
  Structure AnyText() const {
    return Quoted({.kind = Structure::Kind::kPlainText, .texts = {quote_}});
  }

  // `more`: further items, each with a comma; at least `min` items and at most `max`.
  static Structure List(Structure item, uint32_t min, uint32_t max) {
    Structure items{.kind = Structure::Kind::kRepeat,
                    .min = min,
                    .max = max,
                    .parts = {std::move(item), Structure::Text(",")}};
    return Structure::Sequence({Structure::Text("["), std::move(items), Structure::Text("]")});
  }

  Structure Members(Structure key, Structure value) const {
    Structure member =
        Structure::Sequence({std::move(key), Structure::Text(":"), std::move(value)});
    Structure members{.kind = Structure::Kind::kRepeat,
                      .parts = {std::move(member), Structure::Text(",")}};
    return Structure::Sequence({Structure::Text("{"), std::move(members), Structure::Text("}")});
  }
  static Structure AnyKey() {
    return {.kind = Structure::Kind::kRegex, .text = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"};
  }

  Structure Any(int depth) const {
    std::vector<Structure> ways = {
        AnyText(), Structure::Schema(R"({"type":["number","boolean","null"]})", "")};
    if (depth > 0) {
      ways.push_back(List(Any(depth - 1), 0, grammar::kUnlimited));
      ways.push_back(Members(AnyKey(), Any(depth - 1)));
    }
    return Structure::Alternatives(std::move(ways));
  }

  // A value of an enum.
  Structure Literal(const Json& value, const ToolSyntax& syntax) const {
    if (value.is_string()) return Quoted(Structure::Text(std::string(value.get_string())));
    return MarkerStructure(WriteBare(syntax, boost::json::serialize(value)), tokens_);
  }

  Structure Value(const Json& schema, int depth) const {
    const JsonObject* const object = schema.if_object();
    if (object == nullptr || depth == 0) return Any(kMaxAnyDepth);
    if (const Json* const found = Referenced(*object); found != nullptr && references_left_ > 0) {
      --references_left_;
      return Value(*found, depth - 1);
    }
    std::vector<Structure> ways;
    const ToolSyntax syntax{.name = "", .text_quote = quote_};
    if (const Json* const all = object->if_contains("enum"); all != nullptr && all->is_array()) {
      for (const Json& one : all->get_array()) ways.push_back(Literal(one, syntax));
      if (!ways.empty()) return Structure::Alternatives(std::move(ways));
    }
    if (const Json* const one = object->if_contains("const")) return Literal(*one, syntax);
    for (const char* const key : {"anyOf", "oneOf"}) {
      const Json* const all = object->if_contains(key);
      if (all == nullptr || !all->is_array() || all->get_array().empty()) continue;
      for (const Json& one : all->get_array()) ways.push_back(Value(one, depth - 1));
      return Structure::Alternatives(std::move(ways));
    }
    const Json* const type = object->if_contains("type");
    if (type != nullptr && type->is_string()) return OfType(TextOf(*type), *object, depth);
    if (type != nullptr && type->is_array() && !type->get_array().empty()) {
      for (const Json& one : type->get_array()) {
        if (!one.is_string()) return Any(kMaxAnyDepth);
        ways.push_back(OfType(TextOf(one), *object, depth));
      }
      return Structure::Alternatives(std::move(ways));
    }
    if (object->contains("properties")) return Object(*object, depth);
    return Any(kMaxAnyDepth);
  }

  Structure OfType(std::string_view type, const JsonObject& schema, int depth) const {
    if (type == "string") return AnyText();
    if (type == "object") return Object(schema, depth);
    if (type == "array") {
      const Json* const items = schema.if_contains("items");
      return List(items == nullptr ? Any(kMaxAnyDepth) : Value(*items, depth - 1),
                  Bound(schema, "minItems", 0), Bound(schema, "maxItems", grammar::kUnlimited));
    }
    // Numbers, booleans and null are written as JSON.
    JsonObject plain = schema;
    plain["type"] = type;
    return Structure::Schema(boost::json::serialize(plain), "");
  }

  static uint32_t Bound(const JsonObject& schema, std::string_view key, uint32_t otherwise) {
    const Json* const value = schema.if_contains(key);
    if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return otherwise;
    return static_cast<uint32_t>(
        std::min<int64_t>(value->get_int64(), std::numeric_limits<uint32_t>::max()));
  }

  // The schema that "$ref" names within the root: "#/$defs/NAME". Null: it has none, or another.
  const Json* Referenced(const JsonObject& schema) const {
    const Json* const ref = schema.if_contains("$ref");
    if (ref == nullptr || !ref->is_string()) return nullptr;
    for (const std::string_view definitions : {"$defs", "definitions"}) {
      const std::string begin = "#/" + std::string(definitions) + "/";
      const std::string_view path = TextOf(*ref);
      const Json* const all = root_.if_contains(definitions);
      if (!path.starts_with(begin) || all == nullptr || !all->is_object()) continue;
      return all->get_object().if_contains(path.substr(begin.size()));
    }
    return nullptr;
  }

  Structure Object(const JsonObject& schema, int depth) const {
    const Json* const properties = schema.if_contains("properties");
    if (properties == nullptr || !properties->is_object() || properties->get_object().empty()) {
      const Json* const others = schema.if_contains("additionalProperties");
      const bool closed = others != nullptr && others->is_bool() && !others->get_bool();
      // A function that names no parameters has none.
      if (closed || depth == kMaxDepth) return Structure::Text("{}");
      return Members(AnyKey(), others == nullptr || !others->is_object()
                                   ? Any(kMaxAnyDepth)
                                   : Value(*others, depth - 1));
    }
    std::vector<std::pair<std::string, bool>> keys;  // and whether it is required
    const Json* const required = schema.if_contains("required");
    for (const auto& member : properties->get_object()) {
      const std::string key(member.key());
      const auto names_it = [&](const Json& one) { return one.is_string() && TextOf(one) == key; };
      keys.emplace_back(key, required != nullptr && required->is_array() &&
                                 std::any_of(required->get_array().begin(),
                                             required->get_array().end(), names_it));
    }
    std::stable_sort(keys.begin(), keys.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Structure members{.kind = Structure::Kind::kMembers, .text = ","};
    for (const auto& [key, is_required] : keys) {
      Structure member = Structure::Sequence(
          {Structure::Text(key + ":"), Value(properties->get_object().at(key), depth - 1)});
      members.parts.push_back(is_required ? std::move(member)
                                          : Structure::Optional(std::move(member)));
    }
    return Structure::Sequence({Structure::Text("{"), std::move(members), Structure::Text("}")});
  }

  const std::string quote_;
  const SpecialTokenTexts& tokens_;
  const JsonObject root_;
  mutable int references_left_ = kMaxReferences;
};

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
        if (!syntax_.count_key.empty()) {
          parts.push_back(Structure::Text("{\"" + std::string(syntax_.count_key) + "\": \""));
          parts.push_back(Count());
          parts.push_back(Structure::Text("\", "));
        }
        parts.push_back(Structure::Text(std::string(syntax_.count_key.empty() ? "{" : "") + "\"" +
                                        std::string(syntax_.name_key) +
                                        "\": " + JsonString(tool.name) + ", \"" +
                                        std::string(syntax_.arguments_key) + "\": "));
        parts.push_back(Arguments(tool));
        parts.push_back(Structure::Text("}"));
        break;
      case ToolSyntax::Call::kNamed:
        parts.push_back(Structure::Text(std::string(syntax_.name_begin) + tool.name));
        if (syntax_.numbered) parts.push_back(Structure::Sequence({Structure::Text(":"), Count()}));
        marker(syntax_.name_end);
        parts.push_back(Arguments(tool));
        break;
      case ToolSyntax::Call::kTagged:
        parts.push_back(Structure::Text(tool.name));
        marker(syntax_.name_end);
        for (const ToolParameter& parameter : ParametersOf(tool)) {
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
      case ToolSyntax::Call::kBare:
        parts.push_back(Structure::Text(tool.name));
        parts.push_back(BareBuilder(syntax_, tokens_, tool).Arguments());
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
      parts.push_back(Structure::Text(std::string(syntax_.list_begin)));
    }
    parts.push_back(std::move(calls));
    if (syntax_.list) parts.push_back(Structure::Text(std::string(syntax_.list_end)));
    if (!syntax_.end.empty()) parts.push_back(MarkerStructure(syntax_.end, tokens_));
    return Structure::Sequence(std::move(parts));
  }

  // Any text that does not begin a call.
  Structure NoCall(const std::vector<api::Tool>& tools, const AnswerTags& tags) const {
    const std::string marker(Trim(syntax_.marker()));
    if (marker.empty()) {
      return {.kind = Structure::Kind::kOtherStart, .texts = CallStarts(syntax_, tools)};
    }
    Structure text{.kind = Structure::Kind::kFreeText};
    AddStop(marker, tokens_, &text);
    for (const std::string& tag : {tags.open, tags.close}) {
      if (!tag.empty()) AddStop(tag, tags.tokens, &text);
    }
    return text;
  }

 private:
  // The number of a call, as the model counts them.
  static Structure Count() {
    return {.kind = Structure::Kind::kRegex, .text = "0|[1-9][0-9]{0,2}"};
  }

  static Structure Arguments(const api::Tool& tool) {
    return Structure::Schema(ArgumentsSchema(tool.parameters), SchemaParam(tool));
  }

  // KEY=VALUE, ... with the required ones first.
  static Structure Keywords(const api::Tool& tool) {
    const std::vector<ToolParameter> parameters = ParametersOf(tool);
    const auto item = [&](size_t i) {
      return Structure::Sequence(
          {Structure::Text(parameters[i].name + "="), PythonicValue(parameters[i])});
    };
    Structure keywords{.kind = Structure::Kind::kMembers, .text = ", "};
    for (size_t i = 0; i < parameters.size(); ++i) {
      keywords.parts.push_back(parameters[i].required ? item(i) : Structure::Optional(item(i)));
    }
    return keywords;
  }

  const ToolSyntax& syntax_;
  const SpecialTokenTexts& tokens_;
};

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

SpecialTokenTexts TokensIn(std::initializer_list<std::string_view> markers,
                           const SpecialTokenTexts& all) {
  SpecialTokenTexts found;
  for (const auto& one : all) {
    for (const std::string_view marker : markers) {
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

SpecialTokenTexts MarkerTokens(const ToolSyntax& syntax, const SpecialTokenTexts& all) {
  return TokensIn(
      {syntax.begin, syntax.end, syntax.call_begin, syntax.call_end, syntax.name_end,
       syntax.key_begin, syntax.key_end, syntax.value_end, syntax.text_quote, syntax.marks},
      all);
}

void AddStop(std::string_view marker, const SpecialTokenTexts& tokens, Structure* text) {
  const auto token = std::find_if(tokens.begin(), tokens.end(),
                                  [&](const auto& one) { return marker.starts_with(one.first); });
  if (token != tokens.end()) text->tokens.push_back(token->second);
  // Also where it is a token: a model may spell it with others, and clients' text is parsed.
  text->texts.emplace_back(marker);
}

Structure TagSpace() { return {.kind = Structure::Kind::kRegex, .text = "[ \\t\\r\\n]{0,8}"}; }

Structure BetweenTags(const AnswerTags& tags, Structure answer) {
  if (tags.open.empty()) return answer;
  const Structure space = tags.keep_space ? Structure::Text("") : TagSpace();
  const Structure closing =
      Structure::Optional(Structure::Sequence({space, MarkerStructure(tags.close, tags.tokens)}));
  if (tags.opened) return Structure::Sequence({std::move(answer), closing});
  Structure tagged =
      Structure::Sequence({MarkerStructure(tags.open, tags.tokens), space, answer, closing});
  return Structure::Alternatives({std::move(answer), std::move(tagged)});
}

grammar::Structure ToolAnswer(const ToolSyntax& syntax, const AnswerShape& shape,
                              const SpecialTokenTexts& tokens) {
  if (syntax.call == ToolSyntax::Call::kHarmony) return HarmonyAnswer(shape, tokens);
  const CallBuilder builder(syntax, tokens);
  using Kind = api::ToolChoice::Kind;
  switch (shape.choice.kind) {
    case Kind::kNone:
      return BetweenTags(shape.tags,
                         shape.text ? *shape.text : builder.NoCall(shape.tools, shape.tags));
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
  if (shape.text) {
    return Structure::Alternatives({BetweenTags(shape.tags, *shape.text), std::move(calls)});
  }
  Structure text = builder.NoCall(shape.tools, shape.tags);
  if (text.kind == Structure::Kind::kOtherStart)
    return Structure::Alternatives({std::move(text), std::move(calls)});
  return Structure::Sequence(
      {BetweenTags(shape.tags, std::move(text)), Structure::Optional(std::move(calls))});
}

std::vector<std::string> CallStarts(const ToolSyntax& syntax, const std::vector<api::Tool>& tools) {
  if (!syntax.list) return {"{\"" + std::string(syntax.name_key) + "\""};
  std::vector<std::string> starts;
  for (const api::Tool& tool : tools)
    starts.push_back(std::string(syntax.list_begin) + tool.name + "(");
  return starts;
}

}  // namespace tutti::chat_template
