// Harmony, the format of gpt-oss: messages in channels between special tokens.
//
//   <|channel|>analysis<|message|>REASONING<|end|>
//   <|start|>assistant<|channel|>commentary to=functions.NAME
//   <|constrain|>json<|message|>{...}<|call|>
//   <|start|>assistant<|channel|>final<|message|>TEXT<|return|>
//
// The prompt ends with <|start|>assistant. Source: OpenAI's harmony response format guide.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/output_parser.h"
#include "api/reasoning_filter.h"
#include "chat_template/tool_parser.h"
#include "chat_template/tool_structure.h"
#include "grammar/structure.h"

namespace tutti::chat_template {

// Splits a harmony text into reasoning, text and calls. One thread at a time.
//
// `mode` decides about messages in the channel "analysis": kSeparate makes them the event's
// reasoning, kHide drops them, kKeep leaves them in the text with the marks around them.
class HarmonyParser final : public api::OutputParser {
 public:
  HarmonyParser(std::shared_ptr<const ToolParserOptions> options, int choice,
                api::ReasoningMode mode = api::ReasoningMode::kSeparate);

  void Push(std::string_view delta, api::StreamEvent* event) override;
  bool inside_reasoning() const override { return body_ == Body::kReasoning; }
  void Finish(api::StreamEvent* event) override;

 private:
  enum class Body : uint8_t { kHeader, kReasoning, kText, kArguments };

  void TakeMark(std::string_view mark, api::StreamEvent* event);
  void TakePlain(std::string_view text, api::StreamEvent* event);
  void BeginBody(api::StreamEvent* event);

  const std::shared_ptr<const ToolParserOptions> options_;
  const int choice_;
  const api::ReasoningMode mode_;
  Body body_ = Body::kHeader;
  std::string held_;    // may be the beginning of a mark
  std::string header_;  // of the message that is being read
  int calls_ = 0;
  bool in_call_ = false;
  bool marked_ = false;  // a mark was read
};

// As ToolAnswer(). `tokens` holds the format's special tokens.
grammar::Structure HarmonyAnswer(const AnswerShape& shape, const SpecialTokenTexts& tokens);

}  // namespace tutti::chat_template
