// Reads Hugging Face's tokenizer.json, and the tokenizer_config.json that belongs to it, into a
// TokenizerSpec. For folders of encoders and decoders, which come with these files.
//
// Pure; any thread. The files are not trusted: sizes and depth are bounded, and an unsupported
// setting that would change an answer is refused by name. Truncation and padding blocks are
// ignored. Defaults are those of Hugging Face tokenizers 0.13 to 0.23.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

inline constexpr size_t kMaxTokenizerJsonBytes = size_t{64} << 20;

// BPE behind a ByteLevel becomes model "gpt2", other BPE "bpe", WordPiece "bert" (with
// wordpiece_plain_vocabulary), Unigram "t5". `config_json` may be empty. Errors: tokenizer_invalid
// (not such JSON), tokenizer_unsupported (a part, by name), tokenizer_limit.
Result<TokenizerSpec> SpecFromHuggingFace(std::string_view tokenizer_json,
                                          std::string_view config_json = {});

// Reads `spec.pipeline`, which SpecFromHuggingFace wrote, into the rest of `spec`, whose tokens,
// types and merges are there already. Errors: the same.
Status ApplyPipeline(TokenizerSpec& spec);

// Converts the merge ranks of a "bpe" to scores with which SentencePiece's BPE merges in the same
// order. A GGUF of kind "llama" has such scores. Errors: tokenizer_invalid (a merge that makes no
// token).
Result<std::vector<float>> ScoresFromMerges(const TokenizerSpec& spec);

}  // namespace tutti::tokenizer
