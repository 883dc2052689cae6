#include "quantize/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/quote.h"
#include "gguf/metadata.h"

namespace tutti::quantize {
namespace {

using tensor::DType;

bool Has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Tensors that are not quantised: small matrices with much influence, and tables that are looked
// up.
constexpr std::string_view kKeptParts[] = {"_norm.weight",
                                           "ffn_gate_inp.weight",
                                           "altup",
                                           "laurel",
                                           "per_layer_model_proj",
                                           "ssm_conv1d",
                                           "time_mix_",
                                           "attn_rel_b.weight",
                                           "shortconv.conv",
                                           "position_embd",
                                           "token_types",
                                           ".rel_pos",
                                           ".patch_embd",
                                           "ffn_gate_tid2eid.weight"};

// Why the tensor is not quantised, or "".
std::string_view KeptBecause(const gguf::TensorInfo& tensor) {
  if (tensor.shape.rows() == 1) return "a vector";
  if (!tensor.name.ends_with("weight")) return "not a weight";
  for (const std::string_view part : kKeptParts) {
    if (Has(tensor.name, part)) return "small, and much depends on it";
  }
  return "";
}

// The N of "blk.N.", or -1.
int LayerOf(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

bool GetsMoreBits(int layer, int layers) {
  const int eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// A form of smaller blocks and no fewer bits.
DType Fallback(DType form) {
  switch (form) {
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    default:
      return form;
  }
}

class Planner {
 public:
  Planner(const gguf::Header& header, const FileType& type) : header_(header), type_(type) {
    separate_head_ = header.FindTensor("output.weight") != nullptr;
    const auto text = gguf::GetStringOr(header, "general.architecture", "");
    if (text.ok()) architecture_ = *text;
    const auto experts = gguf::GetUintOr(header, architecture_ + ".expert_count", 0);
    eight_experts_ = experts.ok() && *experts == 8;
    for (const gguf::TensorInfo& tensor : header.tensors()) {
      layers_ = std::max(layers_, LayerOf(tensor.name) + 1);
    }
  }

  TensorPlan Plan(const gguf::TensorInfo& tensor) const {
    TensorPlan plan{&tensor, type_.form, type_.form, "", false, 0};
    if (const std::string_view kept = KeptBecause(tensor); !kept.empty()) {
      plan.wanted = tensor.shape.rows() == 1 ? DType::kF32 : tensor.dtype();
      plan.reason = fmt::format("kept: {}", kept);
    } else if (tensor::IsQuantized(type_.form)) {
      plan.wanted = Rule(tensor, &plan.reason);
    }
    plan.to = plan.wanted;
    const int64_t width = tensor.shape.columns();
    if (width % tensor::Info(plan.to).block_elements != 0) {
      plan.to = Fallback(plan.to);
      if (width % tensor::Info(plan.to).block_elements != 0) plan.to = DType::kF16;
      plan.fell_back = true;
      plan.reason =
          fmt::format("width {} is no multiple of {}'s {}", width, tensor::Name(plan.wanted),
                      tensor::Info(plan.wanted).block_elements);
    }
    plan.bytes = tensor::RowBytes(plan.to, width) * static_cast<uint64_t>(tensor.shape.rows());
    return plan;
  }

 private:
  DType Rule(const gguf::TensorInfo& tensor, std::string* reason) const {
    const DType form = type_.form;
    const std::string_view name = tensor.name;
    if (name == "output.weight" || (!separate_head_ && name == "token_embd.weight")) {
      if (form == DType::kQ8_0) return form;
      *reason = "the output matrix";
      return DType::kQ6_K;
    }
    const int layer = LayerOf(name);
    const bool more = type_.mixed && layer >= 0 && GetsMoreBits(layer, layers_);
    if (Has(name, "attn_v.weight") || (eight_experts_ && Has(name, "attn_k.weight"))) {
      if (eight_experts_) {
        *reason = "shared by eight experts";
        return DType::kQ8_0;
      }
      return more ? WithMore(reason) : form;
    }
    if (Has(name, "ffn_down")) return more ? WithMore(reason) : form;
    if (type_.mixed && Has(name, "attn_qkv.weight")) {
      *reason = "holds the values of attention";
      return form == DType::kQ4_K ? DType::kQ5_K : DType::kQ6_K;
    }
    if (eight_experts_ && form == DType::kQ4_K && Has(name, "attn_output.weight")) {
      *reason = "shared by eight experts";
      return DType::kQ5_K;
    }
    return form;
  }

  static DType WithMore(std::string* reason) {
    *reason = "one of the layers with more bits";
    return DType::kQ6_K;
  }

  const gguf::Header& header_;
  const FileType& type_;
  std::string architecture_;
  int layers_ = 0;
  bool separate_head_ = false, eight_experts_ = false;
};

}  // namespace

Result<std::vector<TensorPlan>> PlanTensors(const gguf::Header& header, const FileType& type) {
  const Planner planner(header, type);
  std::vector<TensorPlan> out;
  for (const gguf::TensorInfo& tensor : header.tensors()) {
    if (!tensor::ReadableType(tensor.type_id)) {
      return InvalidArgument(
          "gguf_unsupported_type",
          fmt::format("tensor {} has a type that is not read", Quote(tensor.name)));
    }
    out.push_back(planner.Plan(tensor));
  }
  return out;
}

}  // namespace tutti::quantize
