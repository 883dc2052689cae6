#include "gateway/prompt.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "api/names.h"
#include "api/validate.h"
#include "base/quote.h"
#include "chat_template/tool_prompt.h"
#include "tokenizer/jinja/value.h"
#include "tokenizer/vocabulary.h"

namespace tutti::gateway {
namespace {

using tokenizer::InfillTokens;

// llama.cpp's default names; plugins of editors expect them.
constexpr std::string_view kProjectLine = "myproject\n", kFileLine = "filename\n";
constexpr std::string_view kPlainSeparator = "\n\n--- snippet ---\n\n";

void Append(const std::vector<TokenId>& more, std::vector<TokenId>* ids) {
  ids->insert(ids->end(), more.begin(), more.end());
}

// The project's other files, and the beginning of the one with the hole.
void AppendFiles(const tokenizer::Tokenizer& tokenizer, const InfillTokens& tokens,
                 const std::vector<api::ContextFile>& files, std::vector<TokenId>* ids) {
  if (files.empty()) return;
  if (tokens.repository != kNoToken) {
    ids->push_back(tokens.repository);
    Append(tokenizer.EncodeContinuation(kProjectLine), ids);
  }
  for (const api::ContextFile& file : files) {
    std::string text;
    if (tokens.file != kNoToken) {
      ids->push_back(tokens.file);
      text = (file.name.empty() ? "tmp" : file.name) + "\n";
    } else {
      text = kPlainSeparator;
    }
    Append(tokenizer.EncodeContinuation(text + file.text), ids);
  }
  if (tokens.file == kNoToken) return;
  ids->push_back(tokens.file);
  Append(tokenizer.EncodeContinuation(kFileLine), ids);
}

Status CheckTexts(const api::TextPrompt& prompt) {
  RETURN_IF_ERROR(api::CheckUtf8(prompt.text, "prompt"));
  RETURN_IF_ERROR(api::CheckUtf8(*prompt.suffix, "suffix"));
  for (const api::ContextFile& file : prompt.files) {
    RETURN_IF_ERROR(api::CheckUtf8(file.name, "files"));
    RETURN_IF_ERROR(api::CheckUtf8(file.text, "files"));
  }
  return OkStatus();
}

using tokenizer::ChatTemplate;
using tokenizer::jinja::Value;

// A list of text parts, as clients of multimodal models send them.
Value PartsOf(const api::ChatMessage& message) {
  std::vector<Value> parts;
  size_t begin = 0;
  const std::vector<size_t> whole = {message.content.size()};
  for (const size_t end : message.part_ends.empty() ? whole : message.part_ends) {
    parts.push_back(
        Value::Dict({{"type", Value::String("text")},
                     {"text", Value::String(message.content.substr(begin, end - begin))}}));
    begin = end + 1;  // behind the line end that joins them
  }
  return Value::List(std::move(parts));
}

// In the form that the template reads: its own handling of parts where it has one.
Value ContentOf(const api::ChatMessage& message, const ChatTemplate& chat_template) {
  const auto form = chat_template.content_form(api::RoleName(message.role));
  const bool as_parts =
      form == ChatTemplate::ContentForm::kParts ||
      (form == ChatTemplate::ContentForm::kEither && message.part_ends.size() > 1);
  return as_parts ? PartsOf(message) : Value::String(message.content);
}

// Names of the template variable that switches thinking on or off.
bool IsThinkingSwitch(std::string_view name) {
  return name == "enable_thinking" || name == "thinking";
}

// The switch that the template reads, if it is the other one and `options` do not have it: clients
// send the name that the model they were written for has.
std::string_view NameInTemplate(std::string_view name, const Value& value, const Value& options,
                                const ChatTemplate& chat_template) {
  if (!IsThinkingSwitch(name) || !value.is_bool() || chat_template.AcceptsExtra(name)) return name;
  const std::string_view other = name == "thinking" ? "enable_thinking" : "thinking";
  const bool given = std::any_of(
      options.members().begin(), options.members().end(),
      [&](const auto& member) { return std::string_view(member.first.text().bytes()) == other; });
  return chat_template.AcceptsExtra(other) && !given ? other : name;
}

// Whether an option asks a model that cannot think not to: clients send that to every model.
bool AsksForNothing(std::string_view name, const Value& value, const ChatTemplate& chat_template) {
  return IsThinkingSwitch(name) && value.is_bool() && !value.bool_value() &&
         !chat_template.AcceptsExtra(name);
}

Status AddArguments(const std::string& arguments, const ChatTemplate& chat_template,
                    tokenizer::ChatInput* input) {
  if (arguments.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const Value options, tokenizer::jinja::ParseJson(arguments));
  if (!options.is_dict()) {
    return InvalidArgument("invalid_value", "chat_template_kwargs must be an object")
        .WithParam("chat_template_kwargs");
  }
  for (const auto& [name, value] : options.members()) {
    const std::string_view read =
        NameInTemplate(name.text().bytes(), value, options, chat_template);
    if (AsksForNothing(read, value, chat_template)) continue;
    input->extra.emplace_back(read, value);
  }
  return OkStatus();
}

bool UsesTools(const api::ChatPrompt& chat) {
  return !chat.tools.empty() ||
         std::any_of(chat.messages.begin(), chat.messages.end(), [](const api::ChatMessage& one) {
           return !one.tool_calls.empty() || one.role == api::Role::kTool;
         });
}

// The functions of a chat's calls by the ids of the calls: some templates print the name with a
// result. If a client reuses ids in each turn, the latest call before the result counts.
using FunctionNames = std::unordered_map<std::string_view, std::string_view>;

std::string NameOf(const api::ChatMessage& message, const FunctionNames& names) {
  if (message.role != api::Role::kTool || !message.name.empty()) return message.name;
  const auto called = names.find(message.tool_call_id);
  return called == names.end() ? "" : std::string(called->second);
}

Status AddTools(const chat_template::ToolSupport& support, const api::ChatPrompt& chat,
                tokenizer::ChatInput* input) {
  if (chat.tools.empty()) return OkStatus();
  ASSIGN_OR_RETURN(Value tools, chat_template::ToolValues(chat.tools));
  if (support.variable == "tools") {
    input->tools = std::move(tools);
  } else {
    input->extra.emplace_back(support.variable, std::move(tools));
  }
  return OkStatus();
}

// Adds the parts of a message other than its text.
Status AddCalls(const chat_template::ToolSupport& support, const api::ChatMessage& message,
                tokenizer::ChatMessage* out) {
  if (message.role == api::Role::kTool)
    out->tool_call_id = chat_template::HistoryId(*support.syntax, message.tool_call_id);
  if (message.tool_calls.empty()) return OkStatus();
  if (!support.writes_calls) {
    std::string text = message.content;
    if (!text.empty()) text += "\n";
    text += chat_template::WriteCalls(*support.syntax, message.tool_calls);
    out->content = Value::String(std::move(text));
    return OkStatus();
  }
  ASSIGN_OR_RETURN(out->tool_calls,
                   chat_template::ToolCallValues(*support.syntax, message.tool_calls));
  // Templates of models whose calls have no text test for none, as transformers passes it on.
  if (message.content.empty()) out->content = Value::None();
  return OkStatus();
}

Result<tokenizer::RenderedPrompt> Render(const tokenizer::ChatTemplate& chat_template,
                                         tokenizer::ChatInput input, int64_t now_unix_s) {
  Result<tokenizer::RenderedPrompt> rendered =
      chat_template.Render(input, {.now_unix_s = now_unix_s});
  if (rendered.ok()) return rendered;
  // Some templates cannot render None as content: try again with an empty string in its place.
  bool changed = false;
  for (tokenizer::ChatMessage& message : input.messages) {
    if (!message.content.is_none()) continue;
    message.content = Value::String("");
    changed = true;
  }
  if (!changed) return rendered;
  return chat_template.Render(input, {.now_unix_s = now_unix_s});
}

// `support`: null for a chat without tools, and for templates that know none.
Result<PreparedPrompt> PrepareChat(const ServedModel& model, const api::ChatPrompt& chat,
                                   const chat_template::ToolSupport* support, int64_t now_unix_s) {
  tokenizer::ChatInput input;
  if (support != nullptr) RETURN_IF_ERROR(AddTools(*support, chat, &input));
  FunctionNames names;
  for (const api::ChatMessage& message : chat.messages) {
    tokenizer::ChatMessage& out = input.messages.emplace_back();
    out.role = api::RoleName(message.role);
    out.content = ContentOf(message, *model.chat_template);
    out.name = NameOf(message, names);
    for (const api::ToolCall& call : message.tool_calls) names[call.id] = call.name;
    if (!message.reasoning.empty() && chat_template::IsHarmony(model.tools))
      out.extra.emplace_back("thinking", Value::String(message.reasoning));
    if (!message.reasoning.empty())
      out.extra.emplace_back("reasoning_content", Value::String(message.reasoning));
    if (support != nullptr) RETURN_IF_ERROR(AddCalls(*support, message, &out));
  }
  input.add_generation_prompt = chat.add_generation_prompt;
  input.continue_final_message = chat.continue_final_message;
  RETURN_IF_ERROR(AddArguments(chat.template_arguments, *model.chat_template, &input));
  ASSIGN_OR_RETURN(const tokenizer::RenderedPrompt rendered,
                   Render(*model.chat_template, std::move(input), now_unix_s));
  std::vector<tokenizer::TextSegment> segments;
  for (const tokenizer::PromptSegment& segment : rendered.segments) {
    segments.push_back({segment.text, segment.trusted});
  }
  return PreparedPrompt{model.tokenizer->Encode(segments), rendered.Text()};
}

Result<PreparedPrompt> Prepare(const ServedModel& model, const api::ChatPrompt& chat,
                               int64_t now_unix_s) {
  if (!model.chat_template.has_value()) {
    return InvalidArgument("invalid_value", "model " + model.info.id +
                                                " has no chat template; send a text prompt instead")
        .WithParam("messages");
  }
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const std::string param = api::ElementPath("messages", i);
    RETURN_IF_ERROR(api::CheckUtf8(chat.messages[i].content, param + ".content"));
    RETURN_IF_ERROR(api::CheckUtf8(chat.messages[i].name, param + ".name"));
  }
  if (!UsesTools(chat)) return PrepareChat(model, chat, nullptr, now_unix_s);
  if (!chat.tools.empty() && !(model.tools && model.tools->takes_tools)) {
    return InvalidArgument("unsupported_parameter",
                           "tools are off for model " + model.info.id +
                               "; start the server with --tool-format auto")
        .WithParam("tools");
  }
  if (!model.tools) return PrepareChat(model, chat, nullptr, now_unix_s);
  const chat_template::ToolSupport& support = *model.tools;
  if (support.reads_tools()) return PrepareChat(model, chat, &support, now_unix_s);
  const api::ChatPrompt described = chat_template::DescribeTools(*support.syntax, chat);
  if (support.writes_calls) return PrepareChat(model, described, &support, now_unix_s);
  return PrepareChat(model, chat_template::WriteToolsAsText(*support.syntax, described), nullptr,
                     now_unix_s);
}

Result<PreparedPrompt> Prepare(const ServedModel& model, const api::TextPrompt& text, int64_t) {
  if (text.suffix.has_value()) {
    ASSIGN_OR_RETURN(std::vector<TokenId> ids, EncodeInfill(model, text));
    return PreparedPrompt{std::move(ids), ""};
  }
  RETURN_IF_ERROR(api::CheckUtf8(text.text, "prompt"));
  return PreparedPrompt{model.tokenizer->Encode(text.text, {.add_special = text.add_special,
                                                            .parse_special = text.parse_special}),
                        text.text};
}

Result<PreparedPrompt> Prepare(const ServedModel& model, const api::TokenPrompt& prompt, int64_t) {
  RETURN_IF_ERROR(api::CheckTokens(prompt.tokens, model.tokenizer->vocabulary_size(), "prompt"));
  return PreparedPrompt{prompt.tokens, ""};
}

}  // namespace

Result<std::vector<TokenId>> EncodeInfill(const ServedModel& model, const api::TextPrompt& prompt) {
  RETURN_IF_ERROR(CheckTexts(prompt));
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  if (!tokenizer.vocabulary().infill().has_value()) {
    return InvalidArgument("unsupported_parameter",
                           "model " + Quote(model.info.id, 64) +
                               " has no fill-in-the-middle tokens; send the prompt alone")
        .WithParam("suffix");
  }
  const InfillTokens& tokens = *tokenizer.vocabulary().infill();
  std::vector<TokenId> ids;
  if (prompt.add_special) ids = tokenizer.LeadingTokens();
  AppendFiles(tokenizer, tokens, prompt.files, &ids);
  const auto append_prefix = [&] {
    ids.push_back(tokens.prefix);
    Append(tokenizer.Encode(prompt.text, {.add_special = false}), &ids);
  };
  const auto append_suffix = [&] {
    ids.push_back(tokens.suffix);
    Append(tokenizer.EncodeContinuation(*prompt.suffix), &ids);
  };
  if (tokens.suffix_first) {
    append_suffix();
    append_prefix();
  } else {
    append_prefix();
    append_suffix();
  }
  if (tokens.middle != kNoToken) ids.push_back(tokens.middle);
  return ids;
}

std::vector<TokenId> EndTokens(const ServedModel& model, const api::Prompt& prompt) {
  const tokenizer::Vocabulary& vocabulary = model.tokenizer->vocabulary();
  std::vector<TokenId> ends = vocabulary.eog_tokens();
  const auto* const text = std::get_if<api::TextPrompt>(&prompt);
  if (text != nullptr && text->suffix.has_value() && vocabulary.infill().has_value())
    Append(vocabulary.infill()->All(), &ends);
  return ends;
}

std::string PromptParam(const api::Prompt& prompt) {
  return std::holds_alternative<api::ChatPrompt>(prompt) ? "messages" : "prompt";
}

Result<PreparedPrompt> PreparePrompt(const ServedModel& model, const api::Prompt& prompt,
                                     int64_t now_unix_s, std::optional<int> keep_last) {
  ASSIGN_OR_RETURN(
      PreparedPrompt prepared,
      std::visit([&](const auto& kind) { return Prepare(model, kind, now_unix_s); }, prompt));
  if (prepared.tokens.empty()) {
    return InvalidArgument("empty_prompt", "prompt is empty after tokenizing")
        .WithParam(PromptParam(prompt));
  }
  if (keep_last.has_value() && prepared.tokens.size() > static_cast<size_t>(*keep_last)) {
    prepared.tokens.erase(prepared.tokens.begin(), prepared.tokens.end() - *keep_last);
  }
  return prepared;
}

}  // namespace tutti::gateway
