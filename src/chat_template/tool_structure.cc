#include "chat_template/tool_structure.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <limits>
#include <span>

#include "api/validate.h"
#include "chat_template/harmony.h"
#include "chat_template/tool_arguments.h"

namespace tutti::chat_template {
namespace {

using grammar::Structure;
using Json = boost::json::value;
using JsonObject = boost::json::object;

std::string_view TextOf(const Json& value) {
  return {value.get_string().data(), value.get_string().size()};
}

// Definitions are copied into the schema of each parameter that refers to them.
constexpr size_t kMaxCopiedBytes = size_t{8} << 20;

std::string SchemaParam(const api::Tool& tool) { return tool.param + "." + tool.schema_field; }

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
  const JsonObject root = SchemaObjectOf(tool.parameters);
  std::vector<Parameter> found;
  const Json* properties = root.if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return found;
  const Json* required = root.if_contains("required");
  size_t copied = 0;
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
        // Without the type, a parser would read "1" as a number.
        if (one.type != "string" || one.choices.size() != choices->get_array().size())
          one.choices.clear();
      }
      // References are to the whole schema. Beyond the limit they lead nowhere, which is refused.
      const bool refers = boost::json::serialize(object).find("\"$ref\"") != std::string::npos;
      if (refers && copied <= kMaxCopiedBytes) {
        for (const char* const definitions : {"$defs", "definitions"}) {
          if (const Json* all = root.if_contains(definitions); all != nullptr)
            object.emplace(definitions, *all);
        }
        copied += tool.parameters.size();
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

// A value between tags; strings have no quotes.
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
    const std::vector<Parameter> parameters = ParametersOf(tool);
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

constexpr std::array<std::string_view, 4> kTextKeywords = {"pattern", "format", "minLength",
                                                           "maxLength"};
// What BareBuilder enforces, or what says nothing of values. Keywords of numbers are enforced too.
constexpr std::array<std::string_view, 29> kBareKeywords = {"type",
                                                            "properties",
                                                            "required",
                                                            "items",
                                                            "enum",
                                                            "const",
                                                            "anyOf",
                                                            "oneOf",
                                                            "$ref",
                                                            "$defs",
                                                            "definitions",
                                                            "minItems",
                                                            "maxItems",
                                                            "minimum",
                                                            "maximum",
                                                            "exclusiveMinimum",
                                                            "exclusiveMaximum",
                                                            "multipleOf",
                                                            "additionalProperties",
                                                            "description",
                                                            "title",
                                                            "default",
                                                            "examples",
                                                            "example",
                                                            "$schema",
                                                            "$id",
                                                            "$comment",
                                                            "deprecated",
                                                            "nullable"};

bool IsAmong(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 12> kAnnotations = {
    "description", "title",    "default",    "examples", "example", "$schema",
    "$id",         "$comment", "deprecated", "nullable", "$defs",   "definitions"};

// In a schema of a bare call; `depth` is that of BareBuilder, which knows no more.
std::string UnenforcedInBare(const Json& schema, const std::string& path, int depth) {
  if (!schema.is_object()) return "";
  if (depth == 0) return path;
  const JsonObject& object = schema.get_object();
  // Where one of these is given, the keywords next to it are not looked at.
  for (const char* const whole : {"$ref", "enum", "const", "anyOf", "oneOf"}) {
    if (!object.contains(whole)) continue;
    for (const auto& member : object) {
      const std::string key(member.key());
      if (key != whole && !IsAmong(kAnnotations, key) && !(key == "type" && whole[0] != '$'))
        return path + "." + key;
    }
  }
  for (const auto& member : object) {
    const std::string key(member.key());
    const std::string at = path + "." + key;
    const Json& value = member.value();
    if (!IsAmong(kBareKeywords, key)) return at;
    // Branches of oneOf may overlap, and lists by position are not known.
    if (key == "oneOf" || (key == "items" && !value.is_object())) return at;
    std::string found;
    if ((key == "properties" || key == "$defs" || key == "definitions") && value.is_object()) {
      for (const auto& one : value.get_object()) {
        if (found.empty())
          found = UnenforcedInBare(one.value(), at + "." + std::string(one.key()), depth - 1);
      }
    } else if (key == "items" || key == "additionalProperties") {
      found = UnenforcedInBare(value, at, depth - 1);
    } else if ((key == "anyOf" || key == "oneOf") && value.is_array()) {
      for (size_t i = 0; i < value.get_array().size() && found.empty(); ++i) {
        found =
            UnenforcedInBare(value.get_array()[i], at + "[" + std::to_string(i) + "]", depth - 1);
      }
    }
    if (!found.empty()) return found;
  }
  return "";
}

// What the parameters of a tagged or pythonic call enforce of the whole object, which never has
// other members; or what says nothing of values.
constexpr std::array<std::string_view, 13> kRootKeywords = {
    "type",    "properties",  "required",    "additionalProperties",
    "$defs",   "definitions", "description", "title",
    "default", "examples",    "$schema",     "$id",
    "$comment"};

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool FitsKey(std::string_view name) {
  return !name.empty() && IsLetter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '-'; });
}
bool FitsTag(std::string_view name) {
  return !name.empty() && Trim(name) == name &&
         name.find_first_of("<>\"\n") == std::string_view::npos;
}

// The path of the first property whose name does not fit.
std::string UnwritableIn(const JsonObject& schema, const std::string& path,
                         bool (*fits)(std::string_view), bool nested) {
  for (const auto& member : schema) {
    const std::string key(member.key());
    const JsonObject* const inner = member.value().if_object();
    const std::string at = path + "." + key;
    const bool named = key == "properties" || key == "$defs" || key == "definitions";
    if (inner == nullptr || (!named && !nested)) continue;
    std::string found;
    if (!named) {
      found = UnwritableIn(*inner, at, fits, nested);
    } else {
      for (const auto& one : *inner) {
        const std::string name(one.key());
        if (key == "properties" && !fits(name)) return at + "." + name;
        if (const JsonObject* const deeper = one.value().if_object(); nested && deeper != nullptr)
          found = UnwritableIn(*deeper, at + "." + name, fits, nested);
        if (!found.empty()) return found;
      }
    }
    if (!found.empty()) return found;
  }
  return "";
}

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

std::string UnwritableParameter(const ToolSyntax& syntax, const api::Tool& tool) {
  const std::string path = SchemaParam(tool);
  switch (syntax.call) {
    case ToolSyntax::Call::kPythonic:
      return UnwritableIn(SchemaObjectOf(tool.parameters), path, FitsKey, /*nested=*/false);
    case ToolSyntax::Call::kTagged:
      return UnwritableIn(SchemaObjectOf(tool.parameters), path, FitsTag, /*nested=*/false);
    case ToolSyntax::Call::kBare:
      return UnwritableIn(SchemaObjectOf(tool.parameters), path, FitsKey, /*nested=*/true);
    default:
      return "";
  }
}

std::string UnenforcedKeyword(const ToolSyntax& syntax, const api::Tool& tool) {
  if (syntax.call == ToolSyntax::Call::kBare) {
    constexpr int kMaxSchemaDepth = 16;
    return UnenforcedInBare(Json(SchemaObjectOf(tool.parameters)), SchemaParam(tool),
                            kMaxSchemaDepth);
  }
  if (syntax.call != ToolSyntax::Call::kTagged && syntax.call != ToolSyntax::Call::kPythonic)
    return "";
  const JsonObject root = SchemaObjectOf(tool.parameters);
  for (const auto& member : root) {
    const std::string key(member.key());
    if (!IsAmong(kRootKeywords, key)) return SchemaParam(tool) + "." + key;
  }
  if (const Json* required = root.if_contains("required")) {
    const Json* const properties = root.if_contains("properties");
    const JsonObject* const known = properties == nullptr ? nullptr : properties->if_object();
    const bool lists = required->is_array();
    for (size_t i = 0; lists && i < required->get_array().size(); ++i) {
      const Json& name = required->get_array()[i];
      if (name.is_string() && (known == nullptr || !known->contains(TextOf(name))))
        return SchemaParam(tool) + ".required[" + std::to_string(i) + "]";
    }
  }
  if (syntax.call != ToolSyntax::Call::kTagged) return "";
  for (const Parameter& parameter : ParametersOf(tool)) {
    if (!IsText(parameter) || !parameter.choices.empty()) continue;
    for (const auto& member : SchemaObjectOf(parameter.schema)) {
      const std::string key(member.key());
      if (IsAmong(kTextKeywords, key)) return parameter.param + "." + key;
    }
  }
  return "";
}

std::string ArgumentsSchema(std::string_view schema) {
  // A function without the member has no parameters.
  if (schema.empty()) return R"({"type":"object","additionalProperties":false})";
  JsonObject object = SchemaObjectOf(schema);
  const Json* const type = object.if_contains("type");
  // Another type is an error, which the schema's compiler finds. Of a list, `object` alone counts.
  if (type == nullptr || type->is_array()) object["type"] = "object";
  object.erase("nullable");
  // Up to draft 7 a reference hides the keywords next to it, such as this type.
  if (const Json* const reference = object.if_contains("$ref");
      reference != nullptr && object.contains("$schema")) {
    boost::json::array all;
    if (const Json* const known = object.if_contains("allOf");
        known != nullptr && known->is_array())
      all = known->get_array();
    all.push_back(JsonObject{{"$ref", *reference}});
    object.erase("$ref");
    object["allOf"] = std::move(all);
  }
  return boost::json::serialize(object);
}

std::string RelaxedSchema(std::string_view schema) {
  return boost::json::serialize(Relaxed(Json(SchemaObjectOf(schema)), 0));
}

}  // namespace tutti::chat_template
