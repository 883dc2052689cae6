// DecoderFolder: a small decoder as transformers writes it, for tests of reading and converting
// folders. Test code only; one thread.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "model/decoder_checkpoint.h"
#include "safetensors/testing/writer.h"

namespace tutti::model::testing {

namespace json = boost::json;

// A llama of 1 layer of 64 as transformers writes it, in two shards or one file; removed with the
// object.
class DecoderFolder {
 public:
  explicit DecoderFolder(const std::string& name)
      : path_(::testing::TempDir() + "decoder_folder_" + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    config = {{"model_type", "llama"},      {"hidden_size", 64},
              {"intermediate_size", 96},    {"num_hidden_layers", 1},
              {"num_attention_heads", 4},   {"num_key_value_heads", 2},
              {"rms_norm_eps", 1e-5},       {"max_position_embeddings", 128},
              {"hidden_act", "silu"},       {"vocab_size", kRows},
              {"tie_word_embeddings", true}};
  }
  ~DecoderFolder() { std::filesystem::remove_all(path_); }

  static constexpr uint64_t kRows = 320;  // more than the tokenizer has

  Result<DecoderCheckpoint> Open() {
    Put("config.json", json::serialize(config));
    Put("tokenizer.json", TokenizerJson());
    Put("tokenizer_config.json", R"({"eos_token":"<|im_end|>","chat_template":"old"})");
    Put("generation_config.json", generation);
    Put("chat_template.jinja", "{{ messages[0]['content'] }}");
    PutTensors();
    return DecoderCheckpoint::Open(path_);
  }
  void Put(const std::string& name, std::string_view text) {
    safetensors::testing::WriteFile(path_ + "/" + name, text);
  }
  const std::string& path() const { return path_; }

  json::object config;
  std::vector<std::pair<std::string, uint64_t>> added;  // special tokens beyond the usual
  std::string generation = R"({"eos_token_id":[2,0]})";
  float embedding = 0.5F;  // of every weight of the embedding
  bool sharded = true;

 private:
  std::string TokenizerJson() const {
    json::object vocabulary;
    const auto tokens = gguf::testing::CheckpointTokens();
    json::array specials;
    for (const auto& [text, id] : added)
      specials.push_back({{"id", id}, {"content", text}, {"special", true}});
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (id < 3) {
        specials.push_back({{"id", id}, {"content", tokens[id]}, {"special", true}});
      } else {
        vocabulary[tokens[id]] = id;
      }
    }
    json::array merges;
    for (const std::string& merge : gguf::testing::CheckpointMerges()) merges.emplace_back(merge);
    const json::array steps = {{{"type", "Digits"}, {"individual_digits", true}},
                               {{"type", "ByteLevel"}, {"add_prefix_space", false}}};
    return json::serialize(
        json::object{{"added_tokens", specials},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}});
  }

  using Added = std::function<void(const std::string&, std::vector<uint64_t>, float)>;
  void AddOuter(const Added& add) const {
    add("model.embed_tokens.weight", {kRows, 64}, embedding);
    add("model.norm.weight", {64}, 1);
  }
  static void AddLayer(const Added& add) {
    const std::string layer = "model.layers.0.";
    add(layer + "input_layernorm.weight", {64}, 1);
    add(layer + "post_attention_layernorm.weight", {64}, 1);
    add(layer + "self_attn.q_proj.weight", {64, 64}, 0.25F);
    add(layer + "self_attn.k_proj.weight", {32, 64}, 0.25F);
    add(layer + "self_attn.v_proj.weight", {32, 64}, 0.25F);
    add(layer + "self_attn.o_proj.weight", {64, 64}, 0.25F);
    add(layer + "mlp.gate_proj.weight", {96, 64}, 0.25F);
    add(layer + "mlp.up_proj.weight", {96, 64}, 0.25F);
    add(layer + "mlp.down_proj.weight", {64, 96}, 0.25F);
  }

  void PutTensors() {
    json::object index;
    const auto write = [&](const std::string& file, const std::vector<int>& parts) {
      safetensors::testing::Writer writer;
      const Added add = [&](const std::string& name, std::vector<uint64_t> shape, float value) {
        size_t count = 1;
        for (const uint64_t extent : shape) count *= static_cast<size_t>(extent);
        writer.Floats(name, std::move(shape), std::vector<float>(count, value));
        index[name] = file;
      };
      for (const int part : parts) part == 1 ? AddOuter(add) : AddLayer(add);
      safetensors::testing::WriteFile(path_ + "/" + file, writer.Build());
    };
    if (!sharded) return write("model.safetensors", {2, 1});
    write("model-00001-of-00002.safetensors", {1});
    write("model-00002-of-00002.safetensors", {2});
    Put("model.safetensors.index.json", json::serialize(json::object{{"weight_map", index}}));
  }

  const std::string path_;
};

}  // namespace tutti::model::testing
