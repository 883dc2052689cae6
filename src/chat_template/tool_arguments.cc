#include "chat_template/tool_arguments.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>
#include <vector>

#include "grammar/limits.h"

namespace tutti::chat_template {
namespace {

constexpr int kMaxDepth = 64;

using Json = boost::json::value;

std::optional<Json> Parse(std::string_view text) {
  boost::system::error_code error;
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  Json value = boost::json::parse(text, error, {}, options);
  if (error) return std::nullopt;
  return value;
}

// Whether a schema's `type` is "object", or a list in which it is.
bool NamesObject(const Json& type) {
  if (type.is_string()) return type.get_string() == "object";
  return type.is_array() &&
         std::any_of(type.get_array().begin(), type.get_array().end(), [](const Json& name) {
           return name.is_string() && name.get_string() == "object";
         });
}

// End of the JSON value that begins at `at`; the text is valid JSON.
size_t BehindValue(std::string_view text, size_t at) {
  int depth = 0;
  bool in_string = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') {
        ++at;
      } else if (c == '"') {
        in_string = false;
        if (depth == 0) return at + 1;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || c == ':')) {
      return at;
    }
  }
  return at;
}

// The place in a text that is read, and what the readers of both forms have in common.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  bool done() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // Elements up to `end`, each read by `element`; in the JSON they stand between the two
  // `brackets`.
  template <typename Element>  // bool()
  bool Elements(char end, std::string_view brackets, std::string* json, const Element& element) {
    *json += brackets[0];
    for (bool first = true; !Take(end); first = false) {
      if (!first) {
        if (!Take(',')) return false;
        if (Take(end)) break;  // a comma behind the last
        *json += ", ";
      }
      if (!element()) return false;
    }
    *json += brackets[1];
    return true;
  }

 protected:
  void SkipSpace() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos)
      ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Python's literals as JSON, by recursive descent. Source: the Python language reference, section
// 2.4 (without bytes, raw and formatted strings).
class PythonReader : public LiteralReader {
 public:
  using LiteralReader::LiteralReader;

  std::string Name() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() && (IsWord(text_[at_]) || text_[at_] == '.' || text_[at_] == '-'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool Value(std::string* json, int depth = 0) {
    SkipSpace();
    if (at_ >= text_.size() || depth > kMaxDepth) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return String(json);
    if (c == '[' || c == '(') return List(c == '[' ? ']' : ')', json, depth);
    if (c == '{') return Dict(json, depth);
    return Word(json);
  }

 private:
  static bool IsWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  bool Word(std::string* json) {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (IsWord(text_[at_]) || text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "true") {
      *json += "true";
    } else if (word == "False" || word == "false") {
      *json += "false";
    } else if (word == "None" || word == "null") {
      *json += "null";
    } else if (const std::optional<Json> number = Parse(word); number && number->is_number()) {
      *json += word;
    } else {
      return false;
    }
    return true;
  }

  bool String(std::string* json) {
    const char quote = text_[at_++];
    std::string bytes;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        bytes += text_[at_++];
        continue;
      }
      if (!Escape(&bytes)) return false;
    }
    if (at_ >= text_.size()) return false;
    ++at_;
    *json += JsonString(bytes);
    return true;
  }

  bool Escape(std::string* bytes) {
    if (++at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "ntrbf\\'\"/", kTo = "\n\t\r\b\f\\'\"/";
    if (const size_t found = kFrom.find(c); found != std::string_view::npos) {
      *bytes += kTo[found];
      return true;
    }
    if (c != 'u') {  // Python keeps the backslash of an escape it does not know
      *bytes += '\\';
      *bytes += c;
      return true;
    }
    // As JSON reads it, with the second half of a pair.
    std::string escape = "\"\\u" + std::string(text_.substr(at_, 4));
    at_ += 4;
    if (text_.substr(std::min(at_, text_.size()), 2) == "\\u") {
      const std::string pair = escape + std::string(text_.substr(at_, 6)) + "\"";
      if (const std::optional<std::string> both = JsonText(pair)) {
        *bytes += *both;
        at_ += 6;
        return true;
      }
    }
    const std::optional<std::string> one = JsonText(escape + "\"");
    if (!one) return false;
    *bytes += *one;
    return true;
  }

  bool List(char end, std::string* json, int depth) {
    ++at_;
    return Elements(end, "[]", json, [&] { return Value(json, depth + 1); });
  }

  bool Dict(std::string* json, int depth) {
    ++at_;
    return Elements('}', "{}", json, [&] {
      SkipSpace();
      if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return false;
      if (!String(json) || !Take(':')) return false;
      *json += ": ";
      return Value(json, depth + 1);
    });
  }
};

// Whether a parameter's schema allows strings only.
bool IsText(const Json* schema) {
  const auto* object = schema == nullptr ? nullptr : schema->if_object();
  const Json* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr) return false;
  if (type->is_string()) return type->get_string() == "string";
  if (!type->is_array()) return false;
  for (const Json& one : type->get_array())
    if (!one.is_string() || one.get_string() != "string") return false;
  return true;
}

// Whether a parameter's schema declares a type, and does not allow strings.
bool IsNoText(const Json* schema) {
  const auto* object = schema == nullptr ? nullptr : schema->if_object();
  const Json* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr) return false;
  if (!type->is_array()) return type->is_string() && type->get_string() != "string";
  for (const Json& one : type->get_array())
    if (one.is_string() && one.get_string() == "string") return false;
  return !type->get_array().empty();
}

// {KEY:VALUE,...} as JSON, by recursive descent. Source: the format_argument macro of Gemma 4's
// chat template.
class BareReader : public LiteralReader {
 public:
  BareReader(std::string_view text, std::string_view quote) : LiteralReader(text), quote_(quote) {}

  // `properties`: the schemas of the members; null: unknown.
  bool Object(const boost::json::object* properties, std::string* json, int depth = 0) {
    return Take('{') && Elements('}', "{}", json, [&] {
             std::string key;
             if (!Key(&key) || !Take(':')) return false;
             *json += JsonString(key) + ": ";
             const Json* schema = properties == nullptr ? nullptr : properties->if_contains(key);
             return Value(schema, json, depth + 1);
           });
  }

 private:
  // A text between quotes; absent: another value begins here, or the text is not closed.
  std::optional<std::string_view> Quoted() {
    SkipSpace();
    if (!text_.substr(at_).starts_with(quote_)) return std::nullopt;
    const size_t begin = at_ + quote_.size(), end = text_.find(quote_, begin);
    if (end == std::string_view::npos) return std::nullopt;
    at_ = end + quote_.size();
    return text_.substr(begin, end - begin);
  }
  // Up to one of `ends`, without the white space around it; never empty.
  std::optional<std::string_view> Bare(std::string_view ends) {
    const size_t end = text_.find_first_of(ends, at_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view word = Trim(text_.substr(at_, end - at_));
    if (word.empty()) return std::nullopt;
    at_ = end;
    return word;
  }
  bool Key(std::string* key) {
    std::optional<std::string_view> found = Quoted();
    if (!found) found = Bare(":,{}[]");
    if (found) *key = *found;
    return found.has_value();
  }
  bool Value(const Json* schema, std::string* json, int depth) {
    if (depth > kMaxDepth) return false;
    if (const std::optional<std::string_view> text = Quoted()) {
      const bool other = IsNoText(schema) && Parse(*text).has_value();
      *json += other ? std::string(Trim(*text)) : JsonString(*text);
      return true;
    }
    SkipSpace();
    if (at_ >= text_.size()) return false;
    if (text_[at_] == '{') return Object(nullptr, json, depth);
    if (text_[at_] == '[') return List(json, depth);
    const std::optional<std::string_view> word = Bare(",}]");
    if (!word) return false;
    *json += Word(*word);
    return true;
  }
  bool List(std::string* json, int depth) {
    return Take('[') && Elements(']', "[]", json, [&] { return Value(nullptr, json, depth + 1); });
  }
  // Templates print Python's None; other words are texts whose quotes the model forgot.
  static std::string Word(std::string_view word) {
    if (word == "None" || word == "none" || word == "nil") return "null";
    const std::optional<Json> value = Parse(word);
    return value.has_value() && value->is_primitive() ? std::string(word) : JsonString(word);
  }

  std::string_view quote_;
};

// A value in a tag: a string without quotes, or JSON.
std::string TaggedValue(std::string_view value, const Json* schema) {
  if (!IsText(schema) && Parse(value).has_value()) return std::string(Trim(value));
  return JsonString(value);
}

// The schemas of a tool's parameters; null if the tool has none.
const boost::json::object* PropertiesOf(const boost::json::object& schema) {
  const Json* found = schema.if_contains("properties");
  return found == nullptr ? nullptr : found->if_object();
}

bool Skip(std::string_view marker, std::string_view* text) {
  const std::string_view wanted = Trim(marker);
  const size_t begin = text->find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || !text->substr(begin).starts_with(wanted)) return false;
  text->remove_prefix(begin + wanted.size());
  return true;
}

}  // namespace

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::vector<JsonMember> JsonMembers(std::string_view object) {
  std::vector<JsonMember> members;
  if (!IsJsonObject(object)) return members;
  size_t at = object.find('{') + 1;
  while (true) {
    at = object.find_first_not_of(" \t\r\n,", at);
    if (at == std::string_view::npos || object[at] != '"') return members;
    const size_t key_end = BehindValue(object, at);
    const std::optional<std::string> key = JsonText(object.substr(at, key_end - at));
    const size_t begin = object.find_first_not_of(" \t\r\n:", key_end);
    const size_t end = BehindValue(object, begin);
    members.push_back({.key = *key, .value = Trim(object.substr(begin, end - begin))});
    at = end;
  }
}

std::optional<std::string> JsonText(std::string_view json) {
  const std::optional<Json> value = Parse(json);
  if (!value || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

std::string JsonString(std::string_view text) { return boost::json::serialize(Json(text)); }

boost::json::object SchemaObjectOf(std::string_view text) {
  std::optional<Json> value = Parse(text);
  if (!value || !value->is_object()) return {};
  boost::json::object& root = value->get_object();
  constexpr int kMaxReferences = 8;  // one to the next
  for (int i = 0; i < kMaxReferences; ++i) {
    const Json* const reference = root.if_contains("$ref");
    if (reference == nullptr || !reference->is_string()) break;
    const std::string_view path(reference->get_string());
    const bool old = path.starts_with("#/definitions/");
    if (!old && !path.starts_with("#/$defs/")) break;
    const Json* const all = root.if_contains(old ? "definitions" : "$defs");
    const boost::json::object* const definitions = all == nullptr ? nullptr : all->if_object();
    const Json* const found = definitions == nullptr
                                  ? nullptr
                                  : definitions->if_contains(path.substr(path.rfind('/') + 1));
    if (found == nullptr || !found->is_object()) break;
    const boost::json::object definition = found->get_object();
    root.erase("$ref");
    for (const auto& member : definition) root.emplace(member.key(), member.value());
  }
  return std::move(root);
}

bool IsJsonObject(std::string_view text) {
  const std::optional<Json> value = Parse(text);
  return value && value->is_object();
}

Status CheckToolSchemas(const std::vector<api::Tool>& tools) {
  // Prompts are rendered, and formats without JSON are built, before a grammar's budget counts.
  size_t bytes = 0;
  for (const api::Tool& tool : tools) bytes += tool.parameters.size();
  if (bytes > grammar::Limits().text_bytes) {
    return InvalidArgument("grammar_too_complex",
                           "the schemas of all tools have more than 1 MiB; offer fewer tools")
        .WithParam("tools");
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const api::Tool& tool = tools[i];
    if (tool.parameters.empty()) continue;
    const std::string param =
        (tool.param.empty() ? "tools[" + std::to_string(i) + "]" : tool.param) + "." +
        tool.schema_field;
    if (!IsJsonObject(tool.parameters)) {
      return InvalidArgument("invalid_value", param + " must be a JSON object as text")
          .WithParam(param);
    }
    const boost::json::object schema = SchemaObjectOf(tool.parameters);
    if (const Json* type = schema.if_contains("type"); type != nullptr && !NamesObject(*type)) {
      return InvalidArgument("schema_invalid", "type of a tool's parameters must be object")
          .WithParam(param + ".type");
    }
  }
  return OkStatus();
}

std::optional<ReadCall> ReadJsonCall(std::string_view text) {
  if (!IsJsonObject(text)) return std::nullopt;
  ReadCall call;
  bool has_arguments = false;
  for (const JsonMember& member : JsonMembers(text)) {
    if (member.key == "name" || member.key == "tool_name") {
      const std::optional<std::string> name = JsonText(member.value);
      if (!name) return std::nullopt;
      call.name = *name;
    } else if (member.key == "arguments" || member.key == "parameters") {
      // Some models write the object as a JSON string.
      const std::optional<std::string> inner = JsonText(member.value);
      call.arguments = inner ? *inner : std::string(member.value);
      if (!IsJsonObject(call.arguments)) return std::nullopt;
      has_arguments = true;
    } else if (member.key == "id" || member.key == "tool_call_id") {
      call.id = JsonText(member.value).value_or("");
    }
  }
  if (call.name.empty() || !has_arguments) return std::nullopt;
  return call;
}

std::optional<ReadCall> ReadPythonicCall(std::string_view text) {
  PythonReader reader(text);
  ReadCall call{.name = reader.Name()};
  const auto argument = [&] {
    const std::string key = reader.Name();
    if (key.empty() || !reader.Take('=')) return false;
    call.arguments += JsonString(key) + ": ";
    return reader.Value(&call.arguments);
  };
  if (call.name.empty() || !reader.Take('(') ||
      !reader.Elements(')', "{}", &call.arguments, argument) || !reader.done())
    return std::nullopt;
  return call;
}

std::optional<std::string> ReadBareArguments(const ToolSyntax& syntax, std::string_view text,
                                             std::string_view schema) {
  const boost::json::object root = SchemaObjectOf(schema);
  std::string arguments;
  BareReader reader(text, syntax.text_quote);
  if (!reader.Object(PropertiesOf(root), &arguments) || !reader.done()) return std::nullopt;
  return arguments;
}

std::string WriteBare(const ToolSyntax& syntax, std::string_view json) {
  std::string text;
  for (size_t at = 0; at < json.size();) {
    if (json[at] != '"') {
      if (std::string_view(" \t\r\n").find(json[at]) == std::string_view::npos) text += json[at];
      ++at;
      continue;
    }
    const size_t end = BehindValue(json, at);
    const std::string value = JsonText(json.substr(at, end - at)).value_or("");
    const size_t next = json.find_first_not_of(" \t\r\n", end);
    const bool key = next != std::string_view::npos && json[next] == ':';
    if (key) {
      text += value;
    } else {
      text += std::string(syntax.text_quote) + value + std::string(syntax.text_quote);
    }
    at = end;
  }
  return text;
}

std::optional<std::string> ReadTaggedArguments(const ToolSyntax& syntax, std::string_view text,
                                               std::string_view schema) {
  const boost::json::object root = SchemaObjectOf(schema);
  const boost::json::object* const properties = PropertiesOf(root);
  std::string arguments = "{";
  while (!Trim(text).empty()) {
    if (!Skip(syntax.key_begin, &text)) return std::nullopt;
    const std::string_view key_end = Trim(syntax.key_end), value_end = Trim(syntax.value_end);
    // The end of a key may be several tags with white space between them, such as GLM's.
    const size_t first_tag = std::min(key_end.find('\n'), key_end.size());
    const size_t key_size = text.find(key_end.substr(0, first_tag));
    if (key_size == std::string_view::npos) return std::nullopt;
    const std::string_view key = Trim(text.substr(0, key_size));
    text.remove_prefix(key_size + first_tag);
    if (first_tag < key_end.size() && !Skip(key_end.substr(first_tag), &text)) return std::nullopt;
    const size_t value_size = text.find(value_end);
    if (value_size == std::string_view::npos) return std::nullopt;
    std::string_view value = text.substr(0, value_size);
    text.remove_prefix(value_size + value_end.size());
    // The line ends that belong to the tags, and no others.
    if (syntax.key_end.ends_with('\n') && value.starts_with('\n')) value.remove_prefix(1);
    if (syntax.value_end.starts_with('\n') && value.ends_with('\n')) value.remove_suffix(1);
    const Json* type = properties == nullptr ? nullptr : properties->if_contains(key);
    if (arguments.size() > 1) arguments += ", ";
    arguments += JsonString(key) + ": " + TaggedValue(value, type);
  }
  return arguments + "}";
}

}  // namespace tutti::chat_template
