// Any text through each kind of tokenizer and back.
// Input: one byte of choices, then text; NUL bytes cut it into segments, trusted and not by turns.
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "fuzz_input.h"
#include "tokenizer/testing/tiny_vocabularies.h"
#include "tokenizer/tokenizer.h"

namespace {

using tutti::TokenId;
using tutti::tokenizer::StreamDecoder;
using tutti::tokenizer::TextSegment;
using tutti::tokenizer::Tokenizer;
using tutti::tokenizer::TokenizerSpec;
using tutti::tokenizer::TokenType;

struct Subject {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool lossless;  // decode(encode(x)) = x
};

const std::vector<Subject>& Subjects() {
  namespace tiny = tutti::tokenizer::testing;
  static const std::vector<Subject> kSubjects = [] {
    std::vector<Subject> all;
    const auto add = [&](TokenizerSpec spec, bool lossless) {
      tutti::Result<std::shared_ptr<const Tokenizer>> made = Tokenizer::Create(std::move(spec));
      CHECK(made.ok()) << made.status();
      all.push_back({std::move(made).value(), lossless});
    };
    const std::vector<std::pair<std::string, std::string>> merges{
        {"a", "b"},   {"ab", "a"}, {"b", "b"},   {" ", " "},
        {"  ", "  "}, {" ", "a"},  {"\n", "\n"}, {"1", "2"}};
    for (const char* const pre :
         {"gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "starcoder",
          "falcon", "mpt", "refact", "command-r"}) {
      add(tiny::ByteLevelSpec(merges, pre), pre != std::string_view("qwen2"));  // composes accents
    }
    add(tiny::SentencePieceSpec({{"\u2581", -1},
                                 {"a", -2},
                                 {"b", -2},
                                 {"ab", -3},
                                 {"\u2581a", -4},
                                 {"\u2581\u2581", -5}}),
        false);
    add(tiny::UnigramSpecOf({{"\u2581", -1}, {"a", -2}, {"b", -2}, {"ab", -3}, {"\u2581a", -4}}),
        false);
    add(tiny::WordPieceSpec({"a", "b", "##a", "##b", "ab", "##ab", ",", "1"}), false);
    return all;
  }();
  return kSubjects;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  tutti::fuzz::FuzzInput bytes(data, size);
  const uint8_t choice = bytes.Byte();
  const Subject& subject = Subjects()[choice % Subjects().size()];
  const Tokenizer& tokenizer = *subject.tokenizer;
  const std::string text(bytes.Rest());

  // Untrusted text never yields a control token, except the one for text that the vocabulary cannot
  // spell.
  const std::vector<TokenId> plain =
      tokenizer.Encode(text, {.add_special = false, .parse_special = false});
  for (const TokenId id : plain) {
    CHECK(tokenizer.vocabulary().Contains(id));
    CHECK(tokenizer.vocabulary().Type(id) != TokenType::kControl ||
          id == tokenizer.vocabulary().special().unk)
        << "a control token from plain text";
  }
  if (subject.lossless) CHECK(tokenizer.DecodeBytes(plain) == text) << "decode(encode(x)) is not x";

  // Segments are one text: not trusting any of them is the same as not cutting.
  std::vector<TextSegment> segments;
  std::vector<TextSegment> untrusted;
  tutti::fuzz::FuzzInput rest(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  for (bool trusted = true; !rest.empty(); trusted = !trusted) {
    segments.push_back({rest.Until('\0'), trusted});
    untrusted.push_back({segments.back().text, false});
  }
  std::string joined;
  for (const TextSegment& segment : segments) joined += segment.text;
  CHECK(tokenizer.Encode(untrusted) ==
        tokenizer.Encode(joined, {.add_special = false, .parse_special = false}));
  const std::vector<TokenId> mixed = tokenizer.Encode(segments, /*add_special=*/true);

  // Decoding piece by piece gives the same text as decoding at once.
  const tutti::tokenizer::DecodeOptions options{.skip_special = (choice & 128) != 0,
                                                .strip_space_prefix = false};
  StreamDecoder stream(subject.tokenizer, options);
  std::string streamed;
  for (const TokenId id : mixed) stream.Push(id, streamed);
  stream.Finish(streamed);
  CHECK(streamed == tokenizer.Decode(mixed, options)) << "streamed text differs";
  for (size_t pos = 0; pos < streamed.size();) {
    const tutti::CodePoint c = tutti::DecodeAt(streamed, pos);
    CHECK(c.valid) << "decoded text is not UTF-8";
    pos += c.length;
  }
  return 0;
}
