#include "chat_template/tool_schema.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat_template/tool_arguments.h"

namespace tutti::chat_template {
namespace {

using Json = boost::json::value;
using JsonObject = boost::json::object;

// Definitions are copied into the schema of each parameter that refers to them.
constexpr size_t kMaxCopiedBytes = size_t{8} << 20;

constexpr std::array<std::string_view, 4> kTextKeywords = {"pattern", "format", "minLength",
                                                           "maxLength"};
// Keywords that do not restrict values.
constexpr std::array<std::string_view, 12> kAnnotations = {
    "description", "title",    "default",    "examples", "example", "$schema",
    "$id",         "$comment", "deprecated", "nullable", "$defs",   "definitions"};

// Keywords that BareBuilder enforces. Keywords of numbers are enforced too.
constexpr std::array<std::string_view, 17> kBareKeywords = {"type",
                                                            "properties",
                                                            "required",
                                                            "items",
                                                            "enum",
                                                            "const",
                                                            "anyOf",
                                                            "oneOf",
                                                            "$ref",
                                                            "minItems",
                                                            "maxItems",
                                                            "minimum",
                                                            "maximum",
                                                            "exclusiveMinimum",
                                                            "exclusiveMaximum",
                                                            "multipleOf",
                                                            "additionalProperties"};

bool IsAmong(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

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
    if (!IsAmong(kBareKeywords, key) && !IsAmong(kAnnotations, key)) return at;
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

// Keywords of the whole object that a tagged or pythonic call enforces (such an object never has
// other members), or that do not restrict values.
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

std::string SchemaParam(const api::Tool& tool) { return tool.param + "." + tool.schema_field; }

std::vector<ToolParameter> ParametersOf(const api::Tool& tool) {
  const JsonObject root = SchemaObjectOf(tool.parameters);
  std::vector<ToolParameter> found;
  const Json* properties = root.if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return found;
  const Json* required = root.if_contains("required");
  size_t copied = 0;
  for (const auto& member : properties->get_object()) {
    ToolParameter one{.name = std::string(member.key()),
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
  std::stable_partition(found.begin(), found.end(),
                        [](const ToolParameter& p) { return p.required; });
  return found;
}

bool IsText(const ToolParameter& parameter) {
  return parameter.type == "string" || !parameter.choices.empty();
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
      if (name.is_string() && (known == nullptr || !known->contains(name.get_string())))
        return SchemaParam(tool) + ".required[" + std::to_string(i) + "]";
    }
  }
  if (syntax.call != ToolSyntax::Call::kTagged) return "";
  for (const ToolParameter& parameter : ParametersOf(tool)) {
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
