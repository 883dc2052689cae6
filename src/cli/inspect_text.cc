#include "cli/inspect_text.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/quote.h"
#include "chat_template/tool_syntax.h"
#include "tokenizer/chat_template.h"

namespace tutti::cli {
namespace {

std::string_view KindName(tokenizer::ModelKind kind) {
  switch (kind) {
    case tokenizer::ModelKind::kByteBpe:
      return "byte-level BPE";
    case tokenizer::ModelKind::kCharacterBpe:
      return "BPE over characters";
    case tokenizer::ModelKind::kSentencePiece:
      return "SentencePiece BPE";
    case tokenizer::ModelKind::kWordPiece:
      return "WordPiece";
    case tokenizer::ModelKind::kUnigram:
      return "unigram";
  }
  return "";
}

std::string TemplateText(const std::string& source) {
  if (source.empty()) return "none: the model continues text, and a chat request is refused";
  const auto compiled = tokenizer::ChatTemplate::Compile(source, {});
  if (!compiled.ok()) return "cannot be used: " + compiled.status().message();
  std::string text = fmt::format("{} bytes", source.size());
  text += fmt::format(", tool calls as {}", chat_template::DetectToolSyntax(*compiled).name);
  for (const char* option : {"enable_thinking", "thinking", "reasoning_effort"})
    if (compiled->AcceptsExtra(option)) text += fmt::format(", option {}", option);
  return text;
}

// The marks in the order of a prompt.
std::string InfillText(const tokenizer::Vocabulary& vocabulary) {
  if (!vocabulary.infill().has_value()) return "no";
  const tokenizer::InfillTokens& tokens = *vocabulary.infill();
  const auto shown = [&](TokenId id) { return Quote(vocabulary.Text(id), 40); };
  std::string text = "yes, " + shown(tokens.suffix_first ? tokens.suffix : tokens.prefix) + " " +
                     shown(tokens.suffix_first ? tokens.prefix : tokens.suffix);
  if (tokens.middle != kNoToken) text += " " + shown(tokens.middle);
  return text;
}

std::string EndsText(const tokenizer::Vocabulary& vocabulary) {
  constexpr size_t kShown = 8;
  const auto& ends = vocabulary.eog_tokens();
  std::string text;
  for (size_t i = 0; i < ends.size() && i < kShown; ++i)
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", ends[i], Quote(vocabulary.Text(ends[i]), 40));
  if (ends.size() > kShown) text += fmt::format(" and {} more", ends.size() - kShown);
  return text.empty() ? "none: answers end at their limit" : text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> TextFacts(
    const tokenizer::Tokenizer& tokenizer, const model::GenerationDefaults& generation) {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  const std::string pre = vocabulary.pre().empty() ? "" : ", split as " + Quote(vocabulary.pre());
  std::string sampling = generation.empty() ? "the file has no defaults" : generation.Text();
  if (!generation.source.empty()) sampling += " (" + generation.source + ")";
  return {{"tokenizer",
           fmt::format("{}, {} tokens{}", KindName(vocabulary.kind()), vocabulary.size(), pre)},
          {"chat_template", TemplateText(tokenizer.chat_template())},
          {"ends", EndsText(vocabulary)},
          {"fill_in_the_middle", InfillText(vocabulary)},
          {"sampling", std::move(sampling)}};
}

void PrintTextFacts(const std::vector<std::pair<std::string, std::string>>& facts) {
  for (const auto& [name, value] : facts) {
    std::string label = name;
    for (char& c : label) c = c == '_' ? ' ' : c;
    std::printf("%-19s %s\n", (label + ":").c_str(), value.c_str());
  }
}

}  // namespace tutti::cli
