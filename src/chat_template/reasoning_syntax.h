// ReasoningSyntax: the tags around the reasoning of each model family, as data. One table for the
// filter, the grammar and the budget. Harmony's channels are not in it (harmony.h).
//
// Constant; any thread. Sources: docs/tools.md names one for each row.
#pragma once

#include <span>
#include <string>
#include <string_view>

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

}  // namespace tutti::chat_template
