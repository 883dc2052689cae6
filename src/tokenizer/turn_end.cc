#include "tokenizer/turn_end.h"

#include <utility>

namespace tutti::tokenizer {
namespace {

using jinja::Value;

// A word that no template writes itself.
constexpr std::string_view kAnswer = "Zwq7";

ChatMessage Message(std::string role, std::string_view content) {
  ChatMessage message;
  message.role = std::move(role);
  message.content = Value::String(std::string(content));
  return message;
}

}  // namespace

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
