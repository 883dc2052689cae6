#include "gateway/prompt.h"

#include "api/role.h"
#include "api/validate.h"
#include "tokenizer/jinja/json.h"

namespace tutti::gateway {
namespace {

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

// Whether an option asks a model that cannot think not to: clients send that to every model.
bool AsksForNothing(std::string_view name, const Value& value, const ChatTemplate& chat_template) {
  return (name == "enable_thinking" || name == "thinking") && value.is_bool() &&
         !value.bool_value() && !chat_template.AcceptsExtra(name);
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
    if (AsksForNothing(name.text().bytes(), value, chat_template)) continue;
    input->extra.emplace_back(name.text().bytes(), value);
  }
  return OkStatus();
}

Result<PreparedPrompt> Prepare(const ServedModel& model, const api::ChatPrompt& chat,
                               int64_t now_unix_s) {
  if (!model.chat_template.has_value()) {
    return InvalidArgument("invalid_value", "model " + model.info.id +
                                                " has no chat template; send a text prompt instead")
        .WithParam("messages");
  }
  tokenizer::ChatInput input;
  for (const api::ChatMessage& message : chat.messages) {
    const std::string param = "messages[" + std::to_string(input.messages.size()) + "]";
    RETURN_IF_ERROR(api::CheckUtf8(message.content, param + ".content"));
    RETURN_IF_ERROR(api::CheckUtf8(message.name, param + ".name"));
    tokenizer::ChatMessage& out = input.messages.emplace_back();
    out.role = api::RoleName(message.role);
    out.content = ContentOf(message, *model.chat_template);
    out.name = message.name;
  }
  input.add_generation_prompt = chat.add_generation_prompt;
  input.continue_final_message = chat.continue_final_message;
  RETURN_IF_ERROR(AddArguments(chat.template_arguments, *model.chat_template, &input));
  ASSIGN_OR_RETURN(const tokenizer::RenderedPrompt rendered,
                   model.chat_template->Render(input, {.now_unix_s = now_unix_s}));
  std::vector<tokenizer::TextSegment> segments;
  for (const tokenizer::PromptSegment& segment : rendered.segments) {
    segments.push_back({segment.text, segment.trusted});
  }
  return PreparedPrompt{model.tokenizer->Encode(segments), rendered.Text()};
}

Result<PreparedPrompt> Prepare(const ServedModel& model, const api::TextPrompt& text, int64_t) {
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

std::string PromptParam(const api::Prompt& prompt) {
  return std::holds_alternative<api::ChatPrompt>(prompt) ? "messages" : "prompt";
}

Result<PreparedPrompt> PreparePrompt(const ServedModel& model, const api::Prompt& prompt,
                                     int64_t now_unix_s, std::optional<int> keep_last) {
  ASSIGN_OR_RETURN(
      PreparedPrompt prepared,
      std::visit([&](const auto& kind) { return Prepare(model, kind, now_unix_s); }, prompt));
  if (prepared.tokens.empty()) {
    return InvalidArgument("empty_prompt", "the prompt holds no token")
        .WithParam(PromptParam(prompt));
  }
  if (keep_last.has_value() && prepared.tokens.size() > static_cast<size_t>(*keep_last)) {
    prepared.tokens.erase(prepared.tokens.begin(), prepared.tokens.end() - *keep_last);
  }
  return prepared;
}

}  // namespace tutti::gateway
