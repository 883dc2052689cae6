// PrecompiledCharsmap: the normaliser that SentencePiece compiles into its models: a map of short
// strings to their replacements.
//
// Immutable after Create; any thread. The bytes come from a model's file and are not trusted: no
// step leaves the tables, and a replacement is short. Format: little-endian u32 size of the trie, a
// double-array trie of u32 units over UTF-8 bytes, then the replacements, each ended by a zero
// byte; a leaf's value is where its replacement begins. Applied as Hugging Face's tokenizers do,
// which looks up a grapheme cluster of less than six bytes first, takes the shortest entry that
// begins it for all of it, and the cluster's characters one by one where there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/text_marks.h"

namespace tutti::tokenizer {

class PrecompiledCharsmap {
 public:
  // Errors: tokenizer_invalid.
  static Result<PrecompiledCharsmap> Create(std::string_view bytes);

  // Appends what stands for `text`. Linear in it. `marks` move from `text` to `out`.
  void Apply(std::string_view text, std::string& out, TextMarks& marks) const;

  // Bytes of the longest replacement.
  size_t max_replacement() const { return max_replacement_; }

 private:
  std::optional<std::string_view> Find(std::string_view stretch) const;
  void ApplyTo(std::string_view character, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  size_t max_replacement_ = 0;
};

}  // namespace tutti::tokenizer
