// Normalizer: rewrites a text before it is split into words.
//
// Immutable after Create(); any thread; any bytes. Steps are those of Hugging Face tokenizers
// (tokenizer_spec.h), in their order. Time is O(n log n) for each step, memory is bounded by
// kMaxNormalizerGrowth.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

// The normaliser that SentencePiece compiles into its models: a map of short strings to their
// replacements.
//
// Immutable after Create; any thread. The bytes come from a model's file and are not trusted: no
// step leaves the tables, and a replacement is short. Format: little-endian u32 size of the trie, a
// double-array trie of u32 units over UTF-8 bytes, then the replacements, each ended by a zero
// byte; a leaf's value is where its replacement begins. Applied as Hugging Face's tokenizers do,
// which looks up a grapheme cluster of less than six bytes first, takes the shortest entry that
// begins it for all of it, and the cluster's characters one by one where there is none.
class PrecompiledCharsmap {
 public:
  // Errors: tokenizer_invalid.
  static Result<PrecompiledCharsmap> Create(std::string_view bytes);

  // Appends the rewritten `text`. Linear in its length. `marks` move from `text` to `out`.
  void Apply(std::string_view text, std::string& out, TextMarks& marks) const;

  // Bytes of the longest replacement.
  size_t max_replacement() const { return max_replacement_; }

 private:
  std::optional<std::string_view> Find(std::string_view stretch) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  size_t max_replacement_ = 0;
};

inline constexpr size_t kMaxNormalizerSteps = 32;
// Bytes that all steps together may make of one byte of text. ALBERT's, which have most of the
// published ones, come to 545: NFKD (11), lower case (1.5) and a character map (33).
inline constexpr double kMaxNormalizerGrowth = 4'096;
// The same limit for the replacements alone. It is lower, since a replacement may apply to every
// byte of a text, while no text consists only of letters that decompose.
inline constexpr double kMaxReplacementGrowth = 16;

class Normalizer {
 public:
  // Does nothing.
  Normalizer() = default;
  // Errors: tokenizer_invalid, tokenizer_regex, tokenizer_limit (steps, bytes of a replacement,
  // growth of texts).
  static Result<Normalizer> Create(std::span<const NormalizerStep> steps);

  bool empty() const { return steps_.empty(); }

  // The text after all steps. `marks`: ascending byte offsets into `text`, moved along with it.
  std::string Apply(std::string_view text, std::span<size_t> marks = {}) const;

 private:
  struct Step {
    NormalizerStep::Kind kind;
    std::string pattern;
    std::string content;
    std::shared_ptr<const Regex> regex;
    std::shared_ptr<const PrecompiledCharsmap> charsmap;
  };

  static double GrowthOf(const Step& step);
  static void ApplyStep(const Step& step, std::string_view text, std::string& out,
                        std::span<size_t> marks);

  std::vector<Step> steps_;
};

}  // namespace tutti::tokenizer
