// Reads the tokenizer of a folder as transformers writes it; the model itself need not be
// supported. Any thread; the files are not trusted.
#pragma once

#include "base/status.h"
#include "files/folder.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

// Reads tokenizer.json, tokenizer_config.json and chat_template.jinja, which overrides the
// templates in the other two. Errors: tokenizer_* for faults of the files and for a missing
// tokenizer.json; those of ReadIfThere.
Result<tokenizer::TokenizerSpec> ReadFolderTokenizer(const files::Folder& folder);

}  // namespace tutti::model
