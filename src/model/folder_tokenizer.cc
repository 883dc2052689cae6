#include "model/folder_tokenizer.h"

#include <optional>
#include <string>
#include <utility>

#include "model/folder_text.h"
#include "tokenizer/huggingface.h"

namespace tutti::model {
namespace {

Status NoTokenizerJson(const files::Folder& folder) {
  const bool sentencepiece = folder.OpenSource("tokenizer.model", "tokenizer_invalid").ok();
  return InvalidArgument("tokenizer_invalid",
                         std::string("the folder has no tokenizer.json") +
                             (sentencepiece ? ": tokenizer.model is not read; transformers' "
                                              "AutoTokenizer makes a tokenizer.json of it"
                                            : ""));
}

}  // namespace

Result<tokenizer::TokenizerSpec> ReadFolderTokenizer(const files::Folder& folder) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   ReadIfThere(folder, "tokenizer.json", tokenizer::kMaxTokenizerJsonBytes));
  if (!text) return NoTokenizerJson(folder);
  ASSIGN_OR_RETURN(const std::string settings, ReadOrEmpty(folder, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, tokenizer::SpecFromHuggingFace(*text, settings));
  ASSIGN_OR_RETURN(std::string chat, ReadOrEmpty(folder, "chat_template.jinja"));
  if (!chat.empty()) spec.chat_template = std::move(chat);
  return spec;
}

}  // namespace tutti::model
