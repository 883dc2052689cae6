#include "gateway/prompt.h"

#include "api/role.h"
#include "api/validate.h"

namespace tutti::gateway {
namespace {

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
    out.content = tokenizer::jinja::Value::String(message.content);
    out.name = message.name;
  }
  input.add_generation_prompt = chat.add_generation_prompt;
  input.continue_final_message = chat.continue_final_message;
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
