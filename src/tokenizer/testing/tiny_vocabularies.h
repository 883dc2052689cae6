// Hand-made vocabularies for tests: small enough to follow on paper. Header-only; for tests only.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer::testing {

// The spelling of raw bytes in a byte-level vocabulary.
inline std::string Spelling(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) AppendUtf8(ByteSymbol(static_cast<unsigned char>(c)), out);
  return out;
}

inline void AddToken(TokenizerSpec& spec, std::string text, TokenType type) {
  spec.tokens.push_back(std::move(text));
  spec.token_types.push_back(static_cast<int32_t>(type));
}

// All 256 bytes (ids 0 to 255), then one token for each merge, then the control tokens <|start|>
// and <|end|> (eos) and the user-defined "<tool>" and "~~~". Merges are pairs of raw byte strings.
inline TokenizerSpec ByteLevelSpec(
    const std::vector<std::pair<std::string, std::string>>& merges = {},
    std::string pre = "gpt-2") {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(spec, Spelling(std::string(1, static_cast<char>(byte))), TokenType::kNormal);
  }
  for (const auto& [left, right] : merges) {
    AddToken(spec, Spelling(left + right), TokenType::kNormal);
    spec.merges.push_back(Spelling(left) + " " + Spelling(right));
  }
  AddToken(spec, "<|start|>", TokenType::kControl);
  AddToken(spec, "<|end|>", TokenType::kControl);
  AddToken(spec, "<tool>", TokenType::kUserDefined);
  AddToken(spec, "~~~", TokenType::kUserDefined);
  spec.eos = static_cast<int64_t>(spec.tokens.size()) - 3;
  return spec;
}

// <unk>, <s>, </s>, the 256 byte tokens (ids 3 to 258), then the given pieces with their scores.
inline TokenizerSpec SentencePieceSpec(const std::vector<std::pair<std::string, float>>& pieces) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.pre = "default";
  AddToken(spec, "<unk>", TokenType::kUnknown);
  AddToken(spec, "<s>", TokenType::kControl);
  AddToken(spec, "</s>", TokenType::kControl);
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    AddToken(spec, std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte);
  }
  spec.scores.assign(spec.tokens.size(), 0.0F);
  for (const auto& [text, score] : pieces) {
    AddToken(spec, text, TokenType::kNormal);
    spec.scores.push_back(score);
  }
  return spec;
}

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then the given tokens, spelled as in vocab.txt.
inline TokenizerSpec WordPieceSpec(const std::vector<std::string>& tokens) {
  TokenizerSpec spec;
  spec.model = "bert";
  spec.wordpiece_plain_vocabulary = true;
  spec.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  spec.pad = 0;
  spec.unk = 1;
  spec.cls = 2;
  spec.sep = 3;
  spec.mask = 4;
  spec.tokens.insert(spec.tokens.end(), tokens.begin(), tokens.end());
  return spec;
}

// <s> 0, </s> 1, <unk> 2, then the given pieces with their scores. Marks and splits words.
inline TokenizerSpec UnigramSpecOf(const std::vector<std::pair<std::string, double>>& pieces) {
  TokenizerSpec spec;
  spec.model = "t5";
  AddToken(spec, "<s>", TokenType::kControl);
  AddToken(spec, "</s>", TokenType::kControl);
  AddToken(spec, "<unk>", TokenType::kControl);
  spec.bos = 0;
  spec.eos = 1;
  spec.unk = 2;
  spec.add_bos = spec.add_eos = true;
  spec.unigram_scores.assign(3, 0);
  spec.split = {{.kind = SplitStep::Kind::kMetaspace, .pattern = "\u2581"}};
  spec.decode_strips_space = true;
  spec.has_steps = true;
  for (const auto& [text, score] : pieces) {
    AddToken(spec, text, TokenType::kNormal);
    spec.unigram_scores.push_back(score);
  }
  return spec;
}

// <unk> 0, <s> 1, </s> 2, "\u2581" 3, the letters a to z, then one token for each merge.
inline TokenizerSpec CharacterBpeSpec(
    const std::vector<std::pair<std::string, std::string>>& merges) {
  TokenizerSpec spec;
  spec.model = "bpe";
  AddToken(spec, "<unk>", TokenType::kUnknown);
  AddToken(spec, "<s>", TokenType::kControl);
  AddToken(spec, "</s>", TokenType::kControl);
  AddToken(spec, "\u2581", TokenType::kNormal);
  for (char letter = 'a'; letter <= 'z'; ++letter)
    AddToken(spec, std::string(1, letter), TokenType::kNormal);
  for (const auto& [left, right] : merges) {
    AddToken(spec, left + right, TokenType::kNormal);
    spec.merges.push_back(left + " " + right);
  }
  spec.has_steps = true;
  spec.model_unknown = 0;
  return spec;
}

// Creates a tokenizer that must be accepted.
inline std::shared_ptr<const Tokenizer> MustCreate(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  CHECK(tokenizer.ok()) << tokenizer.status();
  return std::move(tokenizer).value();
}

// The reason for which a specification is refused; empty when it is accepted.
inline std::string Refusal(TokenizerSpec spec) {
  return Tokenizer::Create(std::move(spec)).status().reason();
}

// The spellings of ids, for readable expectations.
inline std::vector<std::string> Texts(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> texts;
  for (const TokenId id : ids) texts.emplace_back(tokenizer.Piece(id));
  return texts;
}

}  // namespace tutti::tokenizer::testing
