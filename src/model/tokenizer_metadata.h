// Reads the tokenizer of a GGUF or of a folder into a plain TokenizerSpec, which
// tokenizer::Tokenizer validates, and checks whether a tokenizer's tokens fit its model.
//
// Works for vocabulary-only files too. Any thread; the files are not trusted.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "gguf/header.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

// Errors: gguf_key (no tokenizer.ggml.model or .tokens), gguf_type, gguf_limit. Meaning is not
// judged here.
Result<tokenizer::TokenizerSpec> ReadTokenizerSpec(const gguf::Header& header);

// Checks the tokens against an embedding of `rows` rows. Added tokens (control, unknown,
// user-defined, unused) may have ids beyond the rows: they are never sampled, a request that uses
// one is refused, and `remarks` mentions them. Error: tokenizer_invalid where a token of ordinary
// text has no row, since the tokenizer is then another model's.
Status CheckRows(int rows, const tokenizer::TokenizerSpec& spec, std::vector<std::string>& remarks);

// Names the rows behind the last token, as unused tokens "[PAD320]" like the public converters.
void PadTokens(int rows, tokenizer::TokenizerSpec& spec);

// The tokenizer of a folder as transformers writes it; the model itself need not be supported.
// Reads tokenizer.json, tokenizer_config.json and chat_template.jinja, which overrides the
// templates in the other two. Errors: tokenizer_* for faults of the files and for a missing
// tokenizer.json; those of ReadIfThere.
Result<tokenizer::TokenizerSpec> ReadFolderTokenizer(const files::Folder& folder);

}  // namespace tutti::model
