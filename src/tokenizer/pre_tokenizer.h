// Pre-tokenizers of byte-level BPE: cut a text into the words inside which merging happens.
//
// Each family is the published split expression of a model, written out as a hand-made matcher over
// Unicode classes: linear time for any bytes, no regular-expression engine. Pure functions; any
// thread. Words cover the text without gap or overlap, in order. Source of the expressions: the
// models' published tokenizer.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti::tokenizer {

enum class PreTokenizer : uint8_t {
  kGpt2,           // gpt-2, mpt
  kDigitsGpt2,     // smollm, starcoder, refact, command-r: every digit alone, then gpt-2
  kLlama3,         // llama-bpe, llama3
  kQwen2,          // qwen2: llama3 with single digits
  kDeepseekLlm,    // deepseek-llm
  kDeepseekCoder,  // deepseek-coder
  kFalcon,         // falcon
};

// By the file's name for it (tokenizer.ggml.pre); nothing for a name that is not known.
std::optional<PreTokenizer> FindPreTokenizer(std::string_view name);

// Takes the words as they are found.
class WordSink {
 public:
  virtual void OnWord(std::string_view word) = 0;

 protected:
  ~WordSink() = default;
};

void SplitWords(PreTokenizer family, std::string_view text, WordSink& sink);

}  // namespace tutti::tokenizer
