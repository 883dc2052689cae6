// LexicalForm: canonical words of a question. The semantic cache compares these forms, because
// similar vectors do not prove equal meaning. Pure; any thread; linear in the text.
//
// Vectors do not separate "open by default" from "closed by default" (0.98), 15 mg from 50 mg, or
// "from A to B" from "from B to A". So two texts are the same here only if their words are, in
// order, after politeness, articles, contractions, spelling variants and the frames of questions
// are removed; and they differ if a number, unit, quotation, symbol, name, negation or antonym
// differs. All other pairs are left to the verifier. The word lists are English; texts in other
// languages keep all words, so that equal means equal except for case and punctuation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cache {

struct LexicalForm {
  std::vector<std::string> words;   // in order, canonical
  std::vector<std::string> strict;  // numbers, symbols and quotations among them, in order
  std::vector<std::string> names;   // words written with a capital within a sentence, sorted
  int negations = 0;
};

// Longer texts have an empty form, which is never equal to another one.
inline constexpr size_t kMaxFormBytes = 16 << 10;
LexicalForm FormOf(std::string_view text);

// The form as one text, which the encoder gets instead of the original, so that punctuation or a
// "please" do not change the vector (measured with a small encoder: cosine 0.90 to 0.98 otherwise).
std::string TextOf(const LexicalForm& form);

enum class Likeness {
  kSame,       // nothing that carries meaning differs
  kOpen,       // words differ, but in nothing that is known to matter
  kDifferent,  // something that matters differs
};
Likeness Compare(const LexicalForm& a, const LexicalForm& b);

// Heuristic for equal meaning of two answers: equal numbers, quotations and negations, and three of
// five of all words in both (Jaccard 1912). Used to measure how often a cached answer would have
// been wrong.
bool AnswersAgree(std::string_view a, std::string_view b);

}  // namespace tutti::cache
