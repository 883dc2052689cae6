// Small encoders of every family compared with transformers: tensor names, configuration and
// expected rows come from the library, the weights are generated from the same seed on both sides.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "files/source.h"
#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "kernels/isa.h"
#include "minilm.h"
#include "model/encoder_gguf.h"
#include "runner/compute_pool.h"
#include "safetensors/checkpoint.h"
#include "safetensors/testing/writer.h"
#include "splitmix.h"
#include "test_paths.h"

namespace tutti::parity {
namespace {

namespace json = boost::json;

uint64_t Fnv1a64(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

// The values of tools/make_encoder_family_goldens.py.
std::vector<float> ValuesOf(const std::string& name, const std::vector<uint64_t>& shape) {
  size_t count = 1;
  for (const uint64_t extent : shape) count *= static_cast<size_t>(extent);
  const bool matrix = shape.size() == 2 && name.find("embeddings") == std::string::npos;
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool norm =
      lower.find("norm") != std::string::npos || lower.find("_ln.") != std::string::npos;
  std::vector<float> values = GeneratedFloats(Fnv1a64(name), count, matrix ? 0.125F : 0.25F);
  if (norm && name.ends_with(".weight")) {
    for (float& value : values) value += 1;
  }
  return values;
}

const json::value& Goldens() {
  static const json::value kGoldens = [] {
    std::ifstream in(support::SourcePath("tests/golden/encoder_families.json"));
    EXPECT_TRUE(in.is_open());
    std::ostringstream text;
    text << in.rdbuf();
    return json::parse(text.str());
  }();
  return kGoldens;
}

std::vector<std::pair<std::string, size_t>> ModuleNames(std::string name);

// `modules_names`: with the names of transformers' modules.
std::shared_ptr<const model::EncoderWeights> Load(
    const json::value& golden, model::EncoderDType dtype = model::EncoderDType::kF32,
    bool modules_names = false) {
  safetensors::testing::Writer writer;
  for (const auto& tensor : golden.at("tensors").as_object()) {
    std::vector<uint64_t> shape;
    for (const auto& extent : tensor.value().as_array())
      shape.push_back(extent.to_number<uint64_t>());
    const std::string name(tensor.key());
    const std::vector<float> values = ValuesOf(name, shape);
    if (!modules_names) {
      writer.Floats(name, shape, values);
      continue;
    }
    const auto parts = ModuleNames(name);
    shape[0] /= parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t each = values.size() / parts.size();
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * each);
      std::string renamed = parts[i].first;
      const bool nomic = golden.at("family").as_string().starts_with("nomic");
      if (const size_t at = renamed.find("mlp.fc2."); nomic && at != std::string::npos)
        renamed.replace(at, 8, "mlp.down_proj.");
      writer.Floats(renamed, shape, {begin, begin + static_cast<std::ptrdiff_t>(each)});
    }
  }
  const auto bytes = writer.Build();
  auto file = safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
  EXPECT_TRUE(file.ok()) << file.status();
  const auto store = model::MakeTensorStore(safetensors::Checkpoint::Of(*file));
  model::ModuleFiles files;
  files.config = json::serialize(golden.at("config"));
  if (const json::value* modules = golden.as_object().if_contains("modules")) {
    json::array list = {{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}}};
    for (const auto& module : modules->as_array()) {
      const std::string path(module.at("path").as_string());
      list.push_back({{"path", path}, {"type", module.at("type")}});
      (path == "1_Pooling" ? files.pooling : files.modules_by_folder[path]) =
          json::serialize(module.at("config"));
    }
    files.modules = json::serialize(list);
  }
  auto config = model::ReadEncoderConfig(files);
  EXPECT_TRUE(config.ok()) << config.status();
  model::EncoderWeights::Options options;
  options.dtype = dtype;
  auto weights = model::EncoderWeights::Load(*std::move(config), *store, options);
  EXPECT_TRUE(weights.ok()) << weights.status();
  return *std::move(weights);
}

TEST(EncoderFamilies, RowsAndScoresAreThoseOfTransformers) {
  runner::ComputePool pool({.workers = 2});
  int families = 0;
  for (const auto& golden : Goldens().as_array()) {
    const std::string family(golden.at("family").as_string());
    const auto weights = Load(golden);
    const auto encoder = MakeEncoder(weights, 2, 320);
    for (const auto& run : golden.at("runs").as_array()) {
      std::vector<TokenId> ids;
      for (const auto& id : run.at("ids").as_array()) ids.push_back(id.to_number<TokenId>());
      std::vector<uint8_t> types(run.at("typed").as_bool() ? ids.size() : 0);
      for (size_t i = 0; i < types.size(); ++i) types[i] = 2 * i >= types.size();
      const std::vector<int32_t> offsets = {0, static_cast<int32_t>(ids.size())};
      std::vector<int32_t> scored;
      if (!run.at("logits").as_array().empty()) scored.push_back(0);
      const model::EncoderBatch batch{ids, types, offsets, scored};
      encoder->Prepare(batch);
      pool.Run([&](model::Team& team) { encoder->Run(batch, team); });
      const auto width = static_cast<size_t>(weights->config().width);
      const auto& hidden = run.at("hidden").as_array();
      const json::value* chosen = run.as_object().if_contains("rows");  // absent: all
      for (size_t r = 0; r < hidden.size(); ++r) {
        const size_t row = chosen == nullptr ? r : chosen->at(r).to_number<size_t>();
        const float* found = encoder->hidden() + row * width;
        for (const auto& value : hidden[r].as_array())
          ASSERT_NEAR(*found++, value.to_number<double>(), 1e-5) << family << ", " << ids.size();
      }
      if (const json::value* expected = run.as_object().if_contains("vector")) {
        const model::EncoderConfig& config = weights->config();
        const auto count = static_cast<int>(ids.size());
        std::vector<float> vector(expected->as_array().size());
        if (config.per_token) {
          ASSERT_EQ(vector.size(), ids.size() * static_cast<size_t>(config.token_width()));
          encoder->WriteTokens(0, count, 0, vector);
        } else {
          ASSERT_EQ(vector.size(), static_cast<size_t>(config.vector_width())) << family;
          encoder->WriteVector(0, count, 1, vector);
          if (config.normalize) {
            double squares = 0;
            for (const float value : vector) squares += double{value} * value;
            for (float& value : vector) value /= static_cast<float>(std::sqrt(squares));
          }
        }
        for (size_t i = 0; i < vector.size(); ++i)
          ASSERT_NEAR(vector[i], expected->at(i).to_number<double>(), 1e-5) << family << " " << i;
        continue;
      }
      const auto& logits = run.at("logits").as_array();
      EXPECT_EQ(logits.size(), weights->config().labels.size()) << family;
      for (size_t i = 0; i < logits.size(); ++i)
        EXPECT_NEAR(encoder->scores(0)[i], logits[i].to_number<double>(), 1e-5) << family;
    }
    ++families;
  }
  EXPECT_EQ(families, 36);
}

// The same tensors as the modules of transformers 5 are called: some folders are saved so.
std::vector<std::pair<std::string, size_t>> ModuleNames(std::string name) {
  const std::pair<const char*, const char*> renamed[] = {{"encoder.layers.", "layers."},
                                                         {"encoder.layer.", "layers."},
                                                         {"emb_ln.", "embeddings.LayerNorm."},
                                                         {"attn.out_proj.", "self_attn.o_proj."},
                                                         {"mixer.out_proj.", "self_attn.o_proj."},
                                                         {"attention.o_proj.", "self_attn.o_proj."},
                                                         {"attn_ln.", "post_attention_layernorm."},
                                                         {"mlp_ln.", "post_mlp_layernorm."},
                                                         {"norm1.", "post_attention_layernorm."},
                                                         {"norm2.", "post_mlp_layernorm."},
                                                         {"mlp.fc11.", "mlp.up_proj."},
                                                         {"mlp.fc12.", "mlp.gate_proj."}};
  for (const auto& [from, to] : renamed) {
    if (const size_t at = name.find(from); at != std::string::npos)
      name.replace(at, std::strlen(from), to);
  }
  // Down projections, and joined matrices: the names of their parts.
  const std::pair<const char*, std::vector<const char*>> parts[] = {
      {"attn.Wqkv.", {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."}},
      {"mixer.Wqkv.", {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."}},
      {"attention.qkv_proj.", {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."}},
      {"mlp.up_gate_proj.", {"mlp.up_proj.", "mlp.gate_proj."}}};
  for (const auto& [whole, names] : parts) {
    const size_t at = name.find(whole);
    if (at == std::string::npos) continue;
    std::vector<std::pair<std::string, size_t>> made;
    for (const char* part : names)
      made.emplace_back(std::string(name).replace(at, std::strlen(whole), part), names.size());
    return made;
  }
  return {{name, 1}};
}

struct GgufForm {
  const char* golden;
  const char* architecture;
  const char* prefix;                                      // of the folder's names, dropped
  std::vector<std::pair<const char*, const char*>> names;  // beginning in the folder, and in a GGUF
  std::vector<std::pair<const char*, const char*>> inner;  // the same of a layer
  const char* layers;
  bool split_gate = false;  // as older converters did
};

// As the public converters name the tensors.
std::vector<GgufForm> GgufForms() {
  const GgufForm modern = {"",
                           "modern-bert",
                           "model.",
                           {{"embeddings.tok_embeddings.", "token_embd."},
                            {"embeddings.norm.", "token_embd_norm."},
                            {"final_norm.", "output_norm."},
                            {"head.dense.", "cls."},
                            {"head.norm.", "cls.norm."},
                            {"classifier.", "cls.output."}},
                           {{"attn.Wqkv.", "attn_qkv."},
                            {"attn.Wo.", "attn_output."},
                            {"attn_norm.", "attn_norm."},
                            {"mlp_norm.", "ffn_norm."},
                            {"mlp.Wi.", "ffn_up."},
                            {"mlp.Wo.", "ffn_down."}},
                           "layers."};
  const std::vector<std::pair<const char*, const char*>> tables = {
      {"embeddings.word_embeddings.", "token_embd."},
      {"embeddings.token_type_embeddings.", "token_types."},
      {"embeddings.LayerNorm.", "token_embd_norm."},
      {"emb_ln.", "token_embd_norm."}};
  const GgufForm jina = {"",
                         "jina-bert-v2",
                         "bert.",
                         tables,
                         {{"attention.self.query.", "attn_q."},
                          {"attention.self.key.", "attn_k."},
                          {"attention.self.value.", "attn_v."},
                          {"attention.output.dense.", "attn_output."},
                          {"attention.output.LayerNorm.", "attn_output_norm."},
                          {"mlp.gated_layers.", "ffn_up."},
                          {"mlp.wo.", "ffn_down."},
                          {"mlp.layernorm.", "layer_output_norm."}},
                         "encoder.layer."};
  const GgufForm nomic = {"",
                          "nomic-bert",
                          "",
                          tables,
                          {{"attn.Wqkv.", "attn_qkv."},
                           {"attn.out_proj.", "attn_output."},
                           {"norm1.", "attn_output_norm."},
                           {"mlp.fc11.", "ffn_up."},
                           {"mlp.fc12.", "ffn_gate."},
                           {"mlp.fc2.", "ffn_down."},
                           {"norm2.", "layer_output_norm."}},
                          "encoder.layers."};
  std::vector<GgufForm> forms;
  const auto add = [&](GgufForm form, const char* golden, bool split_gate = false) {
    form.golden = golden;
    form.split_gate = split_gate;
    forms.push_back(std::move(form));
  };
  add(modern, "modernbert");
  add(modern, "modernbert classifier");
  add(jina, "jina v2");
  add(jina, "jina v2, larger");
  add(jina, "jina v2, larger", true);
  add(nomic, "nomic");
  add(nomic, "nomic, larger");
  return forms;
}

std::string GgufName(const GgufForm& form, std::string name) {
  if (name.starts_with(form.prefix)) name = name.substr(std::string_view(form.prefix).size());
  std::string block;
  if (name.starts_with(form.layers)) {
    const size_t begin = std::string_view(form.layers).size(), dot = name.find('.', begin);
    block = "blk." + name.substr(begin, dot - begin) + ".";
    name = name.substr(dot + 1);
  }
  for (const auto& [from, to] : block.empty() ? form.names : form.inner) {
    if (name.starts_with(from)) return block + to + name.substr(std::string_view(from).size());
  }
  return "";  // not converted
}

std::shared_ptr<const model::EncoderWeights> LoadGguf(const GgufForm& form,
                                                      const json::value& golden,
                                                      tensor::DType dtype) {
  const json::object& config = golden.at("config").as_object();
  gguf::testing::Writer writer;
  const std::string prefix = std::string(form.architecture) + ".";
  const auto number = [&](const char* key) { return config.at(key).to_number<uint32_t>(); };
  writer.String("general.architecture", form.architecture)
      .U32(prefix + "block_count", number("num_hidden_layers"))
      .U32(prefix + "context_length", number("max_position_embeddings"))
      .U32(prefix + "embedding_length", number("hidden_size"))
      .U32(prefix + "feed_forward_length", number("intermediate_size"))
      .U32(prefix + "attention.head_count", number("num_attention_heads"))
      .F32(
          prefix + "attention.layer_norm_epsilon",
          config.at(config.contains("norm_eps") ? "norm_eps" : "layer_norm_eps").to_number<float>())
      .Bool(prefix + "attention.causal", false)
      .U32(prefix + "pooling_type", config.contains("id2label") ? 4 : 1);
  if (config.contains("local_attention")) {
    writer.U32(prefix + "attention.sliding_window", number("local_attention"))
        .U32(prefix + "attention.sliding_window_pattern", number("global_attn_every_n_layers"))
        .F32(prefix + "rope.freq_base", config.at("global_rope_theta").to_number<float>());
  }
  for (const auto& item : golden.at("tensors").as_object()) {
    std::vector<uint64_t> shape;
    for (const auto& extent : item.value().as_array())
      shape.push_back(extent.to_number<uint64_t>());
    const std::vector<float> values = ValuesOf(item.key(), shape);
    const std::string name = GgufName(form, item.key());
    if (name.empty()) continue;
    if (shape.size() == 1) {
      writer.Tensor(name, tensor::DType::kF32, {shape[0]}, values);
      continue;
    }
    const bool matrix = name.starts_with("blk.");
    const tensor::DType stored = matrix ? dtype : tensor::DType::kF32;
    if (form.split_gate && name.ends_with("ffn_up.weight")) {
      const std::span<const float> all(values);
      const std::string block = name.substr(0, name.find("ffn_up"));
      writer.Tensor(block + "ffn_gate.weight", stored, {shape[1], shape[0] / 2},
                    all.first(all.size() / 2));
      writer.Tensor(name, stored, {shape[1], shape[0] / 2}, all.last(all.size() / 2));
      continue;
    }
    writer.Tensor(name, stored, {shape[1], shape[0]}, values);
  }
  auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(model::HoldsEncoder((*file)->header()));
  auto read = model::ReadGgufEncoderConfig(**file);
  EXPECT_TRUE(read.ok()) << read.status();
  auto weights = model::EncoderWeights::Load(*std::move(read), *model::MakeEncoderStore(*file), {});
  EXPECT_TRUE(weights.ok()) << form.golden << ": " << weights.status();
  return *std::move(weights);
}

// The rows of some texts of the same golden, run together.
std::vector<std::vector<float>> RowsOf(model::Encoder& encoder, runner::ComputePool& pool,
                                       const std::vector<std::vector<TokenId>>& texts) {
  std::vector<TokenId> tokens;
  std::vector<int32_t> offsets = {0};
  for (const auto& text : texts) {
    tokens.insert(tokens.end(), text.begin(), text.end());
    offsets.push_back(static_cast<int32_t>(tokens.size()));
  }
  const model::EncoderBatch batch{tokens, {}, offsets};
  encoder.Prepare(batch);
  pool.Run([&](model::Team& team) { encoder.Run(batch, team); });
  const auto width = static_cast<size_t>(encoder.weights().config().width);
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < texts.size(); ++i) {
    rows.emplace_back(encoder.hidden() + static_cast<size_t>(offsets[i]) * width,
                      encoder.hidden() + static_cast<size_t>(offsets[i + 1]) * width);
  }
  return rows;
}

TEST(EncoderFamilies, TextsHaveTheSameBitsAloneAndStayNearInEveryType) {
  runner::ComputePool pool({.workers = 2});
  for (const auto& golden : Goldens().as_array()) {
    const std::string family(golden.at("family").as_string());
    std::vector<std::vector<TokenId>> texts;
    for (const auto& run : golden.at("runs").as_array()) {
      texts.emplace_back();
      for (const auto& id : run.at("ids").as_array())
        texts.back().push_back(id.to_number<TokenId>());
    }
    std::vector<std::vector<float>> exact;
    using enum model::EncoderDType;
    for (const model::EncoderDType dtype : {kF32, kBf16, kInt8Blocks, kInt8}) {
      const auto weights = Load(golden, dtype);
      const auto encoder = MakeEncoder(weights, 2, 512);
      const auto together = RowsOf(*encoder, pool, texts);
      if (dtype == kF32) exact = together;
      const int width = weights->config().width;
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(RowsOf(*encoder, pool, {texts[i]})[0], together[i]) << family;
        std::vector<float> vector(static_cast<size_t>(width)), reference(vector);
        const auto count = static_cast<int>(texts[i].size());
        model::PoolRows(together[i].data(), count, width, model::Pooling::kMean, vector.data());
        model::PoolRows(exact[i].data(), count, width, model::Pooling::kMean, reference.data());
        EXPECT_GE(Cosine(vector, reference), dtype == kBf16 ? 0.9995 : 0.99)
            << family << " " << model::EncoderDTypeName(dtype) << " " << count;
      }
    }
  }
}

TEST(EncoderFamilies, FoldersWithTheNamesOfTransformersModulesGiveTheSameBits) {
  runner::ComputePool pool({.workers = 2});
  int compared = 0;
  for (const auto& golden : Goldens().as_array()) {
    const std::string family(golden.at("family").as_string());
    if (family != "nomic" && family != "gte" && family != "jina v3") continue;
    const auto published = MakeEncoder(Load(golden), 2, 320);
    const auto modules = MakeEncoder(Load(golden, model::EncoderDType::kF32, true), 2, 320);
    std::vector<TokenId> ids;
    for (const auto& id : golden.at("runs").at(2).at("ids").as_array())
      ids.push_back(id.to_number<TokenId>());
    EXPECT_EQ(RowsOf(*modules, pool, {ids}), RowsOf(*published, pool, {ids})) << family;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

TEST(EncoderFamilies, AGgufGivesTheBitsOfItsFolder) {
  runner::ComputePool pool({.workers = 2});
  size_t compared = 0;
  for (const GgufForm& form : GgufForms()) {
    for (const auto& golden : Goldens().as_array()) {
      if (golden.at("family").as_string() != form.golden) continue;
      ++compared;
      const auto folder = MakeEncoder(Load(golden), 2, 320);
      const auto exact = MakeEncoder(LoadGguf(form, golden, tensor::DType::kF32), 2, 320);
      const auto rounded = MakeEncoder(LoadGguf(form, golden, tensor::DType::kQ8_0), 2, 320);
      for (const auto& run : golden.at("runs").as_array()) {
        std::vector<TokenId> ids;
        for (const auto& id : run.at("ids").as_array()) ids.push_back(id.to_number<TokenId>());
        const std::vector<float> rows = RowsOf(*folder, pool, {ids})[0];
        EXPECT_EQ(RowsOf(*exact, pool, {ids})[0], rows) << form.golden;
        EXPECT_GE(Cosine(RowsOf(*rounded, pool, {ids})[0], rows), 0.999) << form.golden;
        if (run.at("logits").as_array().empty()) continue;
        const std::vector<int32_t> offsets = {0, static_cast<int32_t>(ids.size())}, scored = {0};
        const model::EncoderBatch batch{ids, {}, offsets, scored};
        for (const auto& encoder : {folder.get(), exact.get()}) {
          encoder->Prepare(batch);
          pool.Run([&](model::Team& team) { encoder->Run(batch, team); });
        }
        EXPECT_EQ(exact->scores(0)[0], folder->scores(0)[0]) << form.golden;
      }
    }
  }
  EXPECT_EQ(compared, GgufForms().size());
}

}  // namespace
}  // namespace tutti::parity
