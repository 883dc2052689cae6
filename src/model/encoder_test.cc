// The encoder compared with a float64 reference of the same network, on generated checkpoints.
#include "model/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "files/source.h"
#include "kernels/isa.h"
#include "model/testing/generated_encoder.h"
#include "safetensors/checkpoint.h"
#include "safetensors/testing/writer.h"

namespace tutti::model {
namespace {

using Rows = std::vector<std::vector<double>>;

using testing::GenerateEncoder;
using Checkpoint = testing::GeneratedEncoder;

Checkpoint Generate(const std::string& architecture = "bert", int labels = 0) {
  return GenerateEncoder({.architecture = architecture, .labels = labels});
}

// ---- The definition, in float64

std::vector<double> Norm(const Checkpoint& c, const std::string& name, std::vector<double> x) {
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - mean) / std::sqrt(variance + c.config.norm_eps) *
               c.tensors.at(name + ".weight")[i] +
           c.tensors.at(name + ".bias")[i];
  }
  return x;
}

std::vector<double> Multiply(const Checkpoint& c, const std::string& name,
                             const std::vector<double>& x) {
  const std::vector<float>& weight = c.tensors.at(name + ".weight");
  std::vector<double> y(weight.size() / x.size());
  if (const auto bias = c.tensors.find(name + ".bias"); bias != c.tensors.end())
    y.assign(bias->second.begin(), bias->second.end());
  for (size_t n = 0; n < y.size(); ++n)
    for (size_t k = 0; k < x.size(); ++k) y[n] += x[k] * weight[n * x.size() + k];
  return y;
}

std::vector<double> Sum(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Rows Attend(const Checkpoint& c, const Rows& q, const Rows& k, const Rows& v) {
  const auto dim = static_cast<size_t>(c.config.head_dim());
  Rows out(q.size(), std::vector<double>(q[0].size()));
  for (size_t h = 0; h < static_cast<size_t>(c.config.heads) * dim; h += dim) {
    for (size_t r = 0; r < q.size(); ++r) {
      std::vector<double> weights(q.size());
      double total = 0;
      for (size_t s = 0; s < q.size(); ++s) {
        double score = 0;
        for (size_t i = h; i < h + dim; ++i) score += q[r][i] * k[s][i];
        total += weights[s] = std::exp(score / std::sqrt(static_cast<double>(dim)));
      }
      for (size_t s = 0; s < q.size(); ++s)
        for (size_t i = h; i < h + dim; ++i) out[r][i] += weights[s] / total * v[s][i];
    }
  }
  return out;
}

// Row r of queries or keys, each head's halves turned by r.
std::vector<double> Rotated(const Checkpoint& c, std::vector<double> x, size_t r) {
  const auto dim = static_cast<size_t>(c.config.head_dim());
  for (size_t h = 0; h < x.size(); h += dim) {
    for (size_t i = 0; i < dim / 2; ++i) {
      const double angle =
          static_cast<double>(r) *
          std::pow(c.config.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const double a = x[h + i], b = x[h + dim / 2 + i];
      x[h + i] = a * std::cos(angle) - b * std::sin(angle);
      x[h + dim / 2 + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return x;
}

Rows EmbeddedRows(const Checkpoint& c, const std::vector<TokenId>& tokens,
                  const std::vector<uint8_t>& types) {
  const auto width = static_cast<size_t>(c.config.width);
  const auto row_of = [&](const char* table, size_t row) {
    const float* begin = c.tensors.at(table).data() + row * width;
    return std::vector<double>(begin, begin + width);
  };
  Rows x;
  for (size_t r = 0; r < tokens.size(); ++r) {
    std::vector<double> row =
        row_of("embeddings.word_embeddings.weight", static_cast<size_t>(tokens[r]));
    if (c.config.rope_base == 0) {
      row = Sum(row, row_of("embeddings.position_embeddings.weight",
                            r + static_cast<size_t>(c.config.first_position)));
    }
    row = Sum(row, row_of("embeddings.token_type_embeddings.weight", types.empty() ? 0 : types[r]));
    x.push_back(Norm(c, c.config.gated ? "emb_ln" : "embeddings.LayerNorm", std::move(row)));
  }
  return x;
}

Rows ExpectedOfNomic(const Checkpoint& c, Rows x) {
  const auto width = static_cast<std::ptrdiff_t>(c.config.width);
  for (int i = 0; i < c.config.layers; ++i) {
    const std::string at = "encoder.layers." + std::to_string(i) + ".";
    Rows q, k, v;
    for (size_t r = 0; r < x.size(); ++r) {
      const std::vector<double> all = Multiply(c, at + "attn.Wqkv", x[r]);
      q.push_back(Rotated(c, {all.begin(), all.begin() + width}, r));
      k.push_back(Rotated(c, {all.begin() + width, all.begin() + 2 * width}, r));
      v.emplace_back(all.begin() + 2 * width, all.end());
    }
    const Rows attended = Attend(c, q, k, v);
    for (size_t r = 0; r < x.size(); ++r) {
      x[r] = Norm(c, at + "norm1", Sum(x[r], Multiply(c, at + "attn.out_proj", attended[r])));
      std::vector<double> wide = Multiply(c, at + "mlp.fc12", x[r]);
      const std::vector<double> up = Multiply(c, at + "mlp.fc11", x[r]);
      for (size_t n = 0; n < wide.size(); ++n) wide[n] = wide[n] / (1 + std::exp(-wide[n])) * up[n];
      x[r] = Norm(c, at + "norm2", Sum(x[r], Multiply(c, at + "mlp.fc2", wide)));
    }
  }
  return x;
}

Rows Expected(const Checkpoint& c, const std::vector<TokenId>& tokens,
              const std::vector<uint8_t>& types) {
  Rows x = EmbeddedRows(c, tokens, types);
  if (c.config.gated) return ExpectedOfNomic(c, std::move(x));
  for (int i = 0; i < c.config.layers; ++i) {
    const std::string at = "encoder.layer." + std::to_string(i) + ".";
    const auto each = [&](const char* name) {
      Rows out;
      for (const auto& row : x) out.push_back(Multiply(c, at + name, row));
      return out;
    };
    const Rows attended = Attend(c, each("attention.self.query"), each("attention.self.key"),
                                 each("attention.self.value"));
    for (size_t r = 0; r < x.size(); ++r) {
      x[r] = Norm(c, at + "attention.output.LayerNorm",
                  Sum(x[r], Multiply(c, at + "attention.output.dense", attended[r])));
      std::vector<double> wide = Multiply(c, at + "intermediate.dense", x[r]);
      for (double& v : wide) v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
      x[r] = Norm(c, at + "output.LayerNorm", Sum(x[r], Multiply(c, at + "output.dense", wide)));
    }
  }
  return x;
}

// ---- The encoder

struct Text : testing::GeneratedText {
  bool scored = true;
};

std::vector<Text> Texts(const EncoderConfig& config, int count) {
  std::vector<Text> texts;
  for (testing::GeneratedText& text : testing::GenerateTexts(config, count))
    texts.push_back({std::move(text)});
  return texts;
}

std::shared_ptr<const EncoderWeights> Load(const Checkpoint& checkpoint, EncoderDType dtype) {
  return testing::LoadGenerated(checkpoint, dtype);
}

// The rows of the texts, run together; with `scores` those of every text that is marked.
std::vector<std::vector<float>> Compute(
    const std::shared_ptr<const EncoderWeights>& weights, const kernels::KernelTable& kernels,
    int workers, const std::vector<const Text*>& texts,
    std::map<const Text*, std::vector<float>>* scores = nullptr) {
  Encoder::Options options;
  options.workers = workers;
  options.max_rows = 2048;
  auto encoder = Encoder::Create(weights, kernels, options);
  EXPECT_TRUE(encoder.ok());
  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
  std::vector<int32_t> offsets = {0};
  for (const Text* text : texts) {
    tokens.insert(tokens.end(), text->tokens.begin(), text->tokens.end());
    types.insert(types.end(), text->types.begin(), text->types.end());
    offsets.push_back(static_cast<int32_t>(tokens.size()));
  }
  std::vector<int32_t> scored;
  for (size_t i = 0; i < texts.size() && scores != nullptr; ++i)
    if (texts[i]->scored) scored.push_back(offsets[i]);
  const EncoderBatch batch{tokens, types, offsets, scored};
  (*encoder)->Prepare(batch);
  PhaseBoard board(workers);
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        Team team(board, worker, {});
        (*encoder)->Run(batch, team);
      });
    }
  }
  int next = 0;
  for (size_t i = 0; i < texts.size() && scores != nullptr; ++i) {
    if (!texts[i]->scored) continue;
    const float* found = (*encoder)->scores(next++);
    (*scores)[texts[i]].assign(found, found + weights->config().labels.size());
  }
  const auto width = static_cast<size_t>(weights->config().width);
  std::vector<std::vector<float>> out;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const float* rows = (*encoder)->hidden();
    out.emplace_back(rows + static_cast<size_t>(offsets[i]) * width,
                     rows + static_cast<size_t>(offsets[i + 1]) * width);
  }
  return out;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class EveryIsa : public ::testing::TestWithParam<kernels::Isa> {
 protected:
  const kernels::KernelTable& kernels() const { return kernels::KernelsFor(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Isa, EveryIsa, ::testing::ValuesIn(kernels::DetectIsas()),
                         [](const auto& isa) { return std::string(kernels::IsaName(isa.param)); });

TEST_P(EveryIsa, RowsAreThoseOfTheDefinition) {
  for (const char* architecture : {"bert", "roberta", "nomic-bert"}) {
    const Checkpoint checkpoint = Generate(architecture);
    const auto weights = Load(checkpoint, EncoderDType::kF32);
    const std::vector<Text> texts = Texts(checkpoint.config, 6);
    std::vector<const Text*> all;
    for (const Text& text : texts) all.push_back(&text);
    const auto rows = Compute(weights, kernels(), 2, all);
    for (size_t i = 0; i < texts.size(); ++i) {
      const Rows expected = Expected(checkpoint, texts[i].tokens, texts[i].types);
      for (size_t k = 0; k < rows[i].size(); ++k)
        ASSERT_NEAR(rows[i][k], expected[k / 64][k % 64], 2e-5) << architecture << " text " << i;
    }
  }
}

TEST_P(EveryIsa, ScoresAreThoseOfTheDefinitionWhateverElseIsInTheBatch) {
  for (const char* architecture : {"bert", "roberta", "nomic-bert"}) {
    for (const int labels : {1, 3, 40}) {
      const Checkpoint checkpoint = Generate(architecture, labels);
      const bool pooler = std::string(architecture) != "roberta";
      const auto weights = Load(checkpoint, EncoderDType::kF32);
      std::vector<Text> texts = Texts(checkpoint.config, 6);
      texts[2].scored = false;
      std::vector<const Text*> all;
      for (const Text& text : texts) all.push_back(&text);
      std::map<const Text*, std::vector<float>> scores;
      Compute(weights, kernels(), 2, all, &scores);
      EXPECT_EQ(scores.size(), 5u);
      for (const auto& [text, found] : scores) {
        std::vector<double> row = Multiply(checkpoint, pooler ? "pooler.dense" : "classifier.dense",
                                           Expected(checkpoint, text->tokens, text->types)[0]);
        for (double& v : row) v = std::tanh(v);
        row = Multiply(checkpoint, pooler ? "classifier" : "classifier.out_proj", row);
        for (size_t i = 0; i < row.size(); ++i) ASSERT_NEAR(found[i], row[i], 5e-5) << labels;
        std::map<const Text*, std::vector<float>> alone;
        Compute(weights, kernels(), 1, {text}, &alone);
        ASSERT_TRUE(SameBits(found, alone.at(text))) << labels;
      }
    }
  }
}

TEST_P(EveryIsa, ATextGivesTheSameBitsAloneAndInAnyBatchWithAnyWorkers) {
  for (const char* architecture : {"bert", "nomic-bert"})
    for (const EncoderDType dtype : {EncoderDType::kF32, EncoderDType::kBf16, EncoderDType::kInt8,
                                     EncoderDType::kInt8Blocks}) {
      const Checkpoint checkpoint = Generate(architecture);
      const auto weights = Load(checkpoint, dtype);
      const std::vector<Text> texts = Texts(checkpoint.config, 24);
      std::vector<std::vector<float>> alone;
      for (const Text& text : texts) alone.push_back(Compute(weights, kernels(), 1, {&text})[0]);
      Random random(3);
      for (int trial = 0; trial < 12; ++trial) {
        std::vector<size_t> chosen(1 + random.Below(texts.size()));
        std::vector<const Text*> batch;
        for (size_t& index : chosen) {
          index = random.Below(texts.size());
          batch.push_back(&texts[index]);
        }
        const auto rows = Compute(weights, kernels(), 1 + trial % 3, batch);
        for (size_t i = 0; i < chosen.size(); ++i)
          ASSERT_TRUE(SameBits(rows[i], alone[chosen[i]])) << "trial " << trial << " text " << i;
      }
    }
}

TEST(EncoderWeights, TheNamesMayHaveThePrefixAndHeadsOfOtherTasks) {
  Checkpoint prefixed;
  const Checkpoint plain = Generate();
  prefixed.config = plain.config;
  const auto bytes = plain.writer.Build();
  auto file = *safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
  for (const auto& tensor : file->tensors()) {
    const auto dims = tensor.shape.dims();
    prefixed.writer.Floats("bert." + tensor.name, {dims.begin(), dims.end()},
                           plain.tensors.at(tensor.name));
  }
  prefixed.writer.Floats("bert.pooler.dense.bias", {64}, std::vector<float>(64, 1));
  prefixed.writer.Tensor("bert.embeddings.position_ids", "I64", {1, 2},
                         safetensors::testing::BytesOf(std::vector<int64_t>{0, 1}));
  prefixed.writer.Floats("cls.predictions.bias", {50}, std::vector<float>(50, 1));
  const auto& table = kernels::KernelsFor(kernels::DetectIsas().front());
  const Text text = Texts(plain.config, 1)[0];
  EXPECT_TRUE(SameBits(Compute(Load(prefixed, EncoderDType::kF32), table, 1, {&text})[0],
                       Compute(Load(plain, EncoderDType::kF32), table, 1, {&text})[0]));
}

TEST(EncoderWeights, AMissingStrangeOrMisshapenTensorIsRefusedByName) {
  const auto load = [](const Checkpoint& checkpoint) {
    const auto bytes = checkpoint.writer.Build();
    auto file = *safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
    const auto store = MakeTensorStore(safetensors::Checkpoint::Of(file));
    const Status status = EncoderWeights::Load(checkpoint.config, *store, {}).status();
    EXPECT_EQ(EncoderWeights::Check(checkpoint.config, *store), status) << "before it is read";
    return status;
  };
  EXPECT_TRUE(load(Generate()).ok());
  Checkpoint headless = Generate();
  headless.config.labels = {"yes"};
  EXPECT_EQ(load(headless).reason(), "model_tensor_missing");
  Checkpoint more_labels = Generate("bert", 2);
  more_labels.config.labels.push_back("perhaps");
  EXPECT_EQ(load(more_labels).reason(), "st_shape");
  Checkpoint deeper = Generate();
  deeper.config.layers = 3;
  EXPECT_EQ(load(deeper).reason(), "model_tensor_missing");
  Checkpoint shallower = Generate();
  shallower.config.layers = 1;
  EXPECT_EQ(load(shallower).reason(), "model_hparam");
  Checkpoint wider = Generate();
  wider.config.vocab_size = 51;
  EXPECT_EQ(load(wider).reason(), "st_shape");
  Checkpoint lexical = Generate();
  lexical.config.lexical.emplace();
  EXPECT_EQ(load(lexical).reason(), "model_tensor_missing");
  EXPECT_NE(load(lexical).message().find("cls.predictions.transform.dense"), std::string::npos);
  Checkpoint other = Generate("nomic-bert");
  other.config.lexical.emplace();
  EXPECT_EQ(load(other).reason(), "model_hparam") << "there is no such head of the family";
  Checkpoint dense = Generate();
  DenseModule& module = dense.config.dense.emplace_back();
  module.folder = "2_Dense";
  module.in = 64;
  module.out = 8;
  module.bias = false;
  EXPECT_EQ(load(dense).reason(), "model_tensor_missing");
  dense.writer.Floats("2_Dense/linear.weight", {8, 32}, std::vector<float>(256));
  EXPECT_EQ(load(dense).reason(), "st_shape");
  Checkpoint strange = Generate();
  strange.writer.Floats("adapter.weight", {1}, {1});
  EXPECT_EQ(load(strange).reason(), "model_hparam");
}

TEST(Pool, EachWayGivesWhatItsNameSays) {
  const std::vector<float> rows = {1, -5, 3, 7, 5, -2};  // [3][2]
  std::vector<float> out(2);
  PoolRows(rows.data(), 3, 2, Pooling::kMean, out.data());
  EXPECT_EQ(out, (std::vector<float>{3, 0}));
  PoolRows(rows.data(), 3, 2, Pooling::kCls, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, -5}));
  PoolRows(rows.data(), 3, 2, Pooling::kLast, out.data());
  EXPECT_EQ(out, (std::vector<float>{5, -2}));
  PoolRows(rows.data(), 3, 2, Pooling::kMax, out.data());
  EXPECT_EQ(out, (std::vector<float>{5, 7}));
}

TEST(Pool, AValueThatIsNotFiniteShowsWhereverItStands) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), kInf, -kInf}) {
    for (size_t at = 0; at < 3; ++at) {
      std::vector<float> rows = {1, 2, 3};  // [3][1]
      rows[at] = bad;
      for (const Pooling pooling : {Pooling::kMean, Pooling::kMax}) {
        float out = 0;
        PoolRows(rows.data(), 3, 1, pooling, &out);
        EXPECT_FALSE(std::isfinite(out)) << PoolingName(pooling) << " " << bad << " at " << at;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::model
