#include "model/testing/generated_encoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "files/source.h"
#include "model/tensor_store.h"
#include "safetensors/checkpoint.h"

namespace tutti::model::testing {

void GeneratedEncoder::Add(const std::string& name, std::vector<uint64_t> shape, Random& random,
                           float middle, float spread) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) count *= extent;
  std::vector<float> values(count);
  for (float& value : values)
    value = middle + spread * (static_cast<float>(random.Uniform()) * 2 - 1);
  Add(name, std::move(shape), std::move(values));
}

void GeneratedEncoder::Add(const std::string& name, std::vector<uint64_t> shape,
                           std::vector<float> values) {
  writer.Floats(name, std::move(shape), values);
  tensors[name] = std::move(values);
}

GeneratedEncoder GenerateEncoder(const GeneratedEncoderSpec& spec) {
  GeneratedEncoder made;
  EncoderConfig& c = made.config;
  c.architecture = spec.architecture;
  c.layers = 2;
  c.width = 64;
  c.feed_forward = 96;
  c.heads = 4;
  c.vocab_size = 50;
  c.positions = 80;
  const bool nomic = spec.architecture == "nomic-bert";
  c.first_position = spec.architecture == "bert" || nomic ? 0 : 2;
  c.token_types = 2;
  c.norm_eps = 1e-12f;
  c.pooling = spec.pooling;
  c.max_tokens = c.positions - c.first_position;
  for (int i = 0; i < spec.labels; ++i) c.labels.push_back("label " + std::to_string(i));
  Random random(7);
  const auto width = static_cast<uint64_t>(c.width), wide = static_cast<uint64_t>(c.feed_forward);
  const auto norm = [&](const std::string& name) {
    made.Add(name + ".weight", {width}, random, 1, 0.3f);
    made.Add(name + ".bias", {width}, random, 0, 0.3f);
  };
  const auto linear = [&](const std::string& name, uint64_t out, uint64_t in) {
    made.Add(name + ".weight", {out, in}, random, 0, 0.2f);
    made.Add(name + ".bias", {out}, random, 0, 0.2f);
  };
  std::vector<float> words(static_cast<size_t>(c.vocab_size) * width);
  for (float& value : words) value = static_cast<float>(random.Uniform()) * 2 - 1;
  if (spec.poisoned >= 0) {
    // Finite, as files must be; the norm of such a row is not.
    const auto row = words.begin() + spec.poisoned * static_cast<std::ptrdiff_t>(width);
    std::fill(row, row + static_cast<std::ptrdiff_t>(width), 3e38f);
  }
  made.Add("embeddings.word_embeddings.weight", {static_cast<uint64_t>(c.vocab_size), width},
           std::move(words));
  if (nomic) {
    c.rope_base = 1000;
    c.gated = true;
    c.activation_function = Activation::kSilu;
    c.qkv_bias = c.output_bias = c.up_bias = c.down_bias = false;
  } else {
    made.Add("embeddings.position_embeddings.weight", {static_cast<uint64_t>(c.positions), width},
             random, 0, 0.5f);
  }
  made.Add("embeddings.token_type_embeddings.weight", {2, width}, random, 0, 0.5f);
  norm(nomic ? "emb_ln" : "embeddings.LayerNorm");
  for (int i = 0; i < c.layers; ++i) {
    if (nomic) {
      const std::string at = "encoder.layers." + std::to_string(i) + ".";
      const auto matrix = [&](const char* name, uint64_t out, uint64_t in) {
        made.Add(at + name + ".weight", {out, in}, random, 0, 0.2f);
      };
      matrix("attn.Wqkv", 3 * width, width);
      matrix("attn.out_proj", width, width);
      norm(at + "norm1");
      matrix("mlp.fc11", wide, width);
      matrix("mlp.fc12", wide, width);
      matrix("mlp.fc2", width, wide);
      norm(at + "norm2");
      continue;
    }
    const std::string at = "encoder.layer." + std::to_string(i) + ".";
    for (const char* part : {"query", "key", "value"})
      linear(at + "attention.self." + part, width, width);
    linear(at + "attention.output.dense", width, width);
    norm(at + "attention.output.LayerNorm");
    linear(at + "intermediate.dense", wide, width);
    linear(at + "output.dense", width, wide);
    norm(at + "output.LayerNorm");
  }
  if (spec.labels == 0) return made;
  const bool pooler = spec.architecture == "bert" || nomic;
  linear(pooler ? "pooler.dense" : "classifier.dense", width, width);
  linear(pooler ? "classifier" : "classifier.out_proj", static_cast<uint64_t>(spec.labels), width);
  return made;
}

std::shared_ptr<const EncoderWeights> LoadGenerated(const GeneratedEncoder& generated,
                                                    EncoderDType dtype) {
  const auto bytes = generated.writer.Build();
  auto file = safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
  CHECK(file.ok()) << file.status();
  const auto store = MakeTensorStore(safetensors::Checkpoint::Of(*file));
  EncoderWeights::Options options;
  options.dtype = dtype;
  auto weights = EncoderWeights::Load(generated.config, *store, options);
  CHECK(weights.ok()) << weights.status();
  return *std::move(weights);
}

std::vector<GeneratedText> GenerateTexts(const EncoderConfig& config, int count, TokenId poisoned) {
  Random random(11);
  std::vector<GeneratedText> texts(static_cast<size_t>(count));
  for (GeneratedText& text : texts) {
    const uint64_t length = 1 + random.Below(static_cast<uint64_t>(config.max_tokens));
    for (uint64_t i = 0; i < length; ++i) {
      auto token = static_cast<TokenId>(random.Below(static_cast<uint64_t>(config.vocab_size)));
      if (token == poisoned) token = (token + 1) % config.vocab_size;
      text.tokens.push_back(token);
      text.types.push_back(static_cast<uint8_t>(i * 2 >= length));
    }
  }
  return texts;
}

}  // namespace tutti::model::testing
