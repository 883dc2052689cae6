// What a GGUF says about its tokenizer, as the plain TokenizerSpec that tokenizer::Tokenizer
// validates; and whether the tokens of any file go with its model.
//
// Works for vocabulary-only files too. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/header.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

// Errors: gguf_key (no tokenizer.ggml.model or .tokens), gguf_type, gguf_limit. Meaning is not
// judged here.
Result<tokenizer::TokenizerSpec> ReadTokenizerSpec(const gguf::Header& header);

// Whether the tokens go with an embedding of `rows`. Added tokens (control, unknown, user-defined,
// unused) may lie behind its rows: nothing draws them, whoever asks for one is refused, and a
// remark tells of them. tokenizer_invalid where a token of ordinary text has no row: such a
// tokenizer is another model's.
Status CheckRows(int rows, const tokenizer::TokenizerSpec& spec, std::vector<std::string>& remarks);

// Names the rows behind the last token, as unused tokens "[PAD320]" like the public converters.
void PadTokens(int rows, tokenizer::TokenizerSpec& spec);

}  // namespace tutti::model
