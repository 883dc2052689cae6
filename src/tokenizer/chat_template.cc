#include "tokenizer/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/jinja/engine.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer {
namespace {

using jinja::Origin;
using jinja::Text;
using jinja::Value;

using Variables = std::vector<std::pair<std::string, Value>>;

// Marks where a continued message ends. The blank at its end shows whether the template keeps
// trailing white space. Not a secret: the place is found by origin, not by spelling.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";

// Roles a template may write inside a control token ("<|" + role + "|>") because no client chose
// their spelling.
constexpr std::array<std::string_view, 14> kKnownRoles{
    "system", "user",         "assistant", "tool",          "developer", "function", "ipython",
    "model",  "tool_results", "documents", "tool_response", "control",   "context",  "environment"};

// Names that the engine provides or reserves; clients cannot set them.
constexpr std::array<std::string_view, 20> kReserved{"messages",
                                                     "tools",
                                                     "add_generation_prompt",
                                                     "bos_token",
                                                     "eos_token",
                                                     "unk_token",
                                                     "pad_token",
                                                     "range",
                                                     "namespace",
                                                     "dict",
                                                     "loop",
                                                     "caller",
                                                     "varargs",
                                                     "kwargs",
                                                     "self",
                                                     "raise_exception",
                                                     "strftime_now",
                                                     "chat_template",
                                                     "tokenize",
                                                     "continue_final_message"};

bool IsKnownRole(std::string_view role) {
  return std::find(kKnownRoles.begin(), kKnownRoles.end(), role) != kKnownRoles.end();
}

bool IsReserved(std::string_view name) {
  return name.empty() || name[0] == '_' ||
         std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

// Appends the mark to the message's text: to a string, or to the last part with text, which goes to
// `*continued`. Undefined if there is none.
Value Marked(const Value& content, Text* continued) {
  if (content.is_string()) {
    Text text = content.text();
    *continued = text;
    text.Append(kMark, Origin::kMark);
    return Value::String(std::move(text));
  }
  if (!content.is_list()) return Value();
  std::vector<Value> parts = content.items();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const Value* const text = part->Find("text");
    if (text == nullptr || !text->is_string()) continue;
    std::vector<Value::Member> members;
    for (const auto& [key, value] : part->members()) {
      const bool is_text = key.is_string() && key.text().bytes() == "text";
      members.emplace_back(key.is_string() ? key.text().bytes() : "",
                           is_text ? Marked(value, continued) : value);
    }
    *part = Value::Dict(std::move(members));
    return Value::List(std::move(parts));
  }
  return Value();
}

Value MessageValue(const ChatMessage& message, const Value& content) {
  std::vector<Value::Member> members;
  members.emplace_back(
      "role",
      Value::String(message.role, IsKnownRole(message.role) ? Origin::kTemplate : Origin::kClient));
  if (content.defined()) members.emplace_back("content", content);
  if (!message.name.empty()) members.emplace_back("name", Value::String(message.name));
  if (message.tool_calls.defined()) members.emplace_back("tool_calls", message.tool_calls);
  if (!message.tool_call_id.empty())
    members.emplace_back("tool_call_id", Value::String(message.tool_call_id));
  for (const auto& [key, value] : message.extra) members.emplace_back(key, value);
  return Value::Dict(std::move(members));
}

Status BadMessages(std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam("messages");
}

// Ends the prompt where the mark stands, as transformers does: exactly there if the template kept
// the blank of the mark or wrote one itself, else without the white space before it.
//
// `continued` is the text the message should end with.
Result<Text> CutAtMark(const Text& rendered, const Text& continued) {
  size_t begin = 0;
  size_t last_begin = 0;
  size_t last_end = 0;
  for (const Text::Run& run : rendered.Runs()) {
    if (run.origin == Origin::kMark) {
      last_begin = begin;
      last_end = run.end;
    }
    begin = run.end;
  }
  const jinja::Span core = jinja::Strip(continued.bytes(), true, true);
  const std::string_view wanted =
      std::string_view(continued.bytes()).substr(core.begin, core.end - core.begin);
  if (last_end == 0 || jinja::Find(rendered.bytes(), wanted) == std::string::npos) {
    return BadMessages(
        "the chat template does not show the whole last message, so it cannot be continued");
  }
  Text cut = rendered.Slice(0, last_begin);
  const size_t kept = last_end - last_begin;
  const bool blank_follows =
      kept + 1 == kMark.size() && last_end < rendered.size() && rendered.bytes()[last_end] == ' ';
  if (kept == kMark.size() || blank_follows) return cut;
  return cut.Slice(0, jinja::Strip(cut.bytes(), false, true).end);
}

constexpr std::array<std::string_view, 4> kProbedRoles{"user", "assistant", "system", "tool"};

Value TextPart(std::string_view text) {
  return Value::Dict({{"type", Value::String("text")}, {"text", Value::String(std::string(text))}});
}

// The smallest chat in which templates take a message of `role` with this content.
std::vector<ChatMessage> ProbeChat(std::string_view role, Value content) {
  const auto message = [](std::string_view who, Value what) {
    return ChatMessage{.role = std::string(who), .content = std::move(what)};
  };
  const auto filler = [] { return Value::String("filler"); };
  std::vector<ChatMessage> chat;
  if (role == "system") {
    chat = {message(role, std::move(content)), message("user", filler())};
  } else if (role == "assistant") {
    chat = {message("user", filler()), message(role, std::move(content)),
            message("user", filler())};
  } else if (role == "tool") {
    chat = {message("user", filler()), message("assistant", filler()),
            message(role, std::move(content))};
  } else {
    chat = {message(role, std::move(content))};
  }
  return chat;
}

size_t Count(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

// A template that does not know lists fails on one, leaves it out, or prints it as Python does,
// with the key "type" of each part.
ChatTemplate::ContentForm ProbeContent(const ChatTemplate& chat_template, std::string_view role) {
  constexpr std::string_view kFirst = "probe-one", kSecond = "probe-two", kKey = "type";
  constexpr RenderOptions kCheap{.max_steps = 50'000, .max_output_bytes = size_t{1} << 20};
  const auto render = [&](Value content) {
    const auto rendered =
        chat_template.Render({.messages = ProbeChat(role, std::move(content))}, kCheap);
    return rendered.ok() ? rendered->Text() : std::string();
  };
  const std::string text = render(Value::String(std::string(kFirst)));
  const std::string parts = render(Value::List({TextPart(kFirst), TextPart(kSecond)}));
  const size_t second = parts.find(kSecond);
  const bool reads_parts = second != std::string::npos && parts.find(kFirst) < second &&
                           Count(parts, kKey) <= Count(text, kKey);
  if (!reads_parts) return ChatTemplate::ContentForm::kText;
  return text.find(kFirst) != std::string::npos ? ChatTemplate::ContentForm::kEither
                                                : ChatTemplate::ContentForm::kParts;
}

// "it reads enable_thinking": the options that a client may give.
std::string OptionsText(const jinja::Program& program) {
  constexpr size_t kMaxShown = 4;
  std::string names;
  size_t shown = 0;
  for (size_t i = 0; i < program.names.size(); ++i) {
    if (!program.free[i] || IsReserved(program.names[i])) continue;
    if (++shown > kMaxShown) break;
    names += (names.empty() ? "" : ", ") + program.names[i].substr(0, 64);
  }
  return names.empty() ? "it has no options" : "it reads " + names;
}

bool Flag(const jinja::Program& program, const std::vector<bool>& flags,
          std::string_view variable) {
  const auto found = std::find(program.names.begin(), program.names.end(), variable);
  return found != program.names.end() && flags[static_cast<size_t>(found - program.names.begin())];
}

// A word that no template writes itself.
constexpr std::string_view kAnswer = "Zwq7";

ChatMessage Message(std::string role, std::string_view content) {
  ChatMessage message;
  message.role = std::move(role);
  message.content = Value::String(std::string(content));
  return message;
}

}  // namespace

struct ChatTemplate::Compiled {
  std::string source;
  SpecialTokens tokens;
  jinja::Program program;
  // By role: user, assistant, system, tool.
  std::array<ContentForm, kProbedRoles.size()> forms{};
};

std::string RenderedPrompt::Text() const {
  std::string text;
  for (const PromptSegment& segment : segments) text += segment.text;
  return text;
}

Result<ChatTemplate> ChatTemplate::Compile(std::string source, SpecialTokens tokens) {
  ASSIGN_OR_RETURN(jinja::Program program, jinja::Parse(source));
  auto compiled = std::make_shared<Compiled>();
  compiled->source = std::move(source);
  compiled->tokens = std::move(tokens);
  compiled->program = std::move(program);
  const ChatTemplate chat_template(compiled);
  for (size_t i = 0; i < kProbedRoles.size(); ++i)
    compiled->forms[i] = ProbeContent(chat_template, kProbedRoles[i]);
  return chat_template;
}

Result<RenderedPrompt> ChatTemplate::Render(const ChatInput& input,
                                            const RenderOptions& options) const {
  const auto token = [](const std::string& text) { return Value::String(text, Origin::kTemplate); };
  Variables variables{
      {"bos_token", token(compiled_->tokens.bos)},
      {"eos_token", token(compiled_->tokens.eos)},
      {"unk_token", token(compiled_->tokens.unk)},
      {"pad_token", token(compiled_->tokens.pad)},
      {"add_generation_prompt",
       Value::Bool(input.add_generation_prompt && !input.continue_final_message)},
      {"tools", input.tools.defined() ? input.tools : Value::None()},
      {"documents", Value::None()},
  };
  for (const auto& [name, value] : input.extra) {
    if (!AcceptsExtra(name)) {
      const std::string shown = name.substr(0, ValidUtf8Prefix(name.substr(0, 64)));
      return InvalidArgument("unsupported_parameter", "the model's chat template does not read \"" +
                                                          shown + "\"; " +
                                                          OptionsText(compiled_->program))
          .WithParam("chat_template_kwargs." + shown);
    }
    variables.emplace_back(name, value);  // hides an earlier variable with the same name
  }

  Text continued;
  std::vector<Value> messages;
  messages.reserve(input.messages.size());
  for (size_t i = 0; i < input.messages.size(); ++i) {
    const ChatMessage& message = input.messages[i];
    Value content = message.content;
    if (input.continue_final_message && i + 1 == input.messages.size()) {
      content = Marked(content, &continued);
      if (!content.defined()) return BadMessages("the last message has no text to continue");
    }
    messages.push_back(MessageValue(message, content));
  }
  if (input.continue_final_message && messages.empty())
    return BadMessages("there is no message to continue");
  variables.emplace_back("messages", Value::List(std::move(messages)));
  for (const auto& [name, value] : variables) {
    if (value.depth() > Value::kMaxDepth) {
      return InvalidArgument("template_depth",
                             "nested deeper than " + std::to_string(Value::kMaxDepth))
          .WithParam(name);
    }
  }

  const jinja::Limits limits{.steps = options.max_steps,
                             .output_bytes = options.max_output_bytes,
                             .live_bytes = options.max_live_bytes,
                             .now_unix_s = options.now_unix_s};
  ASSIGN_OR_RETURN(Text rendered, jinja::Run(compiled_->program, variables, limits));
  if (input.continue_final_message) {
    ASSIGN_OR_RETURN(rendered, CutAtMark(rendered, continued));
  }
  RenderedPrompt prompt;
  size_t begin = 0;
  for (const Text::Run& run : rendered.Runs()) {
    const std::string_view part = std::string_view(rendered.bytes()).substr(begin, run.end - begin);
    begin = run.end;
    if (run.origin == Origin::kMark) continue;  // an earlier copy of the continued message
    const bool trusted = run.origin == Origin::kTemplate;
    if (!prompt.segments.empty() && prompt.segments.back().trusted == trusted) {
      prompt.segments.back().text += part;
    } else {
      prompt.segments.push_back({std::string(part), trusted});
    }
  }
  return prompt;
}

bool ChatTemplate::Reads(std::string_view variable) const {
  return Flag(compiled_->program, compiled_->program.read, variable);
}

bool ChatTemplate::AcceptsExtra(std::string_view variable) const {
  return !IsReserved(variable) && Flag(compiled_->program, compiled_->program.free, variable);
}

ChatTemplate::ContentForm ChatTemplate::content_form(std::string_view role) const {
  const auto found = std::find(kProbedRoles.begin(), kProbedRoles.end(), role);
  return found == kProbedRoles.end()
             ? ContentForm::kText
             : compiled_->forms[static_cast<size_t>(found - kProbedRoles.begin())];
}

const std::string& ChatTemplate::source() const { return compiled_->source; }
const std::vector<std::string>& ChatTemplate::warnings() const {
  return compiled_->program.warnings;
}

std::string TextBehindAnswer(std::string source, SpecialTokens tokens) {
  const auto compiled = ChatTemplate::Compile(std::move(source), std::move(tokens));
  if (!compiled.ok()) return "";
  ChatInput input;
  input.messages = {Message("user", "x"), Message("assistant", kAnswer)};
  input.add_generation_prompt = false;
  const auto prompt = compiled->Render(input, {});
  if (!prompt.ok()) return "";
  const std::string text = prompt->Text();
  const size_t answer = text.rfind(kAnswer);
  if (answer == std::string::npos) return "";
  const size_t end = text.find_first_not_of(" \t\r\n", answer + kAnswer.size());
  return end == std::string::npos ? "" : text.substr(end);
}

}  // namespace tutti::tokenizer
