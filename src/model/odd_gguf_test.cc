// GGUF files as they are found in the wild: what no answer depends on never refuses a file, and
// what would make answers wrong refuses it by a code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "model/decoder_checkpoint.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {
namespace {

using gguf::ValueType;
using gguf::testing::Bytes;
using gguf::testing::CheckpointSpec;
using gguf::testing::CheckpointTokens;
using gguf::testing::Writer;
using ::testing::HasSubstr;

constexpr uint32_t kTokens = 312;  // the last three are unused

struct OddOutcome {
  Status status = OkStatus();
  std::string remarks;       // one a line
  std::vector<TokenId> ids;  // of "hello the the"
};

// Everything that a start does with the file, except for computing.
OddOutcome Serve(const Bytes& bytes) {
  OddOutcome outcome;
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const auto file, gguf::File::FromSource(gguf::MemorySource(bytes)));
    ASSIGN_OR_RETURN(const DecoderCheckpoint checkpoint, DecoderCheckpoint::FromGguf(file));
    for (const std::string& remark : checkpoint.remarks) outcome.remarks += remark + "\n";
    ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::Create(checkpoint.tokenizer));
    for (const std::string& remark : tokenizer->vocabulary().remarks())
      outcome.remarks += remark + "\n";
    outcome.ids = tokenizer->Encode("hello the the");
    return Weights::Load(checkpoint, {}).status();
  };
  outcome.status = run();
  return outcome;
}

Writer SoundFile() {
  CheckpointSpec spec;
  spec.layers = 1;
  spec.width = 64;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_width = 32;
  spec.feed_forward = 96;
  spec.vocabulary = kTokens;
  return gguf::testing::MakeCheckpoint(spec);
}

using Change = std::function<void(Writer&)>;
struct OddFile {
  const char* name;
  Change change;
  const char* remark = "";  // a part of one; "": any or none
};
struct BadFile {
  const char* name;
  Change change;
  const char* code;
};

Change WithNumber(std::string_view key, ValueType type, auto value) {
  return
      [key = std::string(key), type, value](Writer& w) { w.Without(key).Number(key, type, value); };
}
Change WithText(std::string_view key, std::string_view text) {
  return [key = std::string(key), text = std::string(text)](Writer& w) {
    w.Without(key).String(key, text);
  };
}
Change More(const std::string& name, std::vector<uint64_t> ne) {
  return [=](Writer& w) {
    uint64_t count = 1;
    for (const uint64_t n : ne) count *= n;
    w.Tensor({name, ne, 0, Bytes(count * 4), std::nullopt});
  };
}
// A second block, of which the file says that it predicts further tokens. `tensor`: what it holds
// besides a matrix; with "", it holds nothing.
Change WithPredictingBlock(const std::string& tensor) {
  return [=](Writer& w) {
    w.Without("llama.block_count").U32("llama.block_count", 2).U32("llama.nextn_predict_layers", 1);
    if (tensor.empty()) return;
    More("blk.1." + tensor, {4, 4})(w);
    More("blk.1.ffn_up.weight", {4, 4})(w);
  };
}
Change Tokens(std::vector<std::string> last) {
  return [=](Writer& w) {
    std::vector<std::string> tokens = CheckpointTokens();
    tokens.insert(tokens.end(), last.begin(), last.end());
    w.Without("tokenizer.ggml.token_type").Without("tokenizer.ggml.tokens");
    w.Strings("tokenizer.ggml.tokens", tokens);
  };
}

TEST(OddGgufTest, WhatNoAnswerDependsOnIsServed) {
  const std::string token = "tokenizer.ggml.";
  const OddOutcome sound = Serve(SoundFile().Build());
  ASSERT_TRUE(sound.status.ok()) << sound.status;
  ASSERT_FALSE(sound.ids.empty());
  const OddFile files[] = {
      {"bos -1", WithNumber(token + "bos_token_id", ValueType::kInt32, int32_t{-1})},
      {"bos 2^32 - 1",
       WithNumber(token + "bos_token_id", ValueType::kUint32, uint32_t{0xFFFFFFFF})},
      {"pad behind the vocabulary",
       WithNumber(token + "padding_token_id", ValueType::kUint32, uint32_t{70000})},
      {"unknown token of 64 bits",
       WithNumber(token + "unknown_token_id", ValueType::kUint64, uint64_t{0})},
      {"separator as a signed byte",
       WithNumber(token + "seperator_token_id", ValueType::kInt8, int8_t{2})},
      {"mask as a float", WithNumber(token + "mask_token_id", ValueType::kFloat32, 1.5F)},
      {"mask as a text", WithText(token + "mask_token_id", "<mask>")},
      {"no id of the end", [=](Writer& w) { w.Without(token + "eos_token_id"); }},
      {"no types of tokens", [=](Writer& w) { w.Without(token + "token_type"); }},
      {"scores and merges",
       [=](Writer& w) { w.Floats(token + "scores", std::vector<float>(3, 1.0F)); }},
      {"scores as texts",
       [=](Writer& w) { w.Strings(token + "scores", std::vector<std::string>{"a"}); }},
      {"a map of characters",
       [=](Writer& w) { w.RawArray(token + "precompiled_charsmap", 0, 2, Bytes(2)); }},
      {"an unknown tokenizer key", WithText(token + "hash", "1234")},
      {"rwkv's tokens", WithText("tokenizer.rwkv.tokens", "x")},
      {"the json of the tokenizer", WithText("tokenizer.huggingface.json", "{ not json")},
      {"several templates",
       [](Writer& w) {
         w.Strings("tokenizer.chat_templates", std::vector<std::string>{"tool_use"})
             .String("tokenizer.chat_template.tool_use", "{{ broken");
       }},
      {"no name", [](Writer& w) { w.Without("general.name"); }},
      {"a name with a line end", WithText("general.name", "a\nb")},
      {"a file type nobody knows",
       WithNumber("general.file_type", ValueType::kUint32, uint32_t{999})},
      {"a file type as a text", WithText("general.file_type", "Q4")},
      {"a size label and tags",
       [](Writer& w) {
         w.String("general.size_label", "8x7B")
             .Strings("general.tags", std::vector<std::string>{""});
       }},
      {"facts about where it is from",
       [](Writer& w) {
         w.U32("general.base_model.count", 1).String("general.base_model.0.name", "x");
       }},
      {"what an importance matrix leaves",
       [](Writer& w) {
         w.String("quantize.imatrix.file", "/x/y.dat")
             .Number("quantize.imatrix.entries_count", ValueType::kInt32, int32_t{7});
       }},
      {"not split", WithNumber("split.count", ValueType::kUint16, uint16_t{0})},
      {"a split of one", WithNumber("split.count", ValueType::kUint16, uint16_t{1})},
      {"sampling of another type", WithText("general.sampling.temp", "warm")},
      {"sampling outside its range",
       WithNumber("general.sampling.top_p", ValueType::kFloat32, 7.0F), "top_p"},
      {"keys of another architecture",
       WithNumber("bert.block_count", ValueType::kUint32, uint32_t{99})},
      {"an empty array", [](Writer& w) { w.RawArray("extra.empty", 5, 0, {}); }},
      {"a tensor of pictures", More("v.patch_embd.weight", {4, 4}), "v.patch_embd.weight"},
      {"a tensor of a projector", More("mm.0.weight", {4, 4}), "mm.0.weight"},
      {"tensors that guess several tokens", More("blk.0.nextn.eh_proj.weight", {4, 4}), "nextn"},
      {"a block that predicts further tokens", WithPredictingBlock("nextn.eh_proj.weight"),
       "2 tensors are not needed"},
      {"a block that predicts, whose tensors were left out", WithPredictingBlock("")},
      {"tokens of equal text", Tokens({"a", "a", "x"}), "have the same text 'a'"},
      {"tokens without a text", Tokens({"", "", ""})},
      {"no key of the vocabulary's size", [](Writer& w) { w.Without("llama.vocab_size"); }},
      {"no rotated width", [](Writer& w) { w.Without("llama.rope.dimension_count"); }},
      {"no name of the pre-tokenizer's other keys",
       [=](Writer& w) { w.Without(token + "add_space_prefix").Without(token + "add_eos_token"); }},
  };
  for (const OddFile& odd : files) {
    SCOPED_TRACE(odd.name);
    Writer writer = SoundFile();
    odd.change(writer);
    const OddOutcome outcome = Serve(writer.Build());
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.ids, sound.ids);
    EXPECT_THAT(outcome.remarks, HasSubstr(odd.remark));
  }
}

TEST(OddGgufTest, BytesBehindTheLastTensorAreRemarked) {
  Bytes bytes = SoundFile().Build();
  bytes.resize(bytes.size() + 4096);
  const OddOutcome outcome = Serve(bytes);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.remarks, HasSubstr("4096 bytes"));
}

TEST(OddGgufTest, WhatWouldMakeAnswersWrongIsRefused) {
  const std::string token = "tokenizer.ggml.";
  const BadFile files[] = {
      {"an architecture nobody knows", WithText("general.architecture", "rwkv9"), "model_hparam"},
      {"no architecture", [](Writer& w) { w.Without("general.architecture"); }, "model_hparam"},
      {"a matrix in a layer that is not known", More("blk.0.attn_sinks.weight", {4}),
       "model_hparam"},
      {"a norm is missing", [](Writer& w) { w.Without("blk.0.attn_norm.weight"); },
       "model_tensor_missing"},
      {"a count of predicting blocks that block_count leaves out",
       WithPredictingBlock("ffn_norm.weight"), "model_hparam"},
      {"only blocks that predict",
       WithNumber("llama.nextn_predict_layers", ValueType::kUint32, uint32_t{1}), "model_hparam"},
      {"no tokens", [=](Writer& w) { w.Without(token + "tokens"); }, "gguf_key"},
      {"no kind of tokenizer", [=](Writer& w) { w.Without(token + "model"); }, "gguf_key"},
      {"a kind of tokenizer nobody knows", WithText(token + "model", "rwkv"),
       "tokenizer_unsupported"},
      {"a split nobody knows", WithText(token + "pre", "from-2031"), "tokenizer_unsupported"},
      {"types of fewer tokens",
       [=](Writer& w) {
         w.Without(token + "token_type").Int32s(token + "token_type", std::vector<int32_t>{1, 1});
       },
       "tokenizer_invalid"},
      {"ordinary tokens without a row", Tokens({"a", "b", "c", "d"}), "tokenizer_invalid"},
      {"a part of a split file", WithNumber("split.count", ValueType::kUint16, uint16_t{3}),
       "gguf_split"},
      {"an array of arrays",
       [](Writer& w) {
         Bytes inner;
         gguf::testing::Append(&inner, uint32_t{4});
         gguf::testing::Append(&inner, uint64_t{0});
         w.RawArray("extra.nested", 9, 1, inner);
       },
       "gguf_type"},
      {"a scaling nobody knows", WithText("llama.rope.scaling.type", "spiral"), "model_hparam"},
      {"a version nobody knows", [](Writer& w) { w.version = 9; }, "gguf_version"},
  };
  for (const BadFile& bad : files) {
    SCOPED_TRACE(bad.name);
    Writer writer = SoundFile();
    bad.change(writer);
    EXPECT_EQ(Serve(writer.Build()).status.reason(), bad.code);
  }
}

}  // namespace
}  // namespace tutti::model
