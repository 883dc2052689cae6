// What a GGUF says about its tokenizer, as the plain TokenizerSpec that tokenizer::Tokenizer
// validates.
//
// Works for vocabulary-only files too. Pure; any thread.
#pragma once

#include "base/status.h"
#include "gguf/header.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

// Errors: gguf_key (no tokenizer.ggml.model or .tokens), gguf_type, gguf_limit. Meaning is not
// judged here.
Result<tokenizer::TokenizerSpec> ReadTokenizerSpec(const gguf::Header& header);

// tokenizer_invalid unless model and tokenizer know the same number of tokens.
Status CheckVocabulary(const ModelConfig& config, const tokenizer::Tokenizer& tokenizer);

}  // namespace tutti::model
