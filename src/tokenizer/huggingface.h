// Reads Hugging Face's tokenizer.json, with tokenizer_config.json beside it, into a TokenizerSpec.
// For folders of encoders and decoders, which come with these files.
//
// Pure; any thread. The files are not trusted: sizes and depth are bounded, a split expression is
// never run but looked up in the list of published ones, and whatever would change an answer and is
// not supported is refused by name. Truncation and padding blocks are ignored. Format: Hugging Face
// tokenizers 0.13 to 0.23.
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

inline constexpr size_t kMaxTokenizerJsonBytes = size_t{64} << 20;

// Byte-level BPE becomes model "gpt2", BPE with byte_fallback (SentencePiece's) "llama", WordPiece
// "bert" (with wordpiece_plain_vocabulary), Unigram "t5". `config_json` may be empty. Errors:
// tokenizer_invalid (no such JSON), tokenizer_regex (a split expression that is not of the list),
// tokenizer_unsupported (any other part, by name), tokenizer_limit.
Result<TokenizerSpec> SpecFromHuggingFace(std::string_view tokenizer_json,
                                          std::string_view config_json = {});

}  // namespace tutti::tokenizer
