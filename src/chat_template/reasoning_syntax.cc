#include "chat_template/reasoning_syntax.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "grammar/json_text.h"

namespace tutti::chat_template {
namespace {

using grammar::Structure;

constexpr std::array kReasoningSyntaxes = {
    // Qwen 3, DeepSeek R1 and V3.1, SmolLM3, GLM, MiniMax M2 and most others.
    ReasoningSyntax{
        .name = "think", .open = "<think>", .close = "</think>", .forced_close = "\n</think>\n\n"},
    // Magistral, Ministral 3.
    ReasoningSyntax{
        .name = "mistral", .open = "[THINK]", .close = "[/THINK]", .forced_close = "[/THINK]"},
    // Command R7B, Command A.
    ReasoningSyntax{.name = "command",
                    .open = "<|START_THINKING|>",
                    .close = "<|END_THINKING|>",
                    .answer_open = "<|START_RESPONSE|>",
                    .answer_close = "<|END_RESPONSE|>",
                    .forced_close = "<|END_THINKING|>"},
    // Command A Plus.
    ReasoningSyntax{.name = "command-4",
                    .open = "<|START_THINKING|>",
                    .close = "<|END_THINKING|>",
                    .answer_open = "<|START_TEXT|>",
                    .answer_close = "<|END_TEXT|>",
                    .forced_close = "<|END_THINKING|>"},
    // Gemma 4. The channel's name is part of the tag.
    ReasoningSyntax{.name = "gemma",
                    .open = "<|channel>thought\n",
                    .close = "<channel|>",
                    .forced_close = "\n<channel|>"},
    ReasoningSyntax{.name = "seed",
                    .open = "<seed:think>",
                    .close = "</seed:think>",
                    .forced_close = "</seed:think>"},
    // MiniMax M3.
    ReasoningSyntax{.name = "minimax",
                    .open = "<mm:think>",
                    .close = "</mm:think>",
                    .forced_close = "</mm:think>"},
    ReasoningSyntax{.name = "apertus",
                    .open = "<|inner_prefix|>",
                    .close = "<|inner_suffix|>",
                    .forced_close = "<|inner_suffix|>"},
    // Granite 3.3.
    ReasoningSyntax{.name = "granite",
                    .open = "<think>",
                    .close = "</think>",
                    .answer_open = "<response>",
                    .answer_close = "</response>",
                    .forced_close = "</think>\n"},
    // Granite 3.2.
    ReasoningSyntax{.name = "granite-3.2",
                    .open = "Here is my thought process:",
                    .close = "Here is my response:",
                    .forced_close = "\n\nHere is my response:\n\n"},
    // Hunyuan A13B.
    ReasoningSyntax{.name = "hunyuan",
                    .open = "<think>",
                    .close = "</think>",
                    .answer_open = "<answer>",
                    .answer_close = "</answer>",
                    .forced_close = "\n</think>\n"},
};

// Strings that identify a template's family, the most specific first.
struct ReasoningClue {
  std::string_view text;
  std::string_view and_text;  // empty: `text` alone is enough
  std::string_view name;
};
constexpr std::array kReasoningClues = {
    ReasoningClue{"<|END_THINKING|>", "<|START_TEXT|>", "command-4"},
    ReasoningClue{"<|END_THINKING|>", "", "command"},
    ReasoningClue{"<|channel>thought", "<channel|>", "gemma"},
    ReasoningClue{"[/THINK]", "", "mistral"},
    ReasoningClue{"</seed:think>", "", "seed"},
    ReasoningClue{"</mm:think>", "", "minimax"},
    ReasoningClue{"<|inner_suffix|>", "", "apertus"},
    ReasoningClue{"Here is my response:", "Here is my thought process:", "granite-3.2"},
    ReasoningClue{"</think>", "</response>", "granite"},
    ReasoningClue{"</think>", "</answer>", "hunyuan"},
    ReasoningClue{"</think>", "", "think"},
};

}  // namespace

std::span<const ReasoningSyntax> ReasoningSyntaxes() { return kReasoningSyntaxes; }

const ReasoningSyntax* DetectReasoning(const tokenizer::ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  for (const ReasoningClue& clue : kReasoningClues) {
    if (source.find(clue.text) == std::string::npos ||
        source.find(clue.and_text) == std::string::npos)
      continue;
    return std::find_if(kReasoningSyntaxes.begin(), kReasoningSyntaxes.end(),
                        [&](const ReasoningSyntax& one) { return one.name == clue.name; });
  }
  return nullptr;
}

SpecialTokenTexts ReasoningTokens(const ReasoningSyntax& syntax, const SpecialTokenTexts& all) {
  return TokensIn({syntax.open, syntax.close, syntax.answer_open, syntax.answer_close}, all);
}

AnswerTags AnswerTagsOf(const ReasoningSyntax& syntax, const SpecialTokenTexts& tokens) {
  return {.open = std::string(syntax.answer_open),
          .close = std::string(syntax.answer_close),
          .tokens = tokens};
}

Structure BehindReasoning(const ReasoningSyntax& syntax, const SpecialTokenTexts& tokens,
                          Structure answer, bool inside, bool keep_space) {
  std::vector<Structure> reasoning;
  if (!inside) reasoning.push_back(MarkerStructure(syntax.open, tokens));
  Structure free{.kind = Structure::Kind::kFreeText};
  AddStop(syntax.close, tokens, &free);
  reasoning.push_back(std::move(free));
  reasoning.push_back(MarkerStructure(syntax.close, tokens));
  if (!keep_space) reasoning.push_back(TagSpace());
  Structure whole = Structure::Sequence(std::move(reasoning));
  if (!inside) whole = Structure::Optional(std::move(whole));
  return Structure::Sequence({std::move(whole), std::move(answer)});
}

std::string TagBytes(std::string_view tag, const SpecialTokenTexts& tokens) {
  std::string bytes;
  while (!tag.empty()) {
    const auto token = std::find_if(tokens.begin(), tokens.end(),
                                    [&](const auto& one) { return tag.starts_with(one.first); });
    if (token == tokens.end()) {
      bytes += tag.front();
      tag.remove_prefix(1);
    } else {
      bytes += grammar::SpecialTokenBytes(token->second);
      tag.remove_prefix(token->first.size());
    }
  }
  return bytes;
}

AnswerTagParser::AnswerTagParser(Tags tags, std::unique_ptr<api::OutputParser> inner)
    : tags_(std::move(tags)),
      inner_(std::move(inner)),
      stage_(tags_.opened ? Stage::kInside : Stage::kBefore) {}

std::string_view AnswerTagParser::awaited() const {
  if (stage_ == Stage::kBefore) return tags_.open;
  return stage_ == Stage::kInside ? tags_.close : std::string_view();
}

void AnswerTagParser::Push(std::string_view delta, api::StreamEvent* event) {
  std::string text;
  for (const char c : delta) Take(c, &text);
  Forward(text, event);
}

void AnswerTagParser::Take(char c, std::string* text) {
  held_ += c;
  while (!held_.empty() && !awaited().starts_with(held_)) {
    Emit(held_.front(), text);
    held_.erase(0, 1);
  }
  if (held_.empty() || held_ != awaited()) return;
  if (tags_.keep_space && stage_ == Stage::kInside) *text += std::exchange(space_, {});
  // Text after a closing tag shows that the tag was part of the text. After the markers of tool
  // calls the tag is known to be one.
  if (stage_ == Stage::kInside && inner_ == nullptr) closing_ = space_ + held_;
  held_.clear();
  space_.clear();
  behind_tag_ = stage_ != Stage::kBefore || !tags_.keep_space;
  stage_ = stage_ == Stage::kBefore ? Stage::kInside : Stage::kAfter;
}

void AnswerTagParser::Emit(char c, std::string* text) {
  if (!closing_.empty()) {
    closing_ += c;
    if (grammar::IsJsonSpace(c)) return;
    behind_tag_ = false;
    *text += std::exchange(closing_, {});
    stage_ = Stage::kInside;
    return;
  }
  if (grammar::IsJsonSpace(c) && stage_ != Stage::kPlain) {
    if (!behind_tag_) space_ += c;
    return;
  }
  behind_tag_ = false;
  if (stage_ == Stage::kBefore) stage_ = Stage::kPlain;
  *text += std::exchange(space_, {});
  *text += c;
}

void AnswerTagParser::Forward(std::string_view text, api::StreamEvent* event) {
  if (inner_ != nullptr) {
    inner_->Push(text, event);
  } else {
    event->text += text;
  }
}

void AnswerTagParser::Finish(api::StreamEvent* event) {
  std::string text;
  for (const char c : std::exchange(held_, {})) Emit(c, &text);
  if (stage_ != Stage::kAfter) text += std::exchange(space_, {});
  Forward(text, event);
  if (inner_ != nullptr) inner_->Finish(event);
}

}  // namespace tutti::chat_template
