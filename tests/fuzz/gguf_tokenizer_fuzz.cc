// The tokenizer's facts in an untrusted GGUF: refused, or made into a tokenizer that works.
// Input: the bytes of a GGUF, and behind the last byte 0xFF that follows "TEXT" a text to encode.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "gguf/file.h"
#include "model/tokenizer_metadata.h"
#include "tokenizer/tokenizer.h"

namespace {

using tutti::TokenId;
using tutti::tokenizer::Tokenizer;

constexpr std::string_view kMark = "TEXT\xFF";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t mark = input.rfind(kMark);
  const std::string_view bytes = input.substr(0, mark);
  const std::string_view text =
      mark == std::string_view::npos ? "hello w\u00f6rld" : input.substr(mark + kMark.size());
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  const auto file = tutti::gguf::File::FromSource(
      tutti::gguf::MemorySource(std::span<const std::byte>(begin, bytes.size())));
  if (!file.ok()) return 0;
  auto spec = tutti::model::ReadTokenizerSpec((*file)->header());
  if (!spec.ok()) {
    const std::string reason = spec.status().reason();
    CHECK(reason.starts_with("gguf_") || reason.starts_with("tokenizer_")) << spec.status();
    return 0;
  }
  const auto made = Tokenizer::Create(std::move(*spec));
  if (!made.ok()) {
    CHECK(made.status().reason().starts_with("tokenizer_")) << made.status();
    return 0;
  }
  for (const bool parse_special : {false, true}) {
    const std::vector<TokenId> ids =
        (*made)->Encode(text, {.add_special = true, .parse_special = parse_special});
    for (const TokenId id : ids) CHECK((*made)->vocabulary().Contains(id));
    CHECK(tutti::IsValidUtf8((*made)->Decode(ids)));
  }
  return 0;
}
