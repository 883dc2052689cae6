#include "decoder_families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "files/source.h"
#include "gguf/testing/writer.h"
#include "model/decoder_checkpoint.h"
#include "model/folder_gguf.h"
#include "safetensors/checkpoint.h"
#include "safetensors/testing/writer.h"
#include "splitmix.h"
#include "test_paths.h"

namespace tutti::parity {

uint64_t HashOfBytes(std::string_view bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

namespace {

namespace json = boost::json;

struct GeneratedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

bool HasNormsLessOne(const FamilyGolden& golden) {
  const auto& family = golden.family;
  const bool whole = family.starts_with("gemma3n") || family.starts_with("gemma4");
  return (family.starts_with("gemma") && !whole) || family == "nemotron" ||
         family == "nemotron with biases" || family.starts_with("qwen3next") ||
         family.starts_with("qwen35");
}

// The values of tools/make_decoder_goldens.py.
std::vector<GeneratedTensor> TensorsOf(const FamilyGolden& golden) {
  const json::array& spreads = golden.entry.at("spreads").as_array();
  std::vector<GeneratedTensor> tensors;
  for (const auto& tensor : golden.entry.at("tensors").as_object()) {
    GeneratedTensor out{std::string(tensor.key()), {}, {}};
    size_t count = 1;
    for (const auto& extent : tensor.value().as_array()) {
      out.shape.push_back(extent.to_number<uint64_t>());
      count *= static_cast<size_t>(out.shape.back());
    }
    size_t kind = out.name.find("embed_tokens") == std::string::npos;
    if (spreads.size() > 2 && out.name.ends_with(".gate_up_proj_bias")) kind = 2;
    out.values = GeneratedFloats(HashOfBytes(out.name), count, spreads[kind].to_number<float>());
    // Scores of Gemma 3n and 4 have no other scale than the norm of queries.
    const bool queries =
        (golden.family.starts_with("gemma3n") || golden.family.starts_with("gemma4")) &&
        out.name.find(".q_norm.") != std::string::npos;
    if (out.name.find("norm") != std::string::npos && !out.name.ends_with(".bias") &&
        !HasNormsLessOne(golden) && !queries) {
      for (float& value : out.values) value += 1;
    }
    if (out.name.ends_with(".layer_scalar") || out.name.ends_with(".router.scale") ||
        out.name.ends_with(".per_expert_scale") || out.name.ends_with(".correct_output_scale")) {
      for (float& value : out.values) value += 1;
    }
    if (out.name.ends_with(".modality_router.weight")) {
      for (float& value : out.values) value *= static_cast<float>(out.shape[1]) / 4;
    }
    if (out.name.ends_with(".act_fn.beta")) out.values[0] += 0.5F;
    if (out.name.ends_with(".act_fn.eps")) out.values[0] = -1e-6F;
    tensors.push_back(std::move(out));
  }
  return tensors;
}

// The order of rows in a llama's GGUF: in each head the two halves that rotate together alternate.
void InterleaveHalves(GeneratedTensor& tensor, size_t heads) {
  const size_t rows = static_cast<size_t>(tensor.shape[0]);
  const size_t cols = tensor.values.size() / rows, head = rows / heads;
  std::vector<float> out(tensor.values.size());
  for (size_t row = 0; row < rows; ++row) {
    const size_t in_head = row % head, pair = in_head % (head / 2), half = in_head / (head / 2);
    const size_t to = row - in_head + 2 * pair + half;
    std::copy_n(tensor.values.begin() + static_cast<ptrdiff_t>(row * cols), cols,
                out.begin() + static_cast<ptrdiff_t>(to * cols));
  }
  tensor.values = std::move(out);
}

// The rows of Qwen3-Next's projection, which a folder has by groups of heads: query, key, values,
// gates. A GGUF has all queries, keys and values, and then in another tensor all gates.
void PutGroups(const FamilyGolden& golden, const GeneratedTensor& tensor, const std::string& names,
               tensor::DType type, gguf::testing::Writer& writer) {
  const auto key = [&](const char* name) {
    return golden.entry.at("config").at(name).to_number<size_t>();
  };
  const size_t groups = key("linear_num_key_heads"), keys = key("linear_key_head_dim");
  const size_t values = key("linear_num_value_heads") / groups * key("linear_value_head_dim");
  const size_t cols = static_cast<size_t>(tensor.shape[1]), group = 2 * (keys + values);
  std::vector<float> mixed, gates;
  const auto append = [&](std::vector<float>& to, size_t begin, size_t rows) {
    for (size_t g = 0; g < groups; ++g) {
      const auto from = tensor.values.begin() + static_cast<ptrdiff_t>((g * group + begin) * cols);
      to.insert(to.end(), from, from + static_cast<ptrdiff_t>(rows * cols));
    }
  };
  append(mixed, 0, keys);
  append(mixed, keys, keys);
  append(mixed, 2 * keys, values);
  append(gates, 2 * keys + values, values);
  const size_t second = names.find('+');
  writer.Tensor(names.substr(0, second), type, {cols, mixed.size() / cols}, mixed);
  writer.Tensor(names.substr(second + 1), type, {cols, gates.size() / cols}, gates);
}

// Keys and values of latent attention, which a folder has by heads. New GGUFs have all keys, by the
// columns of the latent row, and then all values.
void PutLatentHeads(const FamilyGolden& golden, const GeneratedTensor& tensor,
                    const std::string& names, tensor::DType type, gguf::testing::Writer& writer) {
  const auto key = [&](const char* name) {
    return golden.entry.at("config").at(name).to_number<size_t>();
  };
  const size_t heads = key("num_attention_heads"), values = key("v_head_dim");
  const size_t keys = key("qk_nope_head_dim"), rank = key("kv_lora_rank");
  std::vector<float> by_column, rest;
  for (size_t h = 0; h < heads; ++h) {
    const float* const head = tensor.values.data() + h * (keys + values) * rank;
    for (size_t column = 0; column < rank; ++column)
      for (size_t row = 0; row < keys; ++row) by_column.push_back(head[row * rank + column]);
    rest.insert(rest.end(), head + keys * rank, head + (keys + values) * rank);
  }
  const size_t second = names.find('+');
  writer.Tensor(names.substr(0, second), type, {keys, rank, heads}, by_column);
  writer.Tensor(names.substr(second + 1), type, {rank, values, heads}, rest);
}

// Value heads, which a folder has by groups, in the order of Qwen 3.5's GGUFs: the first of each
// group, then the second of each. `values` are rows of heads, `size` values each, behind `begin`.
void TileHeads(std::span<float> values, size_t begin, size_t size, size_t groups) {
  const std::vector<float> before(values.begin(), values.end());
  const size_t of_group = (values.size() - begin) / size / groups;
  for (size_t i = begin; i < values.size(); ++i) {
    const size_t head = (i - begin) / size;
    values[i] =
        before[begin + (head % groups * of_group + head / groups) * size + (i - begin) % size];
  }
}

void TileHeads(const FamilyGolden& golden, const std::string& name, GeneratedTensor& tensor) {
  const auto key = [&](const char* config) {
    return golden.entry.at("config").at(config).to_number<size_t>();
  };
  const size_t groups = key("linear_num_key_heads"), wide = key("linear_value_head_dim");
  const size_t mixed = 2 * groups * key("linear_key_head_dim");
  const size_t cols = tensor.values.size() / static_cast<size_t>(tensor.shape[0]);
  if (name.ends_with(".attn_qkv.weight") || name.ends_with(".ssm_conv1d.weight")) {
    TileHeads(tensor.values, mixed * cols, wide * cols, groups);
  } else if (name.ends_with(".attn_gate.weight")) {
    TileHeads(tensor.values, 0, wide * cols, groups);
  } else if (name.ends_with(".ssm_beta.weight") || name.ends_with(".ssm_alpha.weight") ||
             name.ends_with(".ssm_a") || name.ends_with(".ssm_dt.bias")) {
    TileHeads(tensor.values, 0, cols, groups);
  } else if (name.ends_with(".ssm_out.weight")) {
    for (size_t row = 0; row < tensor.values.size(); row += cols)
      TileHeads(std::span(tensor.values).subspan(row, cols), 0, wide, groups);
  }
}

// The multipliers of Falcon H1, which a GGUF has in its weights.
void ScaleFalconH1(const FamilyGolden& golden, const std::string& name, GeneratedTensor& tensor) {
  const json::object& config = golden.entry.at("config").as_object();
  const auto by = [&](const std::string& key) { return config.at(key).to_number<double>(); };
  const auto listed = [&](const char* key, size_t i) {
    return static_cast<double>(config.at(key).as_array().at(i).to_number<float>());
  };
  const auto scale = [&](double factor, size_t begin, size_t rows) {
    const size_t cols = tensor.values.size() / static_cast<size_t>(tensor.shape[0]);
    for (size_t i = begin * cols; i < (begin + rows) * cols; ++i)
      tensor.values[i] *= static_cast<float>(factor);
  };
  const auto all = [&](double factor) { scale(factor, 0, static_cast<size_t>(tensor.shape[0])); };
  const auto is = [&](const char* kind) { return name.ends_with(kind); };
  if (is("token_embd.weight")) all(by("embedding_multiplier"));
  if (is(".attn_q.weight") || is(".attn_v.weight")) all(by("attention_in_multiplier"));
  if (is(".attn_k.weight")) all(by("attention_in_multiplier") * by("key_multiplier"));
  if (is(".attn_output.weight")) all(by("attention_out_multiplier"));
  if (name == "output.weight") all(by("lm_head_multiplier"));
  if (is(".ffn_gate.weight")) all(listed("mlp_multipliers", 0));
  if (is(".ffn_down.weight")) all(listed("mlp_multipliers", 1));
  if (is(".ssm_out.weight")) all(by("ssm_out_multiplier"));
  if (!is(".ssm_in.weight")) return;
  const auto inner = static_cast<size_t>(by("mamba_d_ssm"));
  const auto keys = static_cast<size_t>(by("mamba_n_groups") * by("mamba_d_state"));
  const size_t rows[] = {inner, inner, keys, keys, static_cast<size_t>(by("mamba_n_heads"))};
  size_t begin = 0;
  for (size_t i = 0; i < 5; begin += rows[i++])
    scale(by("ssm_in_multiplier") * listed("ssm_multipliers", i), begin, rows[i]);
}

// The rows of a score's tokens in the output head, one behind the other.
std::vector<float> ScoreRows(const FamilyGolden& golden, const json::array& tokens) {
  const bool tied = golden.entry.at("config").at("tie_word_embeddings").as_bool();
  std::vector<float> rows;
  for (const GeneratedTensor& tensor : TensorsOf(golden)) {
    if (!tensor.name.ends_with(tied ? "embed_tokens.weight" : "lm_head.weight")) continue;
    const size_t width = tensor.values.size() / static_cast<size_t>(tensor.shape[0]);
    for (const auto& token : tokens) {
      const auto from =
          tensor.values.begin() + static_cast<ptrdiff_t>(token.to_number<size_t>() * width);
      rows.insert(rows.end(), from, from + static_cast<ptrdiff_t>(width));
    }
  }
  return rows;
}

// Experts of gpt-oss and Llama 4, which a folder has as [experts][inputs][outputs], outputs of gate
// and up alternating or one behind the other: in a GGUF as [experts][outputs][inputs], apart.
// Biases are [experts][outputs], in floats.
void PutTransposedExperts(const GeneratedTensor& tensor, const std::string& names, bool alternating,
                          tensor::DType type, gguf::testing::Writer& writer) {
  const bool bias = tensor.shape.size() == 2;
  const size_t experts = tensor.shape[0], inputs = bias ? 1 : tensor.shape[1];
  const size_t outputs = tensor.shape.back(), second = names.find('+');
  const size_t kinds = second == std::string::npos ? 1 : 2;
  for (size_t kind = 0; kind < kinds; ++kind) {
    std::vector<float> values;
    for (size_t e = 0; e < experts; ++e) {
      for (size_t i = 0; i < outputs / kinds; ++i) {
        const size_t out = alternating ? i * kinds + kind : kind * (outputs / kinds) + i;
        for (size_t in = 0; in < inputs; ++in)
          values.push_back(tensor.values[(e * inputs + in) * outputs + out]);
      }
    }
    const std::string name = kind == 0 ? names.substr(0, second) : names.substr(second + 1);
    if (bias) {
      writer.Tensor(name, tensor::DType::kF32, {outputs / kinds, experts}, values);
    } else {
      writer.Tensor(name, type, {inputs, outputs / kinds, experts}, values);
    }
  }
}

// Proportional rotation, for which a GGUF has factors: pairs that do not turn have a great one.
void PutProportionalRope(const FamilyGolden& golden, gguf::testing::Writer& writer) {
  const json::value& rope = golden.entry.at("config").at("rope_parameters").at("full_attention");
  const auto dims = golden.entry.at("keys").at("attention.key_length").to_number<size_t>();
  const auto part = rope.at("partial_rotary_factor").to_number<double>();
  std::vector<float> factors(dims / 2, 1e30F);
  std::fill_n(factors.begin(), static_cast<size_t>(static_cast<double>(dims) * part / 2), 1.0F);
  writer.Tensor("rope_freqs.weight", tensor::DType::kF32, {factors.size()}, factors);
}

gguf::testing::Bytes GgufBytesOf(const FamilyGolden& golden, tensor::DType type) {
  gguf::testing::Writer writer;
  const std::string architecture(golden.entry.at("gguf").as_string());
  writer.String("general.architecture", architecture);
  std::map<std::string, size_t> heads;
  for (const auto& key : golden.entry.at("keys").as_object()) {
    const std::string name = architecture + "." + std::string(key.key());
    if (key.value().is_string()) {
      writer.String(name, std::string_view(key.value().as_string()));
    } else if (key.value().is_bool()) {
      writer.Bool(name, key.value().as_bool());
    } else if (key.value().is_array()) {
      const json::array& list = key.value().as_array();
      const bool flags = list.at(0).is_bool();
      const bool floats = list.at(0).is_double() || list.at(0).is_null();
      gguf::testing::Bytes bytes;
      for (const auto& item : list) {
        if (floats) {
          gguf::testing::Append(&bytes, item.is_null() ? -std::numeric_limits<float>::infinity()
                                                       : item.to_number<float>());
        } else if (flags) {
          gguf::testing::Append(&bytes, static_cast<uint8_t>(item.as_bool()));
        } else {
          gguf::testing::Append(&bytes, item.to_number<int32_t>());
        }
      }
      const auto element = floats  ? gguf::ValueType::kFloat32
                           : flags ? gguf::ValueType::kBool
                                   : gguf::ValueType::kInt32;
      writer.RawArray(name, static_cast<uint32_t>(element), list.size(), bytes);
    } else if (key.value().is_double()) {
      writer.F32(name, key.value().to_number<float>());
    } else {
      writer.U32(name, key.value().to_number<uint32_t>());
    }
    if (std::string_view(key.key()) == "attention.head_count")
      heads["q"] = key.value().to_number<size_t>();
    if (std::string_view(key.key()) == "attention.head_count_kv")
      heads["k"] = golden.entry.at("config").at("num_key_value_heads").to_number<size_t>();
  }
  const bool interleaved = architecture == "llama" || architecture == "granite" ||
                           architecture == "smollm3" || architecture.starts_with("granite") ||
                           architecture == "arcee" || architecture == "mistral3";
  const json::value* scaling = golden.entry.at("config").as_object().if_contains("rope_scaling");
  for (const std::string kind : {"short", "long"}) {
    if (scaling == nullptr || !scaling->is_object()) continue;
    const json::value* list = scaling->as_object().if_contains(kind + "_factor");
    if (list == nullptr) continue;
    std::vector<float> factors;
    for (const auto& factor : list->as_array()) factors.push_back(factor.to_number<float>());
    writer.Tensor("rope_factors_" + kind + ".weight", tensor::DType::kF32, {factors.size()},
                  factors);
  }
  const json::value* score = golden.entry.if_contains("score");
  const bool scores = score != nullptr && score->is_array();
  if (scores) {
    writer.Strings(architecture + ".classifier.output_labels",
                   std::vector<std::string>{"yes", "no"});
    const std::vector<float> rows = ScoreRows(golden, score->as_array());
    writer.Tensor("cls.output.weight", type, {rows.size() / 2, 2}, rows);
  }
  const bool delta = architecture == "qwen3next" || architecture.starts_with("qwen35");
  if (architecture == "gemma4") PutProportionalRope(golden, writer);
  std::map<std::string, std::map<size_t, GeneratedTensor>> stacked;
  std::map<std::string, std::vector<float>> lists;  // keys with a value for each layer
  for (GeneratedTensor& tensor : TensorsOf(golden)) {
    std::string name(golden.entry.at("names").at(tensor.name).as_string());
    if (scores && name == "output.weight") continue;  // its two rows are enough
    if (const size_t mark = name.find('#'); mark != std::string::npos) {
      stacked[name.substr(0, mark)].emplace(std::stoul(name.substr(mark + 1)), std::move(tensor));
      continue;
    }
    if (name.starts_with("xielu.")) {
      lists[name].push_back(tensor.values[0]);
      continue;
    }
    if (interleaved && name.find(".attn_q.") != std::string::npos)
      InterleaveHalves(tensor, heads["q"]);
    if (interleaved && name.find(".attn_k.") != std::string::npos)
      InterleaveHalves(tensor, heads["k"]);
    if (HasNormsLessOne(golden) && name.ends_with("norm.weight") &&
        !name.ends_with("ssm_norm.weight")) {
      for (float& value : tensor.values) value += 1;
    }
    if (architecture.starts_with("qwen35")) TileHeads(golden, name, tensor);
    if (architecture == "falcon-h1") ScaleFalconH1(golden, name, tensor);
    const bool transposed = architecture == "gpt-oss" || architecture == "llama4";
    if (transposed && name.find("_exps.") != std::string::npos) {
      PutTransposedExperts(tensor, name, architecture == "gpt-oss", type, writer);
    } else if (name.find("attn_qkv.weight+") != std::string::npos) {
      PutGroups(golden, tensor, name, type, writer);
    } else if (name.find("attn_k_b.weight+") != std::string::npos) {
      PutLatentHeads(golden, tensor, name, type, writer);
    } else if (const size_t second = name.find('+'); second != std::string::npos) {
      // Two matrices that a folder has as one, for each expert if there are several.
      const bool experts = tensor.shape.size() == 3;
      const uint64_t count = experts ? tensor.shape[0] : 1;
      const uint64_t columns = tensor.shape.back(), rows = tensor.shape[experts ? 1 : 0] / 2;
      const auto half = static_cast<ptrdiff_t>(tensor.values.size() / count / 2);
      std::vector<float> halves[2];
      auto from = tensor.values.begin();
      for (uint64_t i = 0; i < 2 * count; ++i, from += half)
        halves[i % 2].insert(halves[i % 2].end(), from, from + half);
      for (const int part : {0, 1}) {
        const std::string each = part == 0 ? name.substr(0, second) : name.substr(second + 1);
        if (experts) {
          writer.Tensor(each, type, {columns, rows, count}, halves[part]);
        } else {
          writer.Tensor(each, type, {columns, rows}, halves[part]);
        }
      }
    } else if (name.ends_with("_exps.weight")) {
      writer.Tensor(name, type, {tensor.shape[2], tensor.shape[1], tensor.shape[0]}, tensor.values);
    } else if (name.ends_with(".ssm_a") || name.ends_with(".ssm_d")) {
      if (name.ends_with("a"))
        for (float& value : tensor.values) value = -std::exp(value);
      if (delta) {
        writer.Tensor(name, tensor::DType::kF32, {tensor.shape[0]}, tensor.values);
      } else {
        writer.Tensor(name, tensor::DType::kF32, {1, tensor.shape[0]}, tensor.values);
      }
    } else if (name.ends_with(".ssm_norm.weight") && !delta) {
      const auto groups = golden.entry.at("keys").at("ssm.group_count").to_number<uint64_t>();
      writer.Tensor(name, tensor::DType::kF32, {tensor.shape[0] / groups, groups}, tensor.values);
    } else if (tensor.shape.size() == 3) {  // a convolution over each channel, in floats
      writer.Tensor(name, tensor::DType::kF32, {tensor.shape[2], tensor.shape[0]}, tensor.values);
    } else if (tensor.shape.size() == 1 || tensor.shape[0] == 1) {
      writer.Tensor(name, tensor::DType::kF32, {tensor.values.size()}, tensor.values);
    } else {
      // Routers and coefficients stay floats.
      const bool router = name.find("ffn_gate_inp") != std::string::npos ||
                          name.find(".altup_") != std::string::npos;
      writer.Tensor(name, router ? tensor::DType::kF32 : type, {tensor.shape[1], tensor.shape[0]},
                    tensor.values);
    }
  }
  for (const auto& [name, values] : lists) writer.Floats(name, values);
  for (auto& [name, experts] : stacked) {
    std::vector<float> values;
    for (const auto& [number, tensor] : experts)
      values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    const std::vector<uint64_t>& shape = experts.at(0).shape;
    writer.Tensor(name, type, {shape[1], shape[0], experts.size()}, values);
  }
  return writer.Build();
}

// The tensors of the model, or of one of its modules.
safetensors::testing::Bytes SafetensorsOf(const FamilyGolden& golden, const std::string& module) {
  safetensors::testing::Writer writer;
  for (const GeneratedTensor& tensor : TensorsOf(golden)) {
    const size_t slash = tensor.name.find('/');  // behind the folder of a module
    if (tensor.name.substr(0, slash == std::string::npos ? 0 : slash) == module)
      writer.Floats(tensor.name.substr(slash + 1), tensor.shape, tensor.values);
  }
  return writer.Build();
}

Result<std::unique_ptr<model::TensorStore>> StoreOf(const FamilyGolden& golden,
                                                    const std::string& module) {
  ASSIGN_OR_RETURN(const auto file, safetensors::File::FromSource(files::MemorySource(
                                        SafetensorsOf(golden, module), "st_offsets")));
  return model::MakeTensorStore(safetensors::Checkpoint::Of(file));
}

Result<model::DecoderCheckpoint> FolderOf(const FamilyGolden& golden) {
  ASSIGN_OR_RETURN(auto store, StoreOf(golden, ""));
  return model::DecoderCheckpoint::FromTransformers(json::serialize(golden.entry.at("config")),
                                                    std::move(store));
}

std::vector<FamilyGolden> ReadGoldens(const std::string& path) {
  std::ifstream in(support::SourcePath(path));
  EXPECT_TRUE(in.is_open());
  std::ostringstream text;
  text << in.rdbuf();
  std::vector<FamilyGolden> goldens;
  const json::value parsed = json::parse(text.str());
  for (const auto& value : parsed.as_array()) {
    FamilyGolden golden;
    golden.entry = value.as_object();
    golden.family = std::string(golden.entry.at("family").as_string());
    golden.prompt = golden.entry.at("prompt").to_number<size_t>();
    for (const auto& id : golden.entry.at("ids").as_array())
      golden.ids.push_back(id.to_number<TokenId>());
    if (const json::value* every = golden.entry.if_contains("every"))
      golden.every = every->to_number<size_t>();
    for (const auto& row : golden.entry.at("logits").as_array()) {
      golden.logits.emplace_back();
      for (const auto& logit : row.as_array())
        golden.logits.back().push_back(logit.to_number<float>() * 1e-4F);
    }
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

}  // namespace

const std::vector<FamilyGolden>& FamilyGoldens() {
  static const std::vector<FamilyGolden> kGoldens =
      ReadGoldens("tests/golden/decoder_families.json");
  return kGoldens;
}

const FamilyGolden& GoldenOf(std::string_view family) {
  const auto& goldens = FamilyGoldens();
  const auto golden = std::ranges::find(goldens, family, &FamilyGolden::family);
  CHECK(golden != goldens.end()) << family;
  return *golden;
}

void ExpectRefused(const Status& status, std::string_view changed, std::string_view reason,
                   std::string_view part) {
  ASSERT_FALSE(status.ok()) << changed;
  EXPECT_EQ(status.reason(), reason) << changed << ": " << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

const std::vector<FamilyGolden>& FolderGoldens() {
  static const std::vector<FamilyGolden> kGoldens = ReadGoldens("tests/golden/folder_configs.json");
  return kGoldens;
}

const std::vector<FamilyGolden>& LoraGoldens() {
  static const std::vector<FamilyGolden> kGoldens = ReadGoldens("tests/golden/lora.json");
  return kGoldens;
}

Result<std::shared_ptr<const model::LoraAdapter>> LoadLora(const FamilyGolden& golden,
                                                           const model::ModelConfig& base) {
  ASSIGN_OR_RETURN(auto store, StoreOf(golden, ""));
  ASSIGN_OR_RETURN(
      const model::LoraFile file,
      model::LoraFile::FromPeft(json::serialize(golden.entry.at("config")), std::move(store),
                                *model::FamilyOfArchitecture(base.architecture)));
  return model::LoraAdapter::Load(file, base);
}

const std::vector<FamilyGolden>& QuantizedGoldens() {
  static const std::vector<FamilyGolden> kGoldens =
      ReadGoldens("tests/golden/quantized/index.json");
  return kGoldens;
}

Result<model::DecoderCheckpoint> OpenQuantized(const FamilyGolden& golden) {
  ASSIGN_OR_RETURN(const auto quantized,
                   safetensors::testing::OpenFile(support::SourcePath(
                       "tests/golden/quantized/" + golden.family + ".safetensors")));
  safetensors::testing::Writer writer;
  for (const GeneratedTensor& tensor : TensorsOf(golden))
    writer.Floats(tensor.name, tensor.shape, tensor.values);
  for (const safetensors::TensorInfo& info : quantized->tensors()) {
    safetensors::testing::Bytes bytes(static_cast<size_t>(info.bytes));
    RETURN_IF_ERROR(quantized->Read(info, 0, bytes));
    const auto dims = info.shape.dims();
    writer.Tensor(info.name, safetensors::Name(info.dtype), {dims.begin(), dims.end()}, bytes);
  }
  ASSIGN_OR_RETURN(const auto file, safetensors::File::FromSource(
                                        files::MemorySource(writer.Build(), "st_offsets")));
  return model::DecoderCheckpoint::FromTransformers(
      json::serialize(golden.entry.at("config")),
      model::MakeTensorStore(safetensors::Checkpoint::Of(file)));
}

const std::vector<FamilyGolden>& VectorGoldens() {
  static const std::vector<FamilyGolden> kGoldens =
      ReadGoldens("tests/golden/decoder_vectors.json");
  return kGoldens;
}

Result<model::DecoderCheckpoint> OpenVectors(const FamilyGolden& golden) {
  ASSIGN_OR_RETURN(model::DecoderCheckpoint checkpoint, FolderOf(golden));
  model::ModuleFiles files;
  files.config = json::serialize(golden.entry.at("config"));
  json::array list = {{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}}};
  for (const auto& module : golden.entry.at("modules").as_array()) {
    const std::string path(module.at("path").as_string());
    list.push_back({{"path", path}, {"type", module.at("type")}});
    (path == "1_Pooling" ? files.pooling : files.modules_by_folder[path]) =
        json::serialize(module.at("config"));
  }
  files.modules = json::serialize(list);
  RETURN_IF_ERROR(checkpoint.UseModules(
      files, [&](const std::string& folder) { return StoreOf(golden, folder); }));
  return checkpoint;
}

Result<VectorsInGguf> OpenVectorsGguf(const FamilyGolden& golden, tensor::DType type) {
  VectorsInGguf opened;
  ASSIGN_OR_RETURN(opened.file,
                   gguf::File::FromSource(gguf::MemorySource(GgufBytesOf(golden, type))));
  ASSIGN_OR_RETURN(opened.checkpoint, model::DecoderCheckpoint::FromGguf(*opened.file));
  return opened;
}

Result<std::shared_ptr<const model::Weights>> LoadGguf(const FamilyGolden& golden,
                                                       model::WeightMode mode, tensor::DType type,
                                                       kernels::Isa isa) {
  ASSIGN_OR_RETURN(const auto file,
                   gguf::File::FromSource(gguf::MemorySource(GgufBytesOf(golden, type))));
  const bool tiles = kernels::KernelsFor(isa).gemm.bf16_tiles;
  return model::Weights::Load(*file, {.mode = mode, .threads = 2, .bf16_tiles = tiles});
}

Result<std::shared_ptr<const model::Weights>> LoadFolder(const FamilyGolden& golden,
                                                         model::WeightMode mode, bool fuse) {
  ASSIGN_OR_RETURN(const auto checkpoint, FolderOf(golden));
  return model::Weights::Load(checkpoint, {.mode = mode, .threads = 2, .fuse = fuse});
}

Result<std::shared_ptr<const gguf::File>> GgufOf(model::DecoderCheckpoint checkpoint,
                                                 const std::string& name) {
  checkpoint.tokenizer.model = "gpt2";
  checkpoint.tokenizer.pre = "gpt-2";
  for (int id = 0; id < checkpoint.config.vocab_size; ++id)
    checkpoint.tokenizer.tokens.push_back("token " + std::to_string(id));
  return model::FolderAsGguf(std::move(checkpoint), name);
}

Result<std::shared_ptr<const gguf::File>> GgufOfFolder(const FamilyGolden& golden) {
  ASSIGN_OR_RETURN(model::DecoderCheckpoint checkpoint, FolderOf(golden));
  return GgufOf(std::move(checkpoint), golden.family);
}

}  // namespace tutti::parity
