// PreTokenizer: cuts a text into the words inside which a model merges or looks up pieces.
//
// Immutable after Create(); any thread; any bytes; linear time. Steps are those of Hugging Face
// tokenizers (tokenizer_spec.h); a sequence of them that is one of the published families
// (split_families.h) is run by the family's own matcher. Words come in order. Together they are the
// text, except for parts that steps remove or insert (kRemoved, kMetaspace, add_prefix_space).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/split_families.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

inline constexpr size_t kMaxSplitSteps = 32;

class PreTokenizer {
 public:
  // The whole text is one word.
  PreTokenizer() = default;
  // `in_alphabet`: the text consists of characters of the byte alphabet (a normalizer made it so).
  // Errors: tokenizer_invalid, tokenizer_regex, tokenizer_limit.
  static Result<PreTokenizer> Create(std::span<const SplitStep> steps, bool in_alphabet = false);

  // Words are bytes of the text, to be read through the byte alphabet by a byte-level model. False:
  // they are characters.
  bool gives_bytes() const { return gives_bytes_; }

  // `at_start`: the text is at the start of the whole input (SplitStep::Prepend::kFirst).
  void Split(std::string_view text, bool at_start, WordSink& sink) const;

 private:
  struct Step {
    SplitStep spec;
    std::shared_ptr<const Regex> regex;
  };

  // Applies the steps from `next` on to a piece that those before have left.
  void Run(size_t next, std::string_view piece, bool at_start, WordSink& sink) const;
  void RunByteLevel(size_t next, std::string_view piece, bool at_start, WordSink& sink) const;
  void RunMetaspace(size_t next, std::string_view piece, bool at_start, WordSink& sink) const;
  void RunScripts(size_t next, std::string_view piece, bool at_start, WordSink& sink) const;
  void RunFixedLength(size_t next, std::string_view piece, bool at_start, WordSink& sink) const;

  std::optional<SplitFamily> family_;  // instead of steps_
  std::vector<Step> steps_;
  bool in_alphabet_ = false;  // steps_ see the byte alphabet from the first on
  bool gives_bytes_ = false;
};

}  // namespace tutti::tokenizer
