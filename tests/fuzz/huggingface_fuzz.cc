// tokenizer.json and tokenizer_config.json from an untrusted folder: refused, or made into a
// tokenizer that works, and that is the same from the lists and the pipeline that a GGUF carries.
// Input: three parts with a byte 0xFF between them: tokenizer.json, tokenizer_config.json, a text.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "fuzz_input.h"
#include "tokenizer/huggingface.h"
#include "tokenizer/tokenizer.h"

namespace {

using tutti::TokenId;
using tutti::tokenizer::Tokenizer;
using tutti::tokenizer::TokenizerSpec;

void CheckReason(const tutti::Status& status) {
  const std::string reason = status.reason();
  CHECK(reason == "tokenizer_invalid" || reason == "tokenizer_unsupported" ||
        reason == "tokenizer_limit" || reason == "tokenizer_regex")
      << status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  tutti::fuzz::FuzzInput input(data, size);
  const std::string_view file = input.Until('\xFF');
  const std::string_view config = input.Until('\xFF');
  const std::string_view text = input.Until('\xFF');
  auto spec = tutti::tokenizer::SpecFromHuggingFace(file, config);
  if (!spec.ok()) {
    CheckReason(spec.status());
    return 0;
  }
  TokenizerSpec lists;
  lists.tokens = spec->tokens;
  lists.token_types = spec->token_types;
  lists.merges = spec->merges;
  lists.unigram_scores = spec->unigram_scores;
  lists.pipeline = spec->pipeline;
  lists.bos = spec->bos;
  lists.eos = spec->eos;
  lists.unk = spec->unk;
  lists.pad = spec->pad;
  lists.mask = spec->mask;
  lists.chat_template = spec->chat_template;  // its text behind an answer ends a turn
  const auto made = Tokenizer::Create(std::move(*spec));
  if (!made.ok()) {
    CheckReason(made.status());
    return 0;
  }
  const Tokenizer& tokenizer = **made;
  for (const bool parse_special : {false, true}) {
    const std::vector<TokenId> ids =
        tokenizer.Encode(text, {.add_special = true, .parse_special = parse_special});
    for (const TokenId id : ids) CHECK(tokenizer.vocabulary().Contains(id));
    CHECK(tutti::IsValidUtf8(tokenizer.Decode(ids)));
  }
  CHECK(tutti::tokenizer::ApplyPipeline(lists).ok());
  const auto again = Tokenizer::Create(std::move(lists));
  CHECK(again.ok()) << again.status();
  CHECK((*again)->Encode(text, {.add_special = false}) ==
        tokenizer.Encode(text, {.add_special = false}));
  return 0;
}
