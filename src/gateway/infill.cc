#include "gateway/infill.h"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "api/validate.h"
#include "base/quote.h"
#include "tokenizer/infill_tokens.h"

namespace tutti::gateway {
namespace {

using tokenizer::InfillTokens;

// llama.cpp's default names; plugins of editors expect them.
constexpr std::string_view kProjectLine = "myproject\n", kFileLine = "filename\n";
constexpr std::string_view kPlainSeparator = "\n\n--- snippet ---\n\n";

void Append(const std::vector<TokenId>& more, std::vector<TokenId>* ids) {
  ids->insert(ids->end(), more.begin(), more.end());
}

// The project's other files, and the beginning of the one with the hole.
void AppendFiles(const tokenizer::Tokenizer& tokenizer, const InfillTokens& tokens,
                 const std::vector<api::ContextFile>& files, std::vector<TokenId>* ids) {
  if (files.empty()) return;
  if (tokens.repository != kNoToken) {
    ids->push_back(tokens.repository);
    Append(tokenizer.EncodeContinuation(kProjectLine), ids);
  }
  for (const api::ContextFile& file : files) {
    std::string text;
    if (tokens.file != kNoToken) {
      ids->push_back(tokens.file);
      text = (file.name.empty() ? "tmp" : file.name) + "\n";
    } else {
      text = kPlainSeparator;
    }
    Append(tokenizer.EncodeContinuation(text + file.text), ids);
  }
  if (tokens.file == kNoToken) return;
  ids->push_back(tokens.file);
  Append(tokenizer.EncodeContinuation(kFileLine), ids);
}

Status CheckTexts(const api::TextPrompt& prompt) {
  RETURN_IF_ERROR(api::CheckUtf8(prompt.text, "prompt"));
  RETURN_IF_ERROR(api::CheckUtf8(*prompt.suffix, "suffix"));
  for (const api::ContextFile& file : prompt.files) {
    RETURN_IF_ERROR(api::CheckUtf8(file.name, "files"));
    RETURN_IF_ERROR(api::CheckUtf8(file.text, "files"));
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<TokenId>> EncodeInfill(const ServedModel& model, const api::TextPrompt& prompt) {
  RETURN_IF_ERROR(CheckTexts(prompt));
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  if (!tokenizer.vocabulary().infill().has_value()) {
    return InvalidArgument("unsupported_parameter",
                           "model " + Quote(model.info.id, 64) +
                               " has no fill-in-the-middle tokens; send the prompt alone")
        .WithParam("suffix");
  }
  const InfillTokens& tokens = *tokenizer.vocabulary().infill();
  std::vector<TokenId> ids;
  if (prompt.add_special) ids = tokenizer.LeadingTokens();
  AppendFiles(tokenizer, tokens, prompt.files, &ids);
  const auto append_prefix = [&] {
    ids.push_back(tokens.prefix);
    Append(tokenizer.Encode(prompt.text, {.add_special = false}), &ids);
  };
  const auto append_suffix = [&] {
    ids.push_back(tokens.suffix);
    Append(tokenizer.EncodeContinuation(*prompt.suffix), &ids);
  };
  if (tokens.suffix_first) {
    append_suffix();
    append_prefix();
  } else {
    append_prefix();
    append_suffix();
  }
  if (tokens.middle != kNoToken) ids.push_back(tokens.middle);
  return ids;
}

std::vector<TokenId> EndTokens(const ServedModel& model, const api::Prompt& prompt) {
  const tokenizer::Vocabulary& vocabulary = model.tokenizer->vocabulary();
  std::vector<TokenId> ends = vocabulary.eog_tokens();
  const auto* const text = std::get_if<api::TextPrompt>(&prompt);
  if (text != nullptr && text->suffix.has_value() && vocabulary.infill().has_value())
    Append(vocabulary.infill()->All(), &ends);
  return ends;
}

}  // namespace tutti::gateway
