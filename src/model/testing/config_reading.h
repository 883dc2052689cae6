// Reading of configurations that a test has spoilt: of a GGUF with few keys, and of a folder's
// config.json. Test code only; one thread.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "model/config.h"
#include "model/config_parameters.h"
#include "model/families/family.h"
#include "model/tensor_store.h"
#include "model/text_config.h"

namespace tutti::model::testing {

using gguf::testing::Writer;

// The hyper-parameters of a sound checkpoint, to be spoilt one by one. Written here key by key,
// because a key can be left out of a Writer only by not adding it.
struct Keys {
  std::string architecture = "llama";
  int64_t layers = 1, context = 64, width = 32, feed_forward = 32, heads = 2, kv_heads = 1,
          rope_dims = 16;
  float eps = 1e-5f;
  uint64_t vocabulary = 40;
  std::function<void(Writer&)> more = nullptr;
};

inline void WriteKeys(const Keys& keys, Writer& writer) {
  writer.String("general.architecture", keys.architecture)
      .U64("llama.block_count", static_cast<uint64_t>(keys.layers))
      .U64("llama.context_length", static_cast<uint64_t>(keys.context))
      .U64("llama.embedding_length", static_cast<uint64_t>(keys.width))
      .U64("llama.feed_forward_length", static_cast<uint64_t>(keys.feed_forward))
      .U64("llama.attention.head_count", static_cast<uint64_t>(keys.heads))
      .U64("llama.attention.head_count_kv", static_cast<uint64_t>(keys.kv_heads))
      .F32("llama.attention.layer_norm_rms_epsilon", keys.eps)
      .U64("llama.rope.dimension_count", static_cast<uint64_t>(keys.rope_dims));
  if (keys.more) keys.more(writer);
  writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, keys.vocabulary},
                std::vector<float>(32 * keys.vocabulary));
}

inline Result<ModelConfig> Read(const Keys& keys) {
  Writer writer;
  WriteKeys(keys, writer);
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return ReadModelConfig(**file);
}

inline void ExpectRefused(const Keys& keys, const std::string& part,
                          const std::string& reason = "model_hparam") {
  const auto config = Read(keys);
  ASSERT_FALSE(config.ok()) << "expected a refusal about " << part;
  EXPECT_EQ(config.status().reason(), reason) << config.status();
  EXPECT_THAT(config.status().message(), ::testing::HasSubstr(part));
}

// The configuration of a folder of 4 layers whose config.json has the keys `more` too.
inline Result<ModelConfig> ReadFolder(const std::string& more) {
  const std::string text =
      R"({"hidden_size":64,"intermediate_size":96,"num_hidden_layers":4,"num_attention_heads":4,
          "num_key_value_heads":2,"rms_norm_eps":1e-5,"max_position_embeddings":128,)" +
      more + "}";
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "config.json"));
  std::vector<std::string> remarks;
  ASSIGN_OR_RETURN(const TextConfig config, TextConfig::Read(file, remarks));
  Writer writer;
  writer.Tensor("token_embd.weight", tensor::DType::kF32, {64, 40}, std::vector<float>(64 * 40));
  ASSIGN_OR_RETURN(const auto tensors, gguf::File::FromSource(gguf::MemorySource(writer.Build())));
  return ReadModelConfig(*config.family, Form::kTransformers, ConfigParameters(config.keys),
                         *MakeTensorStore(tensors));
}

inline void ExpectFolderRefused(const std::string& more, const std::string& part) {
  const auto config = ReadFolder(more);
  ASSERT_FALSE(config.ok()) << more;
  EXPECT_EQ(config.status().reason(), "model_hparam") << config.status();
  EXPECT_THAT(config.status().message(), ::testing::HasSubstr(part));
}

}  // namespace tutti::model::testing
