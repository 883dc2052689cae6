// The tokenizer of a folder as transformers writes it, of a model that is served here or not.
// Any thread; the files are not trusted.
#pragma once

#include "base/status.h"
#include "files/folder.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

// tokenizer.json, tokenizer_config.json and chat_template.jinja, which stands above the templates
// in the others. Errors: tokenizer_* of its files and where tokenizer.json is missing; those of
// ReadIfThere.
Result<tokenizer::TokenizerSpec> ReadFolderTokenizer(const files::Folder& folder);

}  // namespace tutti::model
