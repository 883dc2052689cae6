// WeightsLoader: recurrences.
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/recurrence.h"
#include "model/weights_loader.h"

namespace tutti::model {

Status WeightsLoader::PlanRecurrent(const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  RecurrentWeights& recurrent = layer.recurrent;
  if (c.norm_before && !c.attention_with_state)
    RETURN_IF_ERROR(PlanVector(prefix + "attn_norm.weight", &layer.attn_norm));
  switch (c.recurrence) {
    case Recurrence::kMamba2:
      return PlanMamba2(prefix + "ssm_", recurrent);
    case Recurrence::kDeltaNet:
      return PlanDeltaNet(prefix, recurrent);
    case Recurrence::kShortConv:
      return PlanShortConv(prefix, recurrent);
    case Recurrence::kNone:
      break;
  }
  CHECK(false) << "a recurrent layer without a recurrence";
  return OkStatus();
}

Status WeightsLoader::PlanShortConv(const std::string& prefix, RecurrentWeights& recurrent) {
  const ModelConfig& c = weights_->config_;
  const RecurrentShape shape = ShapeOfRecurrence(c);
  const std::string conv = prefix + "shortconv.";
  RETURN_IF_ERROR(
      PlanOne(conv + "in_proj", {c.width, shape.projected}, c.recurrent_bias, &recurrent.in));
  RETURN_IF_ERROR(PlanConvolution(conv + "conv", shape.conv_channels, &recurrent));
  return PlanOne(conv + "out_proj", {shape.inner, c.width}, c.recurrent_bias, &recurrent.out);
}

Status WeightsLoader::PlanMamba2(const std::string& ssm, RecurrentWeights& recurrent) {
  const ModelConfig& c = weights_->config_;
  const RecurrentShape shape = ShapeOfRecurrence(c);
  RETURN_IF_ERROR(PlanOne(ssm + "in", {c.width, shape.projected}, c.recurrent_bias, &recurrent.in));
  RETURN_IF_ERROR(PlanConvolution(ssm + "conv1d", shape.conv_channels, &recurrent));
  RETURN_IF_ERROR(PlanVector(ssm + "dt.bias", &recurrent.rate_bias, c.state_heads));
  for (const auto& [name, target] :
       {std::pair{"a", &recurrent.log_decay}, std::pair{"d", &recurrent.skip}}) {
    ASSIGN_OR_RETURN(const StoredTensor* by_head, arena_.Expect(ssm + name, {1, c.state_heads}));
    arena_.PlanVector({by_head}, target);
  }
  if (c.state_norm) {
    ASSIGN_OR_RETURN(
        const StoredTensor* norm,
        arena_.Expect(ssm + "norm.weight", {shape.inner / c.state_groups, c.state_groups}));
    arena_.PlanVector({norm}, &recurrent.norm);
  }
  return PlanOne(ssm + "out", {shape.inner, c.width}, c.recurrent_bias, &recurrent.out);
}

Status WeightsLoader::PlanDeltaNet(const std::string& prefix, RecurrentWeights& recurrent) {
  const ModelConfig& c = weights_->config_;
  const RecurrentShape shape = ShapeOfRecurrence(c);
  const std::string ssm = prefix + "ssm_";
  const int heads_of_group = c.state_heads / c.state_groups;
  WeightArena::Tensors mixed, gates, rates;
  const auto append = [&](WeightArena::Tensors* to, const char* kind, int rows) -> Status {
    ASSIGN_OR_RETURN(const WeightArena::Tensors parts,
                     ExpectParts(ssm + kind, c.state_groups, rows, c.width));
    to->insert(to->end(), parts.begin(), parts.end());
    return OkStatus();
  };
  if (checkpoint_.tensors->Find(ssm + "value.0.weight") != nullptr) {
    RETURN_IF_ERROR(append(&mixed, "query", c.state_keys));
    RETURN_IF_ERROR(append(&mixed, "key", c.state_keys));
    RETURN_IF_ERROR(append(&mixed, "value", heads_of_group * c.state_values));
    RETURN_IF_ERROR(append(&gates, "gate", heads_of_group * c.state_values));
  } else {
    ASSIGN_OR_RETURN(mixed.emplace_back(),
                     arena_.Expect(prefix + "attn_qkv.weight", {c.width, shape.conv_channels}));
    ASSIGN_OR_RETURN(gates.emplace_back(),
                     arena_.Expect(prefix + "attn_gate.weight", {c.width, shape.inner}));
  }
  if (checkpoint_.tensors->Find(ssm + "beta.0.weight") != nullptr) {
    RETURN_IF_ERROR(append(&rates, "beta", heads_of_group));
    RETURN_IF_ERROR(append(&rates, "alpha", heads_of_group));
  } else {
    for (const char* kind : {"beta.weight", "alpha.weight"}) {
      ASSIGN_OR_RETURN(rates.emplace_back(), arena_.Expect(ssm + kind, {c.width, c.state_heads}));
    }
  }
  RETURN_IF_ERROR(PlanGroups({mixed, gates, rates}, &recurrent.in));
  RETURN_IF_ERROR(PlanConvolution(ssm + "conv1d", shape.conv_channels, &recurrent));
  RETURN_IF_ERROR(PlanVector(ssm + "dt.bias", &recurrent.rate_bias, c.state_heads));
  RETURN_IF_ERROR(PlanVector(ssm + "a", &recurrent.log_decay, c.state_heads));
  RETURN_IF_ERROR(PlanVector(ssm + "norm.weight", &recurrent.norm, c.state_values));
  return PlanOne(ssm + "out", {shape.inner, c.width}, false, &recurrent.out);
}

Status WeightsLoader::PlanConvolution(const std::string& name, int channels,
                                      RecurrentWeights* recurrent) {
  const ModelConfig& c = weights_->config_;
  ASSIGN_OR_RETURN(const StoredTensor* weight,
                   arena_.Expect(name + ".weight", {c.conv_taps, channels}));
  // Scales of what the convolution reads are part of its weights.
  const StateScales& scales = c.state_scales;
  std::vector<float> factors;
  if (scales != StateScales()) {
    const int keys = c.state_groups * c.state_keys;
    factors.assign(static_cast<size_t>(channels - 2 * keys), static_cast<float>(scales.value));
    factors.insert(factors.end(), static_cast<size_t>(keys), static_cast<float>(scales.key));
    factors.insert(factors.end(), static_cast<size_t>(keys), static_cast<float>(scales.query));
  }
  arena_.PlanTransposed(weight, &recurrent->conv, std::move(factors));
  return c.conv_bias ? PlanVector(name + ".bias", &recurrent->conv_bias, channels) : OkStatus();
}

}  // namespace tutti::model
