#include "model/tokenizer_metadata.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {
namespace {

using gguf::testing::Writer;

Result<tokenizer::TokenizerSpec> Read(const Writer& writer) {
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return ReadTokenizerSpec((*file)->header());
}

TEST(TokenizerMetadataTest, ReadsAVocabularyOnlyFile) {
  gguf::testing::CheckpointSpec spec;
  spec.tensors = false;
  const auto read = Read(gguf::testing::MakeCheckpoint(spec));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model, "gpt2");
  EXPECT_EQ(read->pre, "smollm");
  EXPECT_EQ(read->tokens, gguf::testing::CheckpointTokens());
  EXPECT_EQ(read->merges, gguf::testing::CheckpointMerges());
  EXPECT_EQ(read->token_types.size(), read->tokens.size());
  EXPECT_EQ(read->token_types[gguf::testing::kImEnd], 3);
  EXPECT_TRUE(read->scores.empty());
  EXPECT_EQ(read->bos, gguf::testing::kImStart);
  EXPECT_EQ(read->eos, gguf::testing::kImEnd);
  EXPECT_EQ(read->add_bos, false);
  EXPECT_FALSE(read->add_eos.has_value());
  EXPECT_FALSE(read->eot.has_value());
  EXPECT_NE(read->chat_template.find("<|im_start|>"), std::string::npos);
}

// Spaces become marks, lines are split from their ends, and characters without a token are bytes.
TEST(TokenizerMetadataTest, ReadsTheCharactersOfGemma4) {
  std::vector<std::string> tokens = {"<pad>", "<bos>", "\n",      "\n\n", "\u2581",
                                     "a",     "b",     "\u2581a", "ab"};
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = types[1] = 3;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  Writer writer;
  writer.String("tokenizer.ggml.model", "gemma4")
      .Strings("tokenizer.ggml.tokens", tokens)
      .Floats("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1))
      .Int32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges",
               std::vector<std::string>{"\n \n", "a b", "\u2581 a", "b \n"})
      .U32("tokenizer.ggml.bos_token_id", 1)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .Bool("tokenizer.ggml.add_space_prefix", false);
  const auto read = Read(writer);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto tokenizer = tokenizer::Tokenizer::Create(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<TokenId> ids = (*tokenizer)->Encode("ab a\n\n\nb\u00E4", {});
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 8, 7, 3, 2, 6, 9 + 0xC3, 9 + 0xA4}));
  EXPECT_EQ((*tokenizer)->Decode(std::span(ids).subspan(1)), "ab a\n\n\nb\u00E4");
}

// A unigram model: its scores, its map, and what stands for the steps that such files do not list.
TEST(TokenizerMetadataTest, ReadsAUnigramModel) {
  using Kind = tokenizer::NormalizerStep::Kind;
  const auto plain = [] {
    Writer writer;
    writer.String("tokenizer.ggml.model", "t5")
        .Strings("tokenizer.ggml.tokens",
                 std::vector<std::string>{"<s>", "</s>", "<unk>", "\u2581", "\u2581a", "a"})
        .Floats("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -3, -2, -2.5f})
        .Int32s("tokenizer.ggml.token_type", std::vector<int32_t>{3, 3, 2, 1, 1, 1})
        .U32("tokenizer.ggml.bos_token_id", 0)
        .U32("tokenizer.ggml.eos_token_id", 1)
        .U32("tokenizer.ggml.unknown_token_id", 2)
        .Bool("tokenizer.ggml.add_bos_token", true)
        .Bool("tokenizer.ggml.add_eos_token", true);
    return writer;
  };
  auto read = Read(plain());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->unigram_scores, (std::vector<double>{0, 0, 0, -3, -2, -2.5}));
  EXPECT_EQ(read->normalizer.size(), 3u);
  const auto tokenizer = tokenizer::Tokenizer::Create(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->EncodeInput("  a  aa ").ids, (std::vector<TokenId>{0, 4, 4, 5, 1}));
  EXPECT_EQ((*tokenizer)->EncodePair("a", "a").ids, (std::vector<TokenId>{0, 4, 1, 1, 4, 1}));

  Writer mapped = plain();
  mapped.RawArray("tokenizer.ggml.precompiled_charsmap", 0, 3, {std::byte{1}, {}, std::byte{2}})
      .Bool("tokenizer.ggml.remove_extra_whitespaces", false);
  read = Read(mapped);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->normalizer.size(), 1u);
  EXPECT_EQ(read->normalizer[0].kind, Kind::kCharsmap);
  EXPECT_EQ(read->normalizer[0].pattern, std::string("\1\0\2", 3));
  Writer wrong = plain();
  wrong.Floats("tokenizer.ggml.precompiled_charsmap", std::vector<float>{1});
  EXPECT_EQ(Read(wrong).status().reason(), "gguf_type");
}

TEST(TokenizerMetadataTest, ReadsScoresAndFlags) {
  Writer writer;
  writer.String("tokenizer.ggml.model", "llama")
      .Strings("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "a"})
      .Floats("tokenizer.ggml.scores", std::vector<float>{0.0f, -1.5f})
      .U32("tokenizer.ggml.eot_token_id", 1)
      .U32("tokenizer.ggml.seperator_token_id", 0)
      .Bool("tokenizer.ggml.add_space_prefix", true)
      .Bool("tokenizer.ggml.add_eos_token", true);
  const auto read = Read(writer);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->scores, (std::vector<float>{0.0f, -1.5f}));
  EXPECT_EQ(read->eot, 1);
  EXPECT_EQ(read->sep, 0);
  EXPECT_EQ(read->add_space_prefix, true);
  EXPECT_EQ(read->add_eos, true);
}

tokenizer::TokenizerSpec Tokens(std::vector<tokenizer::TokenType> types) {
  tokenizer::TokenizerSpec spec;
  for (const tokenizer::TokenType type : types) {
    spec.tokens.push_back("t" + std::to_string(spec.tokens.size()));
    spec.token_types.push_back(static_cast<int32_t>(type));
  }
  return spec;
}

TEST(TokenizerMetadataTest, TokensBehindTheRowsMustBeAddedOnes) {
  using enum tokenizer::TokenType;
  std::vector<std::string> remarks;
  EXPECT_TRUE(CheckRows(2, Tokens({kNormal, kNormal}), remarks).ok());
  EXPECT_TRUE(CheckRows(9, Tokens({kNormal, kNormal}), remarks).ok());
  EXPECT_TRUE(remarks.empty());
  EXPECT_TRUE(
      CheckRows(1, Tokens({kNormal, kControl, kUserDefined, kUnused, kUnknown}), remarks).ok());
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0],
            "4 added tokens from 1 \"t1\" on have no row in the embedding: a prompt with one is "
            "refused");
  for (const tokenizer::TokenType type : {kNormal, kByte}) {
    const Status refused = CheckRows(1, Tokens({kNormal, kControl, type}), remarks);
    EXPECT_EQ(refused.reason(), "tokenizer_invalid");
    EXPECT_EQ(refused.message(),
              "the tokenizer has 3 tokens, the embedding 1 rows: token 2 \"t2\" has none");
  }
  tokenizer::TokenizerSpec untyped = Tokens({kNormal, kControl});
  untyped.token_types.clear();
  EXPECT_EQ(CheckRows(1, untyped, remarks).reason(), "tokenizer_invalid");
}

TEST(TokenizerMetadataTest, RowsWithoutATokenGetUnusedOnes) {
  tokenizer::TokenizerSpec spec = Tokens({tokenizer::TokenType::kNormal});
  spec.token_types.clear();
  spec.scores = {1};
  PadTokens(3, spec);
  EXPECT_EQ(spec.tokens, (std::vector<std::string>{"t0", "[PAD1]", "[PAD2]"}));
  EXPECT_EQ(spec.token_types, (std::vector<int32_t>{1, 5, 5}));
  EXPECT_EQ(spec.scores.size(), 3U);
  PadTokens(2, spec);
  EXPECT_EQ(spec.tokens.size(), 3U);
}

TEST(TokenizerMetadataTest, IdsThatAreNoTokensMeanNone) {
  Writer writer;
  writer.Number("tokenizer.ggml.eos_token_id", gguf::ValueType::kInt32, int32_t{1})
      .Number("tokenizer.ggml.bos_token_id", gguf::ValueType::kInt32, int32_t{-1})
      .Number("tokenizer.ggml.eot_token_id", gguf::ValueType::kInt64, int64_t{0})
      .U32("tokenizer.ggml.padding_token_id", 0xFFFFFFFF)
      .U64("tokenizer.ggml.mask_token_id", uint64_t{1} << 63)
      .U32("tokenizer.ggml.unknown_token_id", 2)
      .String("tokenizer.ggml.seperator_token_id", "</s>")
      .Int32s("tokenizer.ggml.cls_token_id", std::vector<int32_t>{0})
      .Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
      .String("tokenizer.ggml.model", "gpt2");
  const auto read = Read(writer);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->eos, 1);
  EXPECT_EQ(read->eot, 0);
  for (const auto& id : {read->bos, read->pad, read->mask, read->unk, read->sep, read->cls})
    EXPECT_EQ(id, std::nullopt);
}

TEST(TokenizerMetadataTest, ReadsTheTokensOfAHoleByBothNames) {
  const auto plain = [] {
    Writer writer;
    writer.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c", "d"})
        .String("tokenizer.ggml.model", "gpt2")
        .U32("tokenizer.ggml.prefix_token_id", 1)
        .U32("tokenizer.ggml.suffix_token_id", 2)
        .U32("tokenizer.ggml.middle_token_id", 3);
    return writer;
  };
  const auto older = Read(plain());
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->fim_pre, 1);
  EXPECT_EQ(older->fim_suf, 2);
  EXPECT_EQ(older->fim_mid, 3);
  Writer both = plain();
  both.U32("tokenizer.ggml.fim_pre_token_id", 3)
      .U32("tokenizer.ggml.fim_suf_token_id", 9)
      .U32("tokenizer.ggml.fim_rep_token_id", 0);
  const auto newer = Read(both);
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(newer->fim_pre, 3) << "the newer name counts";
  EXPECT_EQ(newer->fim_suf, 2) << "9 is no token";
  EXPECT_EQ(newer->fim_rep, 0);
}

TEST(TokenizerMetadataTest, ListsOfAnotherKindOfModelAreNotRead) {
  Writer writer;
  writer.Int32s("tokenizer.ggml.scores", std::vector<int32_t>{1, 2})
      .Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
      .String("tokenizer.ggml.model", "gpt2");
  const auto bpe = Read(writer);
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  EXPECT_TRUE(bpe->scores.empty());
  Writer other;
  other.Int32s("tokenizer.ggml.merges", std::vector<int32_t>{1})
      .Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
      .String("tokenizer.ggml.model", "llama");
  EXPECT_TRUE(Read(other).ok());
}

TEST(TokenizerMetadataTest, NamesWhatIsMissingOrOfAnotherType) {
  Writer none;
  none.String("general.architecture", "llama");
  EXPECT_EQ(Read(none).status().reason(), "gguf_key");

  Writer numbers;
  numbers.String("tokenizer.ggml.model", "gpt2")
      .Int32s("tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
  EXPECT_EQ(Read(numbers).status().reason(), "gguf_type");
}

}  // namespace
}  // namespace tutti::model
