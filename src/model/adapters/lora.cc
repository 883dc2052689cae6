#include "model/adapters/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "files/digest.h"
#include "files/refuse.h"
#include "model/decoder_tensors.h"
#include "tensor/blocks.h"

namespace tutti::model {
namespace {

using files::Refuse;
using kernels::kLowRankPanel;
using kernels::LowRankType;

std::vector<int32_t> Ascending(int begin, int count) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) rows[static_cast<size_t>(i)] = begin + i;
  return rows;
}

}  // namespace

// These are no types of an unnamed namespace, because LoraPacker, a friend, has members of them.

// Rows of B, in the order of the output's columns that they belong to.
struct LoraColumns {
  int first = 0;
  int step = kLowRankPanel;
  std::vector<int32_t> rows = {};
};

// How a matrix of the base is addressed by an adapter.
struct LoraTarget {
  LoraPlace place = LoraPlace::kAttentionInput;
  int inputs = 0;
  int outputs = 0;                        // rows of B
  std::vector<LoraColumns> columns = {};  // empty: the base computes the matrix's outputs elsewhere
};

// The targets of one layer of a base.
class LoraTargets {
 public:
  LoraTargets(const ModelConfig& base, Form form, int layer)
      : base_(base), layer_(layer), family_(*FamilyOfArchitecture(base.architecture)) {
    const kernels::RopeMode files = form == Form::kGguf ? family_.gguf_rope : family_.folder_rope;
    turns_ = base.rope_mode != files;
    // The order of the base's rows is not known where nothing rotates.
    unknown_ =
        base.rope_mode == kernels::RopeMode::kNone && family_.gguf_rope != family_.folder_rope;
  }

  // `name`: "attn_q". Errors: adapter_target, without the tensor's name.
  Result<LoraTarget> Find(std::string_view name) const {
    if (name.starts_with("attn_")) return Attention(name);
    if (name.starts_with("ffn_")) return FeedForward(name);
    return Refuse("adapter_target", "adapters of this matrix are not supported");
  }

 private:
  Result<LoraTarget> Attention(std::string_view name) const {
    if (base_.latent_rank != 0)
      return Refuse("adapter_target", "adapters of latent attention are not supported");
    if (!base_.has_attention(layer_))
      return Refuse("adapter_target", "layer {} of the model has no attention", layer_);
    const int q_rows = base_.q_rows(layer_), kv_rows = base_.kv_rows(layer_);
    LoraTarget target{.inputs = base_.width};
    if (unknown_ && name != "attn_output" && name != "attn_v") {
      return Refuse("adapter_target",
                    "adapters of queries and keys are not supported for {} models "
                    "without rotation",
                    base_.architecture);
    }
    if (name == "attn_output") {
      target.place = LoraPlace::kAttentionOutput;
      target.inputs = base_.attended_rows(layer_);
      target.outputs = base_.width;
      target.columns.push_back({.rows = Ascending(0, base_.width)});
      return target;
    }
    const bool owns = base_.owns_kv(layer_);
    if (name == "attn_q" && base_.attention_gate) {
      AddGatedQueries(q_rows, kv_rows, target);
    } else if (name == "attn_q") {
      target.outputs = q_rows;
      target.columns.push_back({.rows = Heads(0, q_rows)});
    } else if (name == "attn_k") {
      target.outputs = kv_rows;
      // A layer that reads the keys of another one computes none.
      if (owns) target.columns.push_back({.first = q_rows, .rows = Heads(0, kv_rows)});
    } else if (name == "attn_v" && base_.has_values(layer_)) {
      target.outputs = kv_rows;
      if (owns)
        target.columns.push_back({.first = q_rows + kv_rows, .rows = Ascending(0, kv_rows)});
    } else if (name == "attn_qkv" && owns && base_.has_values(layer_) && !base_.attention_gate) {
      target.outputs = q_rows + 2 * kv_rows;
      target.columns.push_back({.rows = Heads(0, q_rows)});
      target.columns.push_back({.first = q_rows, .rows = Heads(q_rows, kv_rows)});
      target.columns.push_back(
          {.first = q_rows + kv_rows, .rows = Ascending(q_rows + kv_rows, kv_rows)});
    } else {
      return Refuse("adapter_target", "adapters of this matrix are not supported");
    }
    return target;
  }

  // A file has each head's queries, then its gates; the output has all queries, and all gates
  // behind the values.
  void AddGatedQueries(int q_rows, int kv_rows, LoraTarget& target) const {
    target.outputs = 2 * q_rows;
    LoraColumns queries, gates{.first = q_rows + 2 * kv_rows};
    for (int head = 0; head < base_.heads; ++head) {
      for (int i = 0; i < base_.head_dim; ++i) {
        queries.rows.push_back(2 * head * base_.head_dim + i);
        gates.rows.push_back((2 * head + 1) * base_.head_dim + i);
      }
    }
    target.columns = {std::move(queries), std::move(gates)};
  }

  // Rows of queries or keys: rotating ones lie in the halves of a head or next to each other.
  std::vector<int32_t> Heads(int begin, int count) const {
    std::vector<int32_t> rows = Ascending(begin, count);
    if (!turns_ || base_.rope_mode == kernels::RopeMode::kNone) return rows;
    const int head_dim = base_.head_dim_of(layer_);
    const int half = base_.rope_dims / 2;
    const bool to_adjacent = base_.rope_mode == kernels::RopeMode::kAdjacent;
    for (int i = 0; i < count; ++i) {
      const int at = i % head_dim;
      if (at >= 2 * half) continue;
      const int source = to_adjacent ? at % 2 * half + at / 2 : at % half * 2 + at / half;
      rows[static_cast<size_t>(i)] = begin + i - at + source;
    }
    return rows;
  }

  Result<LoraTarget> FeedForward(std::string_view name) const {
    if (base_.has_experts(layer_))
      return Refuse("adapter_target", "adapters of experts and their routers are not supported");
    if (!base_.has_feed_forward(layer_))
      return Refuse("adapter_target", "layer {} of the model has no feed-forward", layer_);
    const int rows = base_.feed_forward_of(layer_);
    LoraTarget target{
        .place = LoraPlace::kFeedForwardInput, .inputs = base_.width, .outputs = rows};
    if (name == "ffn_down") {
      target.place = LoraPlace::kFeedForwardOutput;
      target.inputs = rows;
      target.outputs = base_.width;
      target.columns.push_back({.rows = Ascending(0, base_.width)});
      return target;
    }
    if (!base_.gated) {
      if (name != "ffn_up") return Refuse("adapter_target", "the model has no such matrix");
      target.columns.push_back({.rows = Ascending(0, rows)});
      return target;
    }
    if (name != "ffn_gate" && name != "ffn_up")
      return Refuse("adapter_target", "adapters of this matrix are not supported");
    // Panels of 16 gates and the same 16 of up alternate, unless both are stored.
    const bool stored = base_.stores_gate_up(layer_);
    const int step = stored ? kLowRankPanel : 2 * kLowRankPanel;
    const int up = stored ? rows : kLowRankPanel;
    target.columns.push_back(
        {.first = name == "ffn_gate" ? 0 : up, .step = step, .rows = Ascending(0, rows)});
    return target;
  }

  const ModelConfig& base_;
  const int layer_;
  const Family& family_;
  bool turns_ = false;    // rows of queries and keys are in another order than the base's
  bool unknown_ = false;  // that order is not known
};

namespace {

// Divides values by a power of two so that their greatest magnitude lies in [0.5, 1), and returns
// its exponent.
int Fit(std::vector<float>& values) {
  float greatest = 0;
  for (const float value : values) greatest = std::max(greatest, std::abs(value));
  int exponent = 0;
  (void)std::frexp(greatest, &exponent);
  for (float& value : values) value = std::ldexp(value, -exponent);
  return exponent;
}

// Gate and up as one matrix, as phi3 has them: gates first.
LoraTarget JoinedGateUp(const ModelConfig& base, int layer, LoraTarget up) {
  LoraColumns gate = up.columns.front();
  gate.first = 0;
  const int rows = base.feed_forward_of(layer);
  up.columns.front().rows = Ascending(rows, rows);
  up.columns.insert(up.columns.begin(), std::move(gate));
  up.outputs = 2 * rows;
  return up;
}

}  // namespace

// One load; one thread.
class LoraPacker {
 public:
  LoraPacker(const LoraFile& file, const ModelConfig& base, const LoraOptions& options)
      : file_(file), base_(base), options_(options), adapter_(new LoraAdapter) {}

  Result<std::shared_ptr<const LoraAdapter>> Load() {
    if (FamilyOfArchitecture(base_.architecture)->gguf_scales != nullptr) {
      return Refuse("adapter_target", "adapters of {} models are not supported",
                    base_.architecture);
    }
    adapter_->products_.resize(static_cast<size_t>(base_.layers) * kLoraPlaces);
    parts_.resize(adapter_->products_.size());
    for (const LoraModule& module : file_.modules) RETURN_IF_ERROR(Place(module));
    ChooseType();
    ASSIGN_OR_RETURN(adapter_->arena_, kernels::AlignedBuffer::Allocate(Lay(nullptr)));
    Lay(adapter_->arena_.data());
    RETURN_IF_ERROR(Fill());
    RETURN_IF_ERROR(file_.tensors->CheckUnchanged());
    adapter_->matrices_ = file_.modules.size();
    return std::shared_ptr<const LoraAdapter>(std::move(adapter_));
  }

 private:
  // A module at its place; its A has rows of the shrink from `first_rank` on.
  struct Part {
    const LoraModule* module;
    int first_rank;
    std::vector<LoraColumns> columns;  // of the expands from `first_expand` on
    size_t first_expand;
  };

  Status Place(const LoraModule& module) {
    const auto in = InLayer(module.target);
    if (!in) {
      return Named(module, Refuse("adapter_target",
                                  "only matrices of layers can have adapters, not embeddings or "
                                  "the output head"));
    }
    if (in->first < 0 || in->first >= base_.layers) {
      return Named(module, Refuse("adapter_shape", "the model has {} layers", base_.layers));
    }
    auto found = LoraTargets(base_, file_.form, in->first).Find(in->second);
    if (!found.ok()) return Named(module, std::move(found).status());
    LoraTarget target = *std::move(found);
    const int64_t outputs = module.b->shape.rows();
    if (in->second == "ffn_up" && base_.gated && outputs == 2 * int64_t{target.outputs})
      target = JoinedGateUp(base_, in->first, std::move(target));
    if (module.a->shape.columns() != target.inputs || outputs != target.outputs) {
      return Named(module,
                   Refuse("adapter_shape",
                          "it changes a matrix of {} x {}, and the "
                          "model's has {} x {}; use the adapter's base",
                          outputs, module.a->shape.columns(), target.outputs, target.inputs));
    }
    const size_t index =
        static_cast<size_t>(in->first) * kLoraPlaces + static_cast<size_t>(target.place);
    LoraProduct& product = adapter_->products_[index];
    const auto rank = static_cast<int>(module.a->shape.rows());
    const Part part{&module, product.ranks, target.columns, product.expands.size()};
    product.inputs = target.inputs;
    product.ranks += rank;
    for (const LoraExpand& other : product.expands) {
      // A fused matrix and a part of it, whose sums two workers would write at once.
      const auto same = [&](const LoraColumns& columns) {
        return columns.first == other.first_column;
      };
      if (std::any_of(target.columns.begin(), target.columns.end(), same)) {
        return Named(module, Refuse("adapter_config", "another tensor changes the same matrix"));
      }
    }
    for (const LoraColumns& columns : target.columns) {
      LoraExpand expand;
      expand.rank = rank;
      expand.first_rank = part.first_rank;
      expand.columns = static_cast<int>(columns.rows.size());
      expand.first_column = columns.first;
      expand.step = columns.step;
      expand.scale = static_cast<float>(static_cast<double>(module.scale) * options_.scale);
      product.expands.push_back(expand);
    }
    parts_[index].push_back(part);
    adapter_->max_rank_ = std::max(adapter_->max_rank_, rank);
    return OkStatus();
  }

  static Status Named(const LoraModule& module, Status fault) {
    return std::move(fault).WithContext("tensor " + Quote(module.b->name, 128));
  }

  void ChooseType() {
    const tensor::DType first = file_.modules.front().a->dtype;
    const bool same = std::all_of(file_.modules.begin(), file_.modules.end(), [&](const auto& m) {
      return m.a->dtype == first && m.b->dtype == first;
    });
    adapter_->type_ = same && first == tensor::DType::kF16    ? LowRankType::kF16
                      : same && first == tensor::DType::kBF16 ? LowRankType::kBf16
                      : options_.narrow                       ? LowRankType::kF16
                                                              : LowRankType::kF32;
    fits_ = options_.narrow &&
            !(same && (first == tensor::DType::kF16 || first == tensor::DType::kBF16));
  }

  // Sets where each matrix is, from `base` on. Returns the bytes of all.
  size_t Lay(std::byte* base) {
    size_t used = 0;
    const auto take = [&](int inner, int columns) {
      const std::byte* at = base == nullptr ? nullptr : base + used;
      const size_t values = static_cast<size_t>(kernels::LowRankPanels(columns)) *
                            static_cast<size_t>(inner) * kLowRankPanel;
      used += kernels::RoundUpToLine(values * kernels::LowRankBytes(adapter_->type_));
      return at;
    };
    for (LoraProduct& product : adapter_->products_) {
      if (product.ranks == 0) continue;
      product.shrink = take(product.inputs, product.ranks);
      for (LoraExpand& expand : product.expands) expand.weight = take(expand.rank, expand.columns);
    }
    return used;
  }

  Status Fill() {
    files::Sha256 digest;
    const auto add = [&](std::string_view text) {
      digest.Update(std::as_bytes(std::span(text.data(), text.size())));
    };
    add(file_.front_digest);
    add(fmt::format(" {} {}", options_.scale, options_.base_digest));
    if (fits_) add(" f16");
    for (size_t i = 0; i < parts_.size(); ++i) {
      LoraProduct& product = adapter_->products_[i];
      for (const Part& part : parts_[i]) {
        const LoraModule& module = *part.module;
        ASSIGN_OR_RETURN(std::vector<float> a, ReadFinite(*file_.tensors, *module.a));
        ASSIGN_OR_RETURN(std::vector<float> b, ReadFinite(*file_.tensors, *module.b));
        for (const auto* values : {&a, &b}) digest.Update(std::as_bytes(std::span(*values)));
        const int taken = fits_ ? Fit(a) + Fit(b) : 0;
        const auto rank = static_cast<int>(module.a->shape.rows());
        for (int row = 0; row < rank; ++row) {
          for (int k = 0; k < product.inputs; ++k) {
            Store(product.shrink, product.inputs, k, part.first_rank + row,
                  a[static_cast<size_t>(row) * static_cast<size_t>(product.inputs) +
                    static_cast<size_t>(k)]);
          }
        }
        for (size_t c = 0; c < part.columns.size(); ++c) {
          LoraExpand& expand = product.expands[part.first_expand + c];
          const double scale = std::ldexp(double{expand.scale}, taken);
          if (std::abs(scale) > double{std::numeric_limits<float>::max()})
            return Named(module, Refuse("adapter_config", "its values are too large"));
          expand.scale = static_cast<float>(scale);
          for (int column = 0; column < expand.columns; ++column) {
            const auto row = static_cast<size_t>(part.columns[c].rows[static_cast<size_t>(column)]);
            for (int k = 0; k < rank; ++k)
              Store(expand.weight, rank, k, column,
                    b[row * static_cast<size_t>(rank) + static_cast<size_t>(k)]);
          }
        }
      }
    }
    adapter_->digest_ = digest.FinishHex();
    return OkStatus();
  }

  // Value [k][column] of a matrix in panels of the arena.
  void Store(const std::byte* matrix, int inner, int k, int column, float value) {
    std::byte* const arena = adapter_->arena_.data();
    const size_t at =
        static_cast<size_t>(column / kLowRankPanel) * static_cast<size_t>(inner) * kLowRankPanel +
        static_cast<size_t>(k) * kLowRankPanel + static_cast<size_t>(column % kLowRankPanel);
    std::byte* const to = arena + (matrix - arena) + at * kernels::LowRankBytes(adapter_->type_);
    if (adapter_->type_ == LowRankType::kF32) {
      std::memcpy(to, &value, sizeof value);
      return;
    }
    // Rounds only what Fit changed: else the value came from this type.
    const auto bits = adapter_->type_ == LowRankType::kF16
                          ? tensor::FloatToHalf(value)
                          : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    std::memcpy(to, &bits, sizeof bits);
  }

  const LoraFile& file_;
  const ModelConfig& base_;
  const LoraOptions& options_;
  bool fits_ = false;  // the values are not of the type that the adapter keeps
  std::shared_ptr<LoraAdapter> adapter_;
  std::vector<std::vector<Part>> parts_;  // as LoraAdapter::products_
};

Result<std::shared_ptr<const LoraAdapter>> LoraAdapter::Load(const LoraFile& file,
                                                             const ModelConfig& base,
                                                             const LoraOptions& options) {
  if (!std::isfinite(options.scale))
    return Refuse("adapter_config", "the scale of the adapter is not a finite number");
  return LoraPacker(file, base, options).Load();
}

}  // namespace tutti::model
