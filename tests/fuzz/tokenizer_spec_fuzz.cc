// A tokenizer from an untrusted model file: for any contents of the lists, it is refused or it
// works. Input: lines. The first holds one byte each for model, pre-tokenizer, flags and special
// ids; then "t" + type byte + spelling, "s" + score byte, "m" + merge, "c" + a charsmap, "n" +
// steps of normalizer and pre-tokenizer, "a" + the rule of an added token; the last line without
// one of these letters is text to encode.
#include <array>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "fuzz_input.h"
#include "tokenizer/tokenizer.h"

namespace {

using tutti::TokenId;
using tutti::tokenizer::NormalizerStep;
using tutti::tokenizer::SplitStep;
using tutti::tokenizer::Tokenizer;
using tutti::tokenizer::TokenizerSpec;
using tutti::tokenizer::TokenType;

constexpr std::array<const char*, 6> kModels{"gpt2", "llama", "bert", "", "t5", "bpe"};
constexpr std::array<const char*, 8> kPres{"gpt-2",   "smollm", "llama-bpe",    "qwen2",
                                           "default", "",       "deepseek-llm", "falcon"};

// Small letters are steps of the normalizer, the other characters of the pre-tokenizer.
void AddStep(char letter, TokenizerSpec& spec) {
  spec.has_steps = true;
  if (letter >= 'a' && letter <= 'z') {
    const auto kind = static_cast<NormalizerStep::Kind>((letter - 'a') % 17);
    spec.normalizer.push_back({.kind = kind, .pattern = " ", .content = "\xE2\x96\x81"});
    return;
  }
  const auto value = static_cast<unsigned char>(letter);
  SplitStep step;
  step.kind = static_cast<SplitStep::Kind>(value % 10);
  step.behavior = static_cast<SplitStep::Behavior>(value / 10 % 5);
  step.invert = value % 2 != 0;
  step.individual = step.split = step.add_prefix_space = value % 3 == 0;
  step.prepend = static_cast<SplitStep::Prepend>(value / 50 % 3);
  step.pattern = step.kind == SplitStep::Kind::kRegex ? "\\p{L}+|\\d" : "\xE2\x96\x81";
  step.length = 1 + value % 7;
  spec.split.push_back(std::move(step));
}

// Rules of added tokens: an id, then its flags.
void AddRule(std::string_view line, TokenizerSpec& spec) {
  if (line.size() < 2) return;
  const auto flags = static_cast<unsigned char>(line[1]);
  spec.added.push_back({.id = static_cast<unsigned char>(line[0]),
                        .single_word = (flags & 1) != 0,
                        .lstrip = (flags & 2) != 0,
                        .rstrip = (flags & 4) != 0,
                        .normalized = (flags & 8) != 0});
}

TokenizerSpec ReadSpec(tutti::fuzz::FuzzInput* input, std::string* text) {
  TokenizerSpec spec;
  std::string charsmap;
  const std::string_view head = input->Until('\n');
  tutti::fuzz::FuzzInput bytes(reinterpret_cast<const uint8_t*>(head.data()), head.size());
  spec.model = kModels[bytes.Byte() % kModels.size()];
  spec.pre = kPres[bytes.Byte() % kPres.size()];
  const uint8_t flags = bytes.Byte();
  if ((flags & 1) != 0) spec.add_bos = (flags & 2) != 0;
  if ((flags & 4) != 0) spec.add_space_prefix = (flags & 8) != 0;
  if ((flags & 16) != 0) spec.lowercase = (flags & 32) != 0;
  spec.wordpiece_plain_vocabulary = (flags & 64) != 0;
  if ((flags & 128) != 0) spec.add_eos = true;
  for (std::optional<int64_t>* const id :
       {&spec.bos, &spec.eos, &spec.unk, &spec.sep, &spec.cls, &spec.eot}) {
    const uint8_t byte = bytes.Byte();
    if (byte != 0) *id = byte == 255 ? int64_t{-1} : byte - 1;
  }
  while (!input->empty()) {
    const std::string_view line = input->Until('\n');
    if (line.size() >= 2 && line[0] == 't') {
      spec.token_types.push_back(line[1] - '0');
      spec.tokens.emplace_back(line.substr(2));
    } else if (line.size() >= 2 && line[0] == 's') {
      spec.scores.push_back(static_cast<float>(line[1]));
    } else if (!line.empty() && line[0] == 'm') {
      spec.merges.emplace_back(line.substr(1));
    } else if (!line.empty() && line[0] == 'c') {
      charsmap = line.substr(1);
    } else if (!line.empty() && line[0] == 'a') {
      AddRule(line.substr(1), spec);
    } else if (!line.empty() && line[0] == 'n') {
      for (const char step : line.substr(1, 8)) AddStep(step, spec);
    } else {
      *text = line;
    }
  }
  for (NormalizerStep& step : spec.normalizer) {
    if (step.kind == NormalizerStep::Kind::kCharsmap) step.pattern = charsmap;
  }
  spec.byte_fallback = (flags & 64) != 0;
  if (spec.model == "t5") spec.unigram_scores.assign(spec.scores.begin(), spec.scores.end());
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) return 0;
  tutti::fuzz::FuzzInput input(data, size);
  std::string text;
  TokenizerSpec spec = ReadSpec(&input, &text);
  const tutti::Result<std::shared_ptr<const Tokenizer>> made = Tokenizer::Create(std::move(spec));
  if (!made.ok()) {
    const std::string reason = made.status().reason();
    CHECK(reason == "tokenizer_invalid" || reason == "tokenizer_unsupported" ||
          reason == "tokenizer_limit" || reason == "tokenizer_regex")
        << made.status();
    return 0;
  }
  const Tokenizer& tokenizer = **made;
  for (const bool parse_special : {false, true}) {
    const std::vector<TokenId> ids =
        tokenizer.Encode(text, {.add_special = true, .parse_special = parse_special});
    for (const TokenId id : ids) CHECK(tokenizer.vocabulary().Contains(id));
    const std::string decoded = tokenizer.Decode(ids);
    for (size_t pos = 0; pos < decoded.size();) {
      const tutti::CodePoint c = tutti::DecodeAt(decoded, pos);
      CHECK(c.valid) << "decoded text is not UTF-8";
      pos += c.length;
    }
  }
  for (const TokenId id : tokenizer.Encode(text, {.add_special = false, .parse_special = false})) {
    // A file may name a control token as its unknown token; then every unknown character is one, by
    // its own wish.
    if (id == tokenizer.vocabulary().special().unk) continue;
    CHECK(tokenizer.vocabulary().Type(id) != TokenType::kControl)
        << "a control token from plain text";
  }
  return 0;
}
