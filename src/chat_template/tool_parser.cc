#include "chat_template/tool_parser.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "chat_template/tool_arguments.h"
#include "chat_template/tool_structure.h"
#include "grammar/json_text.h"

namespace tutti::chat_template {
namespace {

// Maximum size of the text before and after a call's arguments, which is parsed again for every
// byte.
constexpr size_t kMaxPieceBytes = 1024;

std::string Alphanumerics(uint64_t seed, int count) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  Random random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) text += kLetters[random.Below(kLetters.size())];
  return text;
}

// {"name": "NAME", "arguments": and the white space that JSON allows between, with the syntax's
// keys; its count stands before the name. `more`: `text` may be the beginning of one.
struct JsonHead {
  bool matches = false, more = false;
  std::string name = {};
};
JsonHead MatchJsonHead(std::string_view text, const ToolSyntax& syntax) {
  size_t at = 0;
  const auto skip = [&] {
    while (at < text.size() && grammar::IsJsonSpace(text[at])) ++at;
  };
  // Whether the text goes on with `word`; 0: not, 1: it does, 2: it ends within it.
  const auto word = [&](std::string_view wanted) {
    skip();
    const size_t size = std::min(wanted.size(), text.size() - at);
    if (text.substr(at, size) != wanted.substr(0, size)) return 0;
    at += size;
    return size == wanted.size() ? 1 : 2;
  };
  JsonHead head;
  const auto words = [&](std::initializer_list<std::string> all) {
    for (const std::string& wanted : all) {
      const int found = word(wanted);
      if (found == 1) continue;
      head.more = found == 2;
      return false;
    }
    return true;
  };
  // A string without escapes, behind its first quote.
  const auto plain_string = [&](std::string* value) {
    const size_t end = text.find_first_of("\"\\", at);
    head.more = end == std::string_view::npos;
    if (head.more || text[end] == '\\') return false;
    *value = text.substr(at, end - at);
    at = end + 1;
    return true;
  };
  const auto quoted = [](std::string_view key) { return "\"" + std::string(key) + "\""; };
  std::string count;
  if (!words({"{"})) return head;
  if (!syntax.count_key.empty() &&
      !(words({quoted(syntax.count_key), ":", "\""}) && plain_string(&count) && words({","})))
    return head;
  if (!words({quoted(syntax.name_key), ":", "\""}) || !plain_string(&head.name) ||
      !words({",", quoted(syntax.arguments_key), ":"}))
    return head;
  skip();
  head.matches = at < text.size() && text[at] == '{';
  head.more = at == text.size();
  return head;
}

}  // namespace

ToolParser::ToolParser(std::shared_ptr<const ToolParserOptions> options, int choice)
    : options_(std::move(options)),
      syntax_(*options_->syntax),
      marker_(Trim(syntax_.marker())),
      choice_(choice) {
  if (marker_.empty() && options_->constrained) starts_ = CallStarts(syntax_, options_->tools);
}

ToolParser::~ToolParser() = default;

const api::Tool* ToolParser::FindTool(std::string_view name) const {
  const auto found = std::find_if(options_->tools.begin(), options_->tools.end(),
                                  [&](const api::Tool& tool) { return tool.name == name; });
  return found == options_->tools.end() ? nullptr : &*found;
}

void ReportBrokenCall(const ToolParserOptions& options, std::string_view reason) {
  if (options.on_broken_call) options.on_broken_call(reason);
}

std::string MakeCallId(const ToolParserOptions& options, int choice, int index,
                       std::string_view name) {
  const uint64_t seed =
      options.id_seed + (static_cast<uint64_t>(choice) << 32) + static_cast<uint64_t>(index);
  switch (options.syntax->id) {
    case ToolSyntax::Id::kNine:
      return Alphanumerics(seed, 9);
    case ToolSyntax::Id::kIndex:
      return "functions." + std::string(name) + ":" + std::to_string(index);
    case ToolSyntax::Id::kLong:
      return "call_" + Alphanumerics(seed, 24);
  }
  return {};
}

void ToolParser::Push(std::string_view delta, api::StreamEvent* event) {
  for (const char c : delta) Take(c, event);
}

void ToolParser::EmitText(std::string_view text, api::StreamEvent* event) {
  for (const char c : text) {
    if (grammar::IsJsonSpace(c)) {
      space_ += c;
      continue;
    }
    event->text += std::exchange(space_, {});
    event->text += c;
    has_text_ = true;
  }
}

void ToolParser::Take(char c, api::StreamEvent* event) {
  if (stage_ != Stage::kText && stage_ != Stage::kPlain) raw_ += c;
  switch (stage_) {
    case Stage::kText:
      return TakeText(c, event);
    case Stage::kBetween:
      return TakeBetween(c, event);
    case Stage::kHead:
      return TakeHead(c, event);
    case Stage::kWhole:
      return TakeWhole(c, event);
    case Stage::kArguments:
      return TakeArguments(c, event);
    case Stage::kTail:
      return TakeTail(c, event);
    case Stage::kPlain:
      return EmitText({&c, 1}, event);
  }
}

// Collects the answer's beginning until it is that of a call, or cannot become one.
void ToolParser::TakeStart(char c, api::StreamEvent* event) {
  raw_ += c;
  const auto goes_on = [&](const std::string& start) { return start.starts_with(raw_); };
  if (std::none_of(starts_.begin(), starts_.end(), goes_on)) return Break(event);
  if (std::find(starts_.begin(), starts_.end(), raw_) == starts_.end()) return;
  const std::string start = std::exchange(raw_, {});
  starts_.clear();
  for (const char one : start) Take(one, event);
}

void ToolParser::TakeText(char c, api::StreamEvent* event) {
  if (!starts_.empty()) return TakeStart(c, event);
  if (marker_.empty()) {
    // The answer begins with a call, or holds none.
    if (grammar::IsJsonSpace(c) && !has_text_) {
      space_ += c;
      return;
    }
    const char first = syntax_.list ? '[' : '{';
    raw_ = std::exchange(space_, {}) + c;
    piece_.clear();
    if (c != first) return Break(event);
    stage_ = Stage::kHead;
    if (!syntax_.list) piece_ = c;
    return;
  }
  if (options_->leading && has_text_) return EmitText({&c, 1}, event);
  raw_ += c;
  size_t gone = 0;
  while (!std::string_view(marker_).starts_with(std::string_view(raw_).substr(gone))) ++gone;
  EmitText(std::string_view(raw_).substr(0, gone), event);
  raw_.erase(0, gone);
  if (raw_ != marker_) return;
  piece_.clear();
  stage_ = syntax_.begin.empty() ? Stage::kHead : Stage::kBetween;
}

// After the section's beginning or a separator: the beginning of a call, or the section's end.
void ToolParser::TakeBetween(char c, api::StreamEvent* event) {
  piece_ += c;
  const std::string_view text = Trim(piece_);
  if (text.empty()) return;
  if (syntax_.list) {
    if (text == "[" || text == ",") {
      piece_.clear();
      if (syntax_.call_begin.empty()) stage_ = Stage::kHead;
      return;
    }
    if (text == "]") {
      piece_.clear();
      raw_.clear();
      if (syntax_.end.empty()) stage_ = Stage::kPlain;
      return;
    }
  }
  const std::string_view begin = Trim(syntax_.call_begin), end = Trim(syntax_.end);
  if (!begin.empty() && text == begin) {
    piece_.clear();
    stage_ = Stage::kHead;
    return;
  }
  if (!end.empty() && text == end) {
    piece_.clear();
    raw_.clear();
    space_.clear();
    stage_ = Stage::kText;
    return;
  }
  const bool open =
      (!begin.empty() && begin.starts_with(text)) || (!end.empty() && end.starts_with(text));
  if (!open) Break(event);
}

void ToolParser::TakeHead(char c, api::StreamEvent* event) {
  piece_ += c;
  if (piece_.size() > kMaxPieceBytes) return Break(event);
  switch (syntax_.call) {
    case ToolSyntax::Call::kJson: {
      const JsonHead head = MatchJsonHead(piece_, syntax_);
      if (head.more) return;
      if (Trim(piece_).front() != '{') return Break(event);
      if (head.matches && options_->constrained) {
        BeginCall(head.name, "", event);
        piece_.clear();
        if (stage_ != Stage::kPlain) TakeArguments(c, event);
        return;
      }
      // Members in another order, or nothing that forbids a broken call: read as a whole.
      const std::string text = std::exchange(piece_, {});
      stage_ = Stage::kWhole;
      depth_ = 0;
      in_string_ = escaped_ = false;
      for (const char one : text) {
        if (stage_ == Stage::kWhole) TakeWhole(one, event);
      }
      return;
    }
    case ToolSyntax::Call::kNamed: {
      const std::string_view end = Trim(syntax_.name_end);
      if (!piece_.ends_with(end)) {
        // Longer than any name with what stands around it.
        if (piece_.size() > 256) Break(event);
        return;
      }
      std::string_view name = piece_;
      name.remove_suffix(end.size());
      name = Trim(name);
      std::string id;
      if (syntax_.numbered) id = std::string(name);
      if (name.starts_with(syntax_.name_begin)) name.remove_prefix(syntax_.name_begin.size());
      if (syntax_.numbered) name = name.substr(0, name.rfind(':'));
      const std::string wanted(name);
      piece_.clear();
      return BeginCall(wanted, id, event);
    }
    case ToolSyntax::Call::kHarmony:  // has its own parser
    case ToolSyntax::Call::kTagged:
    case ToolSyntax::Call::kPythonic:
    case ToolSyntax::Call::kBare: {
      stage_ = Stage::kWhole;
      depth_ = 0;
      in_string_ = escaped_ = false;
      piece_.clear();
      return TakeWhole(c, event);
    }
  }
}

void ToolParser::BeginCall(std::string_view name, std::string_view id, api::StreamEvent* event) {
  if (FindTool(name) == nullptr) return Break(event, "unknown_tool");
  name_ = name;
  id_ = id.empty() ? MakeCallId(*options_, choice_, calls_, name) : std::string(id);
  arguments_.clear();
  depth_ = 0;
  in_string_ = escaped_ = false;
  streamed_ = options_->constrained;
  stage_ = Stage::kArguments;
  if (streamed_) event->tool_calls.push_back({.index = calls_, .id = id_, .name = name_});
}

void ToolParser::TakeArguments(char c, api::StreamEvent* event) {
  if (depth_ == 0 && c != '{') {
    if (!grammar::IsJsonSpace(c)) Break(event);
    return;
  }
  arguments_ += c;
  if (streamed_) {
    if (event->tool_calls.empty() || event->tool_calls.back().index != calls_)
      event->tool_calls.push_back({.index = calls_});
    event->tool_calls.back().arguments += c;
  }
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  if (depth_ > 0) return;
  piece_.clear();
  stage_ = Stage::kTail;
  // No text may follow the arguments.
  if (syntax_.call == ToolSyntax::Call::kNamed && syntax_.call_end.empty()) EndCall(event);
}

void ToolParser::TakeTail(char c, api::StreamEvent* event) {
  piece_ += c;
  if (piece_.size() > kMaxPieceBytes) return Break(event);
  std::string_view text = Trim(piece_);
  if (text.empty()) return;
  if (syntax_.call == ToolSyntax::Call::kJson) {
    if (text.front() == ',') {
      // Further members, such as an id.
      if (!text.ends_with('}') || !IsJsonObject("{\"\":0" + std::string(text))) return;
      piece_ = text = "}";
    }
    if (text.front() != '}') return Break(event);
    text = Trim(text.substr(1));
  }
  const std::string_view end = Trim(syntax_.call_end);
  if (text == end) return EndCall(event);
  if (!end.starts_with(text)) Break(event);
}

void ToolParser::TakeWhole(char c, api::StreamEvent* event) {
  piece_ += c;
  std::optional<ReadCall> call;
  if (syntax_.call == ToolSyntax::Call::kTagged) {
    const std::string_view end = Trim(syntax_.call_end);
    // A value may hold the end's first tag: all of it counts.
    if (!piece_.ends_with(end)) return;
    std::string_view inner = std::string_view(piece_).substr(0, piece_.size() - end.size());
    const std::string_view name_end = Trim(syntax_.name_end);
    const size_t name_size = name_end.empty() ? inner.find_first_of("\n<") : inner.find(name_end);
    const std::string name(Trim(inner.substr(0, name_size)));
    inner = name_size == std::string_view::npos ? std::string_view()
                                                : inner.substr(name_size + name_end.size());
    const std::string_view values = Trim(inner);
    if (options_->constrained && !values.empty() && !values.ends_with(Trim(syntax_.value_end)))
      return;  // read again at the next end: a value is still open
    if (const api::Tool* const tool = FindTool(name); tool != nullptr) {
      if (auto arguments = ReadTaggedArguments(syntax_, inner, tool->parameters)) {
        call = ReadCall{.name = name, .arguments = *std::move(arguments)};
      } else if (options_->constrained) {
        return;  // The end stands within a value: the grammar has each closed.
      }
    }
    if (!call) return Break(event);
  } else if (syntax_.call == ToolSyntax::Call::kBare) {
    const std::string_view quote = syntax_.text_quote;
    if (piece_.ends_with(quote)) in_string_ = !in_string_;
    if (in_string_) return;
    if (depth_ == 0 && c != '{') {
      // Longer than any name: a text that never opens its arguments would be held to its end.
      if (piece_.size() > kMaxPieceBytes) Break(event);
      return;
    }
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    if (depth_ > 0) return;
    const std::string name(Trim(std::string_view(piece_).substr(0, piece_.find('{'))));
    if (const api::Tool* const tool = FindTool(name); tool != nullptr) {
      if (auto arguments = ReadBareArguments(
              syntax_, std::string_view(piece_).substr(piece_.find('{')), tool->parameters))
        call = ReadCall{.name = name, .arguments = *std::move(arguments)};
    }
    if (!call) return Break(event);
  } else {
    const bool json = syntax_.call == ToolSyntax::Call::kJson;
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == quote_) {
        in_string_ = false;
      }
      return;
    }
    if (c == '"' || (c == '\'' && !json)) {
      in_string_ = true;
      quote_ = c;
      return;
    }
    if (c == '{' || c == '[' || (c == '(' && !json)) ++depth_;
    const bool closes = c == '}' || c == ']' || (c == ')' && !json);
    if (!closes || --depth_ > 0) return;
    if (depth_ < 0) return Break(event);
    call = json ? ReadJsonCall(piece_) : ReadPythonicCall(piece_);
    if (!call) return Break(event);
    if (FindTool(call->name) == nullptr) return Break(event, "unknown_tool");
    if (!syntax_.count_key.empty()) call->id.clear();
  }
  name_ = call->name;
  arguments_ = call->arguments;
  id_ = call->id.empty() ? MakeCallId(*options_, choice_, calls_, name_) : call->id;
  streamed_ = false;
  piece_.clear();
  const bool ends = syntax_.call == ToolSyntax::Call::kTagged || Trim(syntax_.call_end).empty();
  if (ends) return EndCall(event);
  stage_ = Stage::kTail;
  if (syntax_.call == ToolSyntax::Call::kJson) piece_ = "}";  // read with the object
}

void ToolParser::EndCall(api::StreamEvent* event) {
  if (!streamed_) {
    if (!IsJsonObject(arguments_)) return Break(event);
    event->tool_calls.push_back(
        {.index = calls_, .id = id_, .name = name_, .arguments = arguments_});
  }
  ++calls_;
  raw_.clear();
  piece_.clear();
  space_.clear();
  streamed_ = false;
  name_.clear();
  const bool section = !syntax_.begin.empty() || syntax_.list;
  stage_ = section ? Stage::kBetween : marker_.empty() ? Stage::kPlain : Stage::kText;
}

void ToolParser::Break(api::StreamEvent* event, std::string_view reason) {
  // Only text that began as a call counts as a broken call.
  const bool opened = !marker_.empty() && raw_.starts_with(marker_);
  if (stage_ != Stage::kText && (stage_ != Stage::kBetween || opened))
    ReportBrokenCall(*options_, reason);
  const std::string raw = std::exchange(raw_, {});
  if (streamed_) {
    ++calls_;  // deltas already sent cannot be taken back; constrained text never gets here
  } else {
    EmitText(raw, event);
  }
  streamed_ = false;
  name_.clear();
  piece_.clear();
  stage_ = marker_.empty() ? Stage::kPlain : Stage::kText;
}

void ToolParser::Finish(api::StreamEvent* event) {
  // The arguments are whole: only the end of the call is missing, as where the end of text took its
  // place.
  if (stage_ == Stage::kHead || stage_ == Stage::kWhole || stage_ == Stage::kArguments)
    ReportBrokenCall(*options_, "cut");
  if (stage_ == Stage::kTail) {
    EndCall(event);
  } else if (streamed_) {
    ++calls_;  // its beginning has left
  } else if (stage_ != Stage::kBetween || raw_.starts_with(marker_)) {
    // Behind a call what is missing is a separator or the section's end; behind the marker, a call.
    EmitText(std::exchange(raw_, {}), event);
  }
  if (calls_ == 0) event->text += std::exchange(space_, {});
  const bool ended = event->finish_reason == api::FinishReason::kStop &&
                     std::holds_alternative<std::monostate>(event->stop_reason);
  if (calls_ > 0 && ended) event->finish_reason = api::FinishReason::kToolCalls;
}

}  // namespace tutti::chat_template
