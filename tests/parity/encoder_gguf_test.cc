// all-MiniLM-L6-v2 as a GGUF: written here as converters write it, it gives the same bits as the
// folder it came from.
#include "model/encoder_gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "minilm.h"
#include "runner/compute_pool.h"

namespace tutti::parity {
namespace {

using gguf::testing::Writer;

// The way there of model::TransformersName.
std::string GgufName(const std::string& name) {
  const std::pair<const char*, const char*> names[] = {
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.position_embeddings", "position_embd"},
      {"embeddings.token_type_embeddings", "token_types"},
      {"embeddings.LayerNorm", "token_embd_norm"},
      {"attention.self.query", "attn_q"},
      {"attention.self.key", "attn_k"},
      {"attention.self.value", "attn_v"},
      {"attention.output.dense", "attn_output"},
      {"attention.output.LayerNorm", "attn_output_norm"},
      {"intermediate.dense", "ffn_up"},
      {"output.dense", "ffn_down"},
      {"output.LayerNorm", "layer_output_norm"},
      {"encoder.layer", "blk"},
  };
  std::string out = name;
  for (const auto& [from, to] : names) {
    if (const size_t at = out.find(from); at != std::string::npos)
      out.replace(at, std::strlen(from), to);
  }
  return out;
}

Writer Convert(const model::EncoderCheckpoint& checkpoint, tensor::DType dtype) {
  const model::EncoderConfig& config = checkpoint.config;
  Writer writer;
  const auto number = [](int value) { return static_cast<uint32_t>(value); };
  writer.String("general.architecture", "bert")
      .U32("bert.block_count", number(config.layers))
      .U32("bert.context_length", number(config.positions))
      .U32("bert.embedding_length", number(config.width))
      .U32("bert.feed_forward_length", number(config.feed_forward))
      .U32("bert.attention.head_count", number(config.heads))
      .F32("bert.attention.layer_norm_epsilon", config.norm_eps)
      .Bool("bert.attention.causal", false)
      .U32("bert.pooling_type", 1);
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  const tokenizer::Vocabulary& vocabulary = checkpoint.tokenizer->vocabulary();
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string text(vocabulary.Text(id));
    types.push_back(static_cast<int32_t>(vocabulary.Type(id)));
    if (vocabulary.IsSpecial(id)) {
      tokens.push_back(text);
    } else {
      tokens.push_back(text.starts_with("##") ? text.substr(2) : "\u2581" + text);
    }
  }
  writer.String("tokenizer.ggml.model", "bert")
      .String("tokenizer.ggml.pre", "jina-v2-en")
      .Strings("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .U32("tokenizer.ggml.token_type_count", number(config.token_types))
      .U32("tokenizer.ggml.unknown_token_id", 100)
      .U32("tokenizer.ggml.seperator_token_id", 102)
      .U32("tokenizer.ggml.padding_token_id", 0)
      .U32("tokenizer.ggml.cls_token_id", 101)
      .U32("tokenizer.ggml.mask_token_id", 103);
  for (const model::StoredTensor& tensor : checkpoint.tensors->tensors()) {
    if (!tensor.unreadable.empty() || tensor.name.starts_with("pooler.")) continue;
    auto values = checkpoint.tensors->ReadFloats(tensor);
    EXPECT_TRUE(values.ok()) << values.status();
    const bool matrix = tensor.shape.dims == 2 && tensor.name.starts_with("encoder.");
    const auto extent = [&](size_t i) { return static_cast<uint64_t>(tensor.shape.ne[i]); };
    const std::string name = GgufName(tensor.name);
    EXPECT_EQ(model::TransformersName("bert", name), tensor.name);
    if (tensor.shape.dims == 2) {
      writer.Tensor(name, matrix ? dtype : tensor::DType::kF32, {extent(0), extent(1)}, *values);
    } else {
      writer.Tensor(name, tensor::DType::kF32, {extent(0)}, *values);
    }
  }
  return writer;
}

class MiniLmGguf : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = OpenMiniLm();
    ASSERT_TRUE(opened.ok());
    folder_ = std::move(*opened);
    references_ = ReadTextReferences();
  }

  static model::EncoderCheckpoint Open(const Writer& writer) {
    auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(model::HoldsEncoder((*file)->header()));
    auto checkpoint = model::EncoderCheckpoint::FromGguf(*file);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return *std::move(checkpoint);
  }

  std::vector<float> Encode(const model::EncoderCheckpoint& checkpoint, model::Encoder& encoder,
                            const std::string& text) {
    const auto ids = checkpoint.tokenizer->EncodeInput(text, {.max_tokens = 256}).ids;
    const std::vector<int32_t> offsets = {0, static_cast<int32_t>(ids.size())};
    const model::EncoderBatch batch{ids, {}, offsets};
    encoder.Prepare(batch);
    pool_.Run([&](model::Team& team) { encoder.Run(batch, team); });
    std::vector<float> vector(static_cast<size_t>(checkpoint.config.width));
    model::PoolRows(encoder.hidden(), offsets[1], checkpoint.config.width,
                    checkpoint.config.pooling, vector.data());
    return vector;
  }

  model::EncoderCheckpoint folder_;
  std::vector<TextReference> references_;
  runner::ComputePool pool_{{.workers = 2}};
};

TEST_F(MiniLmGguf, GivesTheBitsOfTheFolderItWasConvertedFrom) {
  const model::EncoderCheckpoint file = Open(Convert(folder_, tensor::DType::kF32));
  EXPECT_EQ(file.config.max_tokens, 512);
  EXPECT_EQ(file.config.pooling, model::Pooling::kMean);
  EXPECT_TRUE(file.config.normalize);
  const auto from_folder = MakeEncoder(LoadWeights(folder_, model::EncoderDType::kF32), 2, 256);
  const auto from_file = MakeEncoder(LoadWeights(file, model::EncoderDType::kF32), 2, 256);
  for (size_t i = 0; i < references_.size(); ++i) {
    const std::string& text = references_[i].text;
    ASSERT_EQ(file.tokenizer->EncodeInput(text).ids, folder_.tokenizer->EncodeInput(text).ids) << i;
    if (i % 10 != 0) continue;
    const auto a = Encode(folder_, *from_folder, text), b = Encode(file, *from_file, text);
    ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << "text " << i;
  }
}

// The loss is that of the file's four bits: float32 of the same weights is no nearer.
TEST_F(MiniLmGguf, QuantisedFilesStayNearTheReferenceInEveryType) {
  struct Case {
    tensor::DType stored;
    double least;
  };
  for (const Case& c : {Case{tensor::DType::kF16, 0.99}, Case{tensor::DType::kQ8_0, 0.99},
                        Case{tensor::DType::kQ4_1, 0.92}}) {
    const model::EncoderCheckpoint file = Open(Convert(folder_, c.stored));
    for (const model::EncoderDType dtype :
         {model::EncoderDType::kF32, model::EncoderDType::kBf16, model::EncoderDType::kInt8,
          model::EncoderDType::kInt8Blocks}) {
      const auto encoder = MakeEncoder(LoadWeights(file, dtype), 2, 256);
      double worst = 1;
      for (size_t i = 0; i < references_.size(); i += 50)
        worst = std::min(
            worst, Cosine(Encode(file, *encoder, references_[i].text), references_[i].vector));
      EXPECT_GE(worst, c.least) << tensor::Name(c.stored) << " as "
                                << model::EncoderDTypeName(dtype);
      std::printf("%s as %s: minimum cosine %.5f\n", std::string(tensor::Name(c.stored)).c_str(),
                  model::EncoderDTypeName(dtype), worst);
    }
  }
}

// Faults that a conversion may produce, or that a file may contain on purpose.
TEST_F(MiniLmGguf, AFileThatIsNotWhatItSaysIsRefused) {
  const auto refusal = [&](const std::function<void(Writer&)>& spoil) {
    Writer writer;
    writer.String("general.architecture", "bert");
    spoil(writer);
    auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    EXPECT_TRUE(file.ok()) << file.status();
    return model::EncoderCheckpoint::FromGguf(*file).status().reason();
  };
  const auto keys = [](Writer& writer, float eps = 1e-12f) {
    writer.U32("bert.block_count", 1)
        .U32("bert.context_length", 8)
        .U32("bert.embedding_length", 32)
        .U32("bert.feed_forward_length", 32)
        .U32("bert.attention.head_count", 1)
        .F32("bert.attention.layer_norm_epsilon", eps);
  };
  const std::vector<float> rows(32 * 8, 0.5f);
  const auto tables = [&](Writer& writer) {
    writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, 8}, rows)
        .Tensor("position_embd.weight", tensor::DType::kF32, {32, 8}, rows);
  };
  EXPECT_EQ(refusal([](Writer&) {}), "model_hparam");
  EXPECT_EQ(refusal([&](Writer& w) { keys(w); }), "model_tensor_missing");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              tables(w);
              w.Bool("bert.attention.causal", true);
            }),
            "model_hparam");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w, -1);
              tables(w);
            }),
            "model_hparam");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              tables(w);
              w.U32("bert.pooling_type", 9);
            }),
            "model_hparam");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              w.Tensor("token_embd.weight", tensor::DType::kF32, {256}, rows);
            }),
            "model_hparam");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              tables(w);
              w.Strings("bert.classifier.output_labels", std::vector<std::string>{});
            }),
            "model_hparam");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              tables(w);
            }),
            "gguf_key");  // no tokenizer
  const auto tokens = [](Writer& w, size_t count) {
    std::vector<std::string> texts = {"[UNK]", "[CLS]", "[SEP]"};
    while (texts.size() < count) texts.push_back("\u2581" + std::to_string(texts.size()));
    w.String("tokenizer.ggml.model", "bert").Strings("tokenizer.ggml.tokens", texts);
    w.U32("tokenizer.ggml.unknown_token_id", 0).U32("tokenizer.ggml.cls_token_id", 1);
    w.U32("tokenizer.ggml.seperator_token_id", 2).U32("tokenizer.ggml.padding_token_id", 0);
    w.U32("tokenizer.ggml.mask_token_id", 0);
  };
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              tables(w);
              tokens(w, 8);
            }),
            "");
  EXPECT_EQ(refusal([&](Writer& w) {
              keys(w);
              tables(w);
              tokens(w, 9);
            }),
            "tokenizer_invalid");
  EXPECT_EQ(
      refusal([&](Writer& w) {
        keys(w);
        tokens(w, 8);
        w.Tensor("token_embd.weight", tensor::DType::kF32, {32, 8}, rows);
        w.Tensor("position_embd.weight", tensor::DType::kF32, {32, 3}, std::span(rows).first(96));
      }),
      "model_hparam");
}

}  // namespace
}  // namespace tutti::parity
