// The published ways to split that most models use, written out by hand.
//
// Each is a sequence of steps of a pre-tokenizer (tokenizer_spec.h) as one matcher over Unicode
// classes: faster than running the steps, with the same words. Linear time for any bytes. Pure
// functions; any thread. Words cover the text without gap or overlap, in order. Source of the
// expressions: the models' published tokenizer.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

enum class SplitFamily : uint8_t {
  kGpt2,           // ByteLevel with its expression
  kDigitsGpt2,     // every digit alone, then gpt-2: SmolLM, StarCoder, Refact, Command R
  kLlama3,         // Llama 3, DBRX, OLMo 2, Phi 4
  kQwen2,          // Llama 3's with single digits
  kDeepseekLlm,    // DeepSeek LLM
  kDeepseekCoder,  // DeepSeek Coder
  kFalcon,         // Falcon
};

// The expressions of Llama 3 and of Qwen 2, as their files spell them.
extern const std::string_view kLlama3Expression;
extern const std::string_view kQwen2Expression;

// The steps of a family; those of a file that equal them are that family.
std::span<const SplitStep> StepsOf(SplitFamily family);
std::optional<SplitFamily> FindSplitFamily(std::span<const SplitStep> steps);

// Takes the words as they are found.
class WordSink {
 public:
  virtual void OnWord(std::string_view word) = 0;

 protected:
  ~WordSink() = default;
};

void SplitWords(SplitFamily family, std::string_view text, WordSink& sink);

}  // namespace tutti::tokenizer
