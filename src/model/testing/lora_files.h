// LoraFiles: small generated LoRA adapters of generated checkpoints (gguf/testing/checkpoint.h), in
// both forms. Values depend on (seed, name) alone. Test code only; one thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "model/adapters/lora.h"
#include "model/tensor_store.h"
#include "safetensors/testing/writer.h"
#include "tensor/dtype.h"

namespace tutti::model::testing {

// One matrix that an adapter changes, under GGUF's name and in GGUF's order of rows.
struct LoraMatrix {
  std::string target;  // "blk.0.attn_q"
  std::string module;  // "model.layers.0.self_attn.q_proj"
  uint32_t rank = 0;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  std::vector<float> a;  // [rank][inputs]
  std::vector<float> b;  // [outputs][rank]
};

struct LoraSpec {
  uint64_t seed = 1;
  uint32_t rank = 8;
  float alpha = 16;
  // Of llama's seven: attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down.
  std::vector<std::string> targets = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                      "ffn_gate", "ffn_up", "ffn_down"};
  tensor::DType type = tensor::DType::kF32;
};

inline std::vector<LoraMatrix> LoraMatrices(const gguf::testing::CheckpointSpec& base,
                                            const LoraSpec& spec) {
  const uint32_t q = base.heads * base.head_width, kv = base.kv_heads * base.head_width;
  const auto shape = [&](std::string_view name) -> std::pair<uint32_t, uint32_t> {
    if (name == "attn_q") return {base.width, q};
    if (name == "attn_k" || name == "attn_v") return {base.width, kv};
    if (name == "attn_output") return {q, base.width};
    if (name == "ffn_down") return {base.feed_forward, base.width};
    return {base.width, base.feed_forward};
  };
  const auto module = [](std::string_view name) -> std::string_view {
    if (name == "attn_q") return "self_attn.q_proj";
    if (name == "attn_k") return "self_attn.k_proj";
    if (name == "attn_v") return "self_attn.v_proj";
    if (name == "attn_output") return "self_attn.o_proj";
    if (name == "ffn_gate") return "mlp.gate_proj";
    return name == "ffn_up" ? "mlp.up_proj" : "mlp.down_proj";
  };
  std::vector<LoraMatrix> matrices;
  for (uint32_t layer = 0; layer < base.layers; ++layer) {
    for (const std::string& name : spec.targets) {
      LoraMatrix matrix;
      matrix.target = fmt::format("blk.{}.{}", layer, name);
      matrix.module = fmt::format("model.layers.{}.{}", layer, module(name));
      matrix.rank = spec.rank;
      std::tie(matrix.inputs, matrix.outputs) = shape(name);
      const auto weights = [&](const char* of, uint32_t rows, uint32_t columns) {
        std::vector<float> values = gguf::testing::CheckpointWeights(
            spec.seed, matrix.target + of, uint64_t{rows} * columns, columns);
        for (float& value : values) {
          // Exact in 16 bits of either kind, so that all types hold the same adapter.
          value = static_cast<float>(static_cast<int>(value * 256)) / 256;
        }
        return values;
      };
      matrix.a = weights(".a", spec.rank, matrix.inputs);
      matrix.b = weights(".b", matrix.outputs, spec.rank);
      matrices.push_back(std::move(matrix));
    }
  }
  return matrices;
}

inline gguf::testing::Writer LoraGguf(const std::vector<LoraMatrix>& matrices,
                                      const LoraSpec& spec) {
  gguf::testing::Writer writer;
  writer.String("general.type", "adapter");
  writer.String("general.architecture", "llama");
  writer.String("adapter.type", "lora");
  writer.F32("adapter.lora.alpha", spec.alpha);
  for (const LoraMatrix& matrix : matrices) {
    writer.Tensor(matrix.target + ".weight.lora_a", spec.type, {matrix.inputs, matrix.rank},
                  matrix.a);
    writer.Tensor(matrix.target + ".weight.lora_b", spec.type, {matrix.rank, matrix.outputs},
                  matrix.b);
  }
  return writer;
}

inline std::shared_ptr<const gguf::File> OpenLoraGguf(const gguf::testing::Writer& writer) {
  auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return *file;
}

// The row of a folder's matrix that is row `row` of the GGUF's, of queries or keys of a llama.
inline uint32_t FolderRow(uint32_t row, uint32_t head_width) {
  const uint32_t at = row % head_width;
  return row - at + at % 2 * (head_width / 2) + at / 2;
}

inline safetensors::testing::Writer LoraTensors(const std::vector<LoraMatrix>& matrices,
                                                uint32_t head_width) {
  safetensors::testing::Writer writer;
  for (const LoraMatrix& matrix : matrices) {
    const std::string name = "base_model.model." + matrix.module;
    writer.Floats(name + ".lora_A.weight", {matrix.rank, matrix.inputs}, matrix.a);
    std::vector<float> b = matrix.b;
    if (matrix.target.ends_with("attn_q") || matrix.target.ends_with("attn_k")) {
      for (uint32_t row = 0; row < matrix.outputs; ++row) {
        for (uint32_t k = 0; k < matrix.rank; ++k)
          b[size_t{FolderRow(row, head_width)} * matrix.rank + k] =
              matrix.b[size_t{row} * matrix.rank + k];
      }
    }
    writer.Floats(name + ".lora_B.weight", {matrix.outputs, matrix.rank}, b);
  }
  return writer;
}

inline std::unique_ptr<TensorStore> LoraStore(const safetensors::testing::Writer& writer) {
  auto file = safetensors::File::FromSource(safetensors::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return MakeTensorStore(safetensors::Checkpoint::Of(*file));
}

}  // namespace tutti::model::testing
