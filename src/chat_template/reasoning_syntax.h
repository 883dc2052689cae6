// ReasoningSyntax: the tags around the reasoning of each model family, as data. One table for the
// filter, the grammar and the budget. Harmony's channels are not in it (harmony.h). And the parser
// that takes the tags around an answer out of its text.
//
// The table is constant; any thread. Sources: docs/tools.md names one for each row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/output_parser.h"
#include "api/types.h"
#include "chat_template/tool_structure.h"
#include "grammar/structure.h"
#include "tokenizer/chat_template.h"

namespace tutti::chat_template {

struct ReasoningSyntax {
  std::string_view name;
  // Around the reasoning. Some are special tokens of the vocabulary, some are plain text.
  std::string_view open, close;
  // Around the answer that follows, and no part of it; empty: the answer has no tags.
  std::string_view answer_open = {}, answer_close = {};
  // The text that ends reasoning whose budget is spent: `close` with the white space around it that
  // the family's templates write.
  std::string_view forced_close;
};

std::span<const ReasoningSyntax> ReasoningSyntaxes();

// Null: the template shows no tags that are known.
const ReasoningSyntax* DetectReasoning(const tokenizer::ChatTemplate& chat_template);

// The special tokens among `all` that occur in the tags.
SpecialTokenTexts ReasoningTokens(const ReasoningSyntax& syntax, const SpecialTokenTexts& all);

// The tags of the answer alone. `tokens`: of ReasoningTokens().
AnswerTags AnswerTagsOf(const ReasoningSyntax& syntax, const SpecialTokenTexts& tokens);

// Reasoning, which may be missing unless the prompt has begun it (`inside`), then `answer`, with
// white space between them unless `keep_space`: then white space belongs to the answer.
grammar::Structure BehindReasoning(const ReasoningSyntax& syntax, const SpecialTokenTexts& tokens,
                                   grammar::Structure answer, bool inside, bool keep_space);

// A tag as the grammar sees it: the bytes of its text and of its special tokens.
std::string TagBytes(std::string_view tag, const SpecialTokenTexts& tokens);

// AnswerTagParser: takes the tags around an answer out of its text while it streams, such as
// <response> and </response>, and the white space at their sides.
//
//   kBefore --open--> kInside --close--> kAfter
//      |
//      +--any other text--> kPlain
//
// An answer that does not begin with the opening tag is passed on unchanged. A closing tag that is
// followed by text is itself text, and the answer continues, since a JSON string may contain it.
// One object for each answer; one thread at a time.
class AnswerTagParser final : public api::OutputParser {
 public:
  struct Tags {
    std::string open, close;  // not empty
    bool opened = false;      // the prompt ends within the answer
    // White space at the tags' inner sides belongs to the answer.
    bool keep_space = false;
  };
  // `inner` reads the text between the tags; null: it is passed on as text.
  AnswerTagParser(Tags tags, std::unique_ptr<api::OutputParser> inner);

  void Push(std::string_view delta, api::StreamEvent* event) override;
  void Finish(api::StreamEvent* event) override;

 private:
  enum class Stage : uint8_t { kBefore, kInside, kAfter, kPlain };

  std::string_view awaited() const;
  void Take(char c, std::string* text);
  void Emit(char c, std::string* text);
  void Forward(std::string_view text, api::StreamEvent* event);

  const Tags tags_;
  const std::unique_ptr<api::OutputParser> inner_;
  Stage stage_;
  bool behind_tag_ = false;  // nothing but white space since
  std::string held_;         // a proper beginning of the awaited tag
  std::string space_;        // white space that a tag would drop
  std::string closing_;      // the closing tag with the white space around it, at the end so far
};

}  // namespace tutti::chat_template
