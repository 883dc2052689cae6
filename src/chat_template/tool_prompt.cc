#include "chat_template/tool_prompt.h"

#include <algorithm>

#include "chat_template/tool_arguments.h"
#include "tokenizer/jinja/value.h"

namespace tutti::chat_template {
namespace {

using tokenizer::jinja::Value;

// Whether a call of an earlier turn appears in the prompt.
bool WritesCalls(const ToolSyntax& syntax, const tokenizer::ChatTemplate& chat_template) {
  constexpr std::string_view kName = "probe_function", kValue = "probe-value";
  const std::vector<api::ToolCall> calls = {
      {.id = "probe0001", .name = std::string(kName), .arguments = R"({"probe":"probe-value"})"}};
  Result<Value> values = ToolCallValues(syntax, calls);
  if (!values.ok()) return false;
  tokenizer::ChatInput input;
  input.messages = {{.role = "user", .content = Value::String("filler")},
                    {.role = "assistant", .content = Value::String(""), .tool_calls = *values},
                    {.role = "tool",
                     .content = Value::String("filler"),
                     .name = std::string(kName),
                     .tool_call_id = "probe0001"}};
  constexpr tokenizer::RenderOptions kCheap{.max_steps = 50'000,
                                            .max_output_bytes = size_t{1} << 20};
  const auto rendered = chat_template.Render(input, kCheap);
  if (!rendered.ok()) return false;
  const std::string text = rendered->Text();
  return text.find(kName) != std::string::npos && text.find(kValue) != std::string::npos;
}

std::string ArgumentsOf(const api::ToolCall& call) {
  return call.arguments.empty() ? "{}" : call.arguments;
}

// Only constants differ between JSON and Python on the top level.
std::string PythonicValue(std::string_view json) {
  if (json == "true") return "True";
  if (json == "false") return "False";
  if (json == "null") return "None";
  return std::string(json);
}

std::string JsonCallHead(const ToolSyntax& syntax, size_t index, std::string_view name) {
  std::string text = "{";
  if (!syntax.count_key.empty())
    text += "\"" + std::string(syntax.count_key) + "\": \"" + std::to_string(index) + "\", ";
  return text + "\"" + std::string(syntax.name_key) + "\": " + JsonString(name) + ", \"" +
         std::string(syntax.arguments_key) + "\": ";
}

std::string WriteCall(const ToolSyntax& syntax, const api::ToolCall& call, size_t index) {
  const std::string begin(syntax.call_begin), end(syntax.call_end);
  const std::string arguments = ArgumentsOf(call);  // members are views of it
  switch (syntax.call) {
    case ToolSyntax::Call::kJson:
      return begin + JsonCallHead(syntax, index, call.name) + arguments + "}" + end;
    case ToolSyntax::Call::kNamed:
      return begin + std::string(syntax.name_begin) + call.name +
             (syntax.numbered ? ":" + std::to_string(index) : "") + std::string(syntax.name_end) +
             arguments + end;
    case ToolSyntax::Call::kTagged: {
      std::string text = begin + call.name + std::string(syntax.name_end);
      for (const JsonMember& member : JsonMembers(arguments)) {
        text += std::string(syntax.key_begin) + member.key + std::string(syntax.key_end) +
                JsonText(member.value).value_or(std::string(member.value)) +
                std::string(syntax.value_end);
      }
      return text + end;
    }
    case ToolSyntax::Call::kPythonic: {
      std::string text = call.name + "(";
      for (const JsonMember& member : JsonMembers(arguments)) {
        if (!text.ends_with('(')) text += ", ";
        text += member.key + "=" + PythonicValue(member.value);
      }
      return text + ")";
    }
    case ToolSyntax::Call::kBare:
      return begin + call.name + WriteBare(syntax, arguments) + end;
    case ToolSyntax::Call::kHarmony:
      return "<|channel|>commentary to=functions." + call.name + " <|constrain|>json<|message|>" +
             arguments;
  }
  return {};
}

constexpr std::string_view kBefore = "You can call these functions:\n";
constexpr std::string_view kAfter =
    "Write one such block for each call. Results come back in the next message. If no function "
    "helps, answer in plain text.";

std::string SystemText(const ToolSyntax& syntax, const api::ChatPrompt& chat) {
  std::string text(kBefore);
  for (const api::Tool& tool : chat.tools) text += ToolDefinition(tool) + "\n";
  text += "\nTo call a function, write this and nothing behind it:\n";
  const bool by_key = syntax.call == ToolSyntax::Call::kTagged ||
                      syntax.call == ToolSyntax::Call::kPythonic ||
                      syntax.call == ToolSyntax::Call::kBare;
  const char* const arguments = by_key ? R"({"KEY": "VALUE"})" : "{ARGUMENTS}";
  text += WriteCalls(syntax, {{.id = "", .name = "NAME", .arguments = arguments}}) + "\n";
  text += kAfter;
  if (chat.tool_choice.kind == api::ToolChoice::Kind::kRequired)
    text += " Now you must call a function.";
  if (chat.tool_choice.kind == api::ToolChoice::Kind::kNamed)
    text += " Now you must call " + chat.tool_choice.name + ".";
  return text;
}

}  // namespace

std::optional<ToolSupport> FindToolSupport(std::string_view format,
                                           const tokenizer::ChatTemplate& chat_template,
                                           const tokenizer::Vocabulary& vocabulary) {
  ToolSupport support;
  support.takes_tools = format != "none";
  support.syntax = format == "auto" || format == "none" ? &DetectToolSyntax(chat_template)
                                                        : FindToolSyntax(format);
  if (support.syntax == nullptr) return std::nullopt;
  support.reasoning = DetectReasoning(chat_template);
  if (support.syntax != &GenericSyntax()) {
    // SmolLM3 has a variable of its own.
    for (const char* const variable : {"tools", "xml_tools"}) {
      if (chat_template.Reads(variable)) support.variable = variable;
    }
    support.writes_calls = WritesCalls(*support.syntax, chat_template);
  }
  SpecialTokenTexts specials;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.IsSpecial(id)) specials.emplace_back(vocabulary.Text(id), id);
  }
  support.marker_tokens = MarkerTokens(*support.syntax, specials);
  if (support.reasoning != nullptr)
    support.reasoning_tokens = ReasoningTokens(*support.reasoning, specials);
  return support;
}

std::string ToolDefinition(const api::Tool& tool) {
  std::string text = "{\"name\": " + JsonString(tool.name);
  if (!tool.description.empty()) text += ", \"description\": " + JsonString(tool.description);
  if (!tool.parameters.empty()) text += ", \"parameters\": " + tool.parameters;
  return text + "}";
}

std::string WriteCalls(const ToolSyntax& syntax, const std::vector<api::ToolCall>& calls) {
  std::string text(syntax.begin);
  if (syntax.list) text += syntax.list_begin;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) text += syntax.separator;
    text += WriteCall(syntax, calls[i], i);
  }
  if (syntax.list) text += syntax.list_end;
  return text + std::string(syntax.end);
}

api::ChatPrompt DescribeTools(const ToolSyntax& syntax, api::ChatPrompt chat) {
  if (chat.tools.empty()) return chat;
  std::string text = SystemText(syntax, chat);
  chat.tools.clear();
  if (!chat.messages.empty() && chat.messages.front().role == api::Role::kSystem) {
    api::ChatMessage& system = chat.messages.front();
    system.content += (system.content.empty() ? "" : "\n\n") + text;
    system.part_ends.clear();
  } else {
    chat.messages.insert(chat.messages.begin(),
                         {.role = api::Role::kSystem, .content = std::move(text), .name = ""});
  }
  return chat;
}

api::ChatPrompt WriteToolsAsText(const ToolSyntax& syntax, const api::ChatPrompt& chat) {
  api::ChatPrompt out = chat;
  out.messages.clear();
  bool after_result = false;
  for (api::ChatMessage message : chat.messages) {
    if (message.role == api::Role::kTool) {
      std::string result = "<tool_response>\n" + message.content + "\n</tool_response>";
      if (after_result) {
        out.messages.back().content += "\n" + result;
        continue;
      }
      message = {.role = api::Role::kUser, .content = std::move(result), .name = ""};
      after_result = true;
    } else {
      after_result = false;
    }
    if (!message.tool_calls.empty()) {
      if (!message.content.empty()) message.content += "\n";
      message.content += WriteCalls(syntax, message.tool_calls);
      message.tool_calls.clear();
      message.part_ends.clear();
    }
    out.messages.push_back(std::move(message));
  }
  return out;
}

Result<Value> ToolValues(const std::vector<api::Tool>& tools) {
  std::vector<Value> list;
  for (const api::Tool& tool : tools) {
    std::vector<Value::Member> function = {{"name", Value::String(tool.name)}};
    // Templates print a missing description as Python's None.
    function.emplace_back("description", Value::String(tool.description));
    Result<Value> parameters = tokenizer::jinja::ParseJson(
        tool.parameters.empty() ? R"({"type":"object","properties":{}})" : tool.parameters);
    if (!parameters.ok())
      return std::move(parameters).status().WithParam(tool.param + ".parameters");
    function.emplace_back("parameters", *std::move(parameters));
    list.push_back(Value::Dict(
        {{"type", Value::String("function")}, {"function", Value::Dict(std::move(function))}}));
  }
  return Value::List(std::move(list));
}

Result<Value> ToolCallValues(const ToolSyntax& syntax, const std::vector<api::ToolCall>& calls) {
  std::vector<Value> list;
  for (const api::ToolCall& call : calls) {
    // Templates read arguments as an object. Truncated arguments of a call are not valid JSON.
    Value arguments = Value::Dict({});
    if (IsJsonObject(call.arguments)) {
      ASSIGN_OR_RETURN(arguments, tokenizer::jinja::ParseJson(call.arguments));
    }
    list.push_back(Value::Dict({{"id", Value::String(HistoryId(syntax, call.id))},
                                {"type", Value::String("function")},
                                {"function", Value::Dict({{"name", Value::String(call.name)},
                                                          {"arguments", std::move(arguments)}})}}));
  }
  return Value::List(std::move(list));
}

std::string HistoryId(const ToolSyntax& syntax, std::string_view id) {
  const bool fits =
      id.size() == 9 && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      });
  if (syntax.id != ToolSyntax::Id::kNine || fits) return std::string(id);
  // Equal ids stay equal (FNV-1a), as calls and results name each other by them.
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string short_id;
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) short_id += kDigits[hash % kDigits.size()];
  return short_id;
}

}  // namespace tutti::chat_template
