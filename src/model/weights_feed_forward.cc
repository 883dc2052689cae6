// WeightsLoader: feed-forwards and experts.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "model/weights_loader.h"

namespace tutti::model {

Status WeightsLoader::PlanDenseFeedForward(int index, const std::string& prefix,
                                           LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  if (!c.gated) return PlanUngatedFeedForward(prefix, layer);
  if (!options_.fuse) return PlanUnfusedFeedForward(index, prefix, layer);
  if (c.stores_gate_up(index)) return PlanStoredFeedForward(index, prefix, layer);
  return PlanFeedForward(prefix + "ffn_gate.weight", prefix + "ffn_up.weight",
                         prefix + "ffn_down.weight", c.feed_forward_of(index), &layer.gate_up,
                         &layer.down);
}

Status WeightsLoader::PlanExperts(const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  if (c.dense_and_experts) RETURN_IF_ERROR(PlanNormsOfExperts(prefix, layer));
  ASSIGN_OR_RETURN(const StoredTensor* router,
                   arena_.Expect(prefix + "ffn_gate_inp.weight", {c.width, c.experts}));
  WeightArena::Tensors router_rows = {router};
  if (c.shared_gate) {
    const std::string gate_name = prefix + "ffn_gate_inp_shexp.weight";
    ASSIGN_OR_RETURN(const StoredTensor* gate, ExpectRow(gate_name, c.width));
    router_rows.push_back(gate);
  }
  RETURN_IF_ERROR(PlanProjection(router_rows, &layer.router));
  if (c.router_bias) {
    ASSIGN_OR_RETURN(const StoredTensor* bias, ExpectRow(prefix + "exp_probs_b.bias", c.experts));
    arena_.PlanVector({bias}, &layer.router_bias);
  }
  if (c.router_logit_bias)
    RETURN_IF_ERROR(PlanBias({{prefix + "ffn_gate_inp.bias", c.experts}}, &layer.router));
  layer.experts.resize(static_cast<size_t>(c.experts));
  for (int e = 0; e < c.experts; ++e) {
    ExpertWeights& expert = layer.experts[static_cast<size_t>(e)];
    const auto name = [&](const char* kind) {
      return fmt::format("{}ffn_{}.{}.weight", prefix, kind, e);
    };
    RETURN_IF_ERROR(PlanFeedForward(name("gate"), name("up"), name("down"), c.expert_feed_forward,
                                    &expert.gate_up, &expert.down));
    if (c.expert_bias) RETURN_IF_ERROR(PlanExpertBiases(prefix, e, &expert));
  }
  if (c.shared_feed_forward == 0) return OkStatus();
  return PlanFeedForward(prefix + "ffn_gate_shexp.weight", prefix + "ffn_up_shexp.weight",
                         prefix + "ffn_down_shexp.weight", c.shared_feed_forward,
                         &layer.shared_expert.gate_up, &layer.shared_expert.down);
}

Status WeightsLoader::PlanNormsOfExperts(const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  const float root = 1 / std::sqrt(static_cast<float>(c.width));
  RETURN_IF_ERROR(PlanVector(prefix + "ffn_gate_inp.scale", &layer.router_norm, 0, root));
  RETURN_IF_ERROR(PlanVector(prefix + "ffn_down_exps.scale", &layer.expert_scales, c.experts));
  RETURN_IF_ERROR(PlanVector(prefix + "pre_ffw_norm_2.weight", &layer.expert_norm));
  RETURN_IF_ERROR(PlanVector(prefix + "post_ffw_norm_1.weight", &layer.dense_after_norm));
  return PlanVector(prefix + "post_ffw_norm_2.weight", &layer.experts_after_norm);
}

Status WeightsLoader::PlanExpertBiases(const std::string& prefix, int number,
                                       ExpertWeights* expert) {
  const ModelConfig& c = weights_->config_;
  const auto bias = [&](const char* kind, int64_t length) {
    return ExpectRow(fmt::format("{}ffn_{}.{}.bias", prefix, kind, number), length);
  };
  ASSIGN_OR_RETURN(const StoredTensor* gate, bias("gate", c.expert_feed_forward));
  ASSIGN_OR_RETURN(const StoredTensor* up, bias("up", c.expert_feed_forward));
  arena_.PlanVector({gate, up}, &expert->gate_up.bias, 0, 1, WeightArena::GateUp::kTwo);
  ASSIGN_OR_RETURN(const StoredTensor* down, bias("down", c.width));
  arena_.PlanVector({down}, &expert->down.bias,
                    static_cast<size_t>(kernels::RoundUpToPanel(c.width)));
  return OkStatus();
}

Status WeightsLoader::PlanFeedForward(const std::string& gate_name, const std::string& up_name,
                                      const std::string& down_name, int64_t feed_forward,
                                      Projection* gate_up, Projection* down) {
  const int64_t width = weights_->config_.width;
  const bool gated = weights_->config_.gated;  // experts may have no gate
  const StoredTensor* gate = nullptr;
  if (gated) {
    ASSIGN_OR_RETURN(gate, arena_.Expect(gate_name, {width, feed_forward}));
  }
  ASSIGN_OR_RETURN(const StoredTensor* up, arena_.Expect(up_name, {width, feed_forward}));
  RETURN_IF_ERROR(gated ? PlanGateUp(gate, up, gate_up) : PlanProjection({up}, gate_up));
  ASSIGN_OR_RETURN(const StoredTensor* out, arena_.Expect(down_name, {feed_forward, width}));
  return PlanProjection({out}, down);
}

Status WeightsLoader::PlanStoredFeedForward(int index, const std::string& prefix,
                                            LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  const int feed_forward = c.feed_forward_of(index);
  WeightArena::Tensors gate_up;
  for (const char* name : {"ffn_gate.weight", "ffn_up.weight"}) {
    ASSIGN_OR_RETURN(gate_up.emplace_back(), arena_.Expect(prefix + name, {c.width, feed_forward}));
  }
  RETURN_IF_ERROR(PlanProjection(gate_up, &layer.gate_up));
  return PlanOne(prefix + "ffn_down", {feed_forward, c.width}, false, &layer.down);
}

Status WeightsLoader::PlanUngatedFeedForward(const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  ASSIGN_OR_RETURN(const StoredTensor* up,
                   arena_.Expect(prefix + "ffn_up.weight", {c.width, c.feed_forward}));
  ASSIGN_OR_RETURN(const StoredTensor* down,
                   arena_.Expect(prefix + "ffn_down.weight", {c.feed_forward, c.width}));
  RETURN_IF_ERROR(PlanProjection({up}, &layer.up));
  RETURN_IF_ERROR(PlanProjection({down}, &layer.down));
  if (!c.ffn_bias) return OkStatus();
  RETURN_IF_ERROR(PlanBias({{prefix + "ffn_up.bias", c.feed_forward}}, &layer.up));
  return PlanBias({{prefix + "ffn_down.bias", c.width}}, &layer.down);
}

Status WeightsLoader::PlanUnfusedFeedForward(int index, const std::string& prefix,
                                             LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  const int feed_forward = c.feed_forward_of(index);
  ASSIGN_OR_RETURN(const StoredTensor* gate,
                   arena_.Expect(prefix + "ffn_gate.weight", {c.width, feed_forward}));
  ASSIGN_OR_RETURN(const StoredTensor* up,
                   arena_.Expect(prefix + "ffn_up.weight", {c.width, feed_forward}));
  ASSIGN_OR_RETURN(const StoredTensor* down,
                   arena_.Expect(prefix + "ffn_down.weight", {feed_forward, c.width}));
  RETURN_IF_ERROR(PlanProjection({gate}, &layer.gate));
  RETURN_IF_ERROR(PlanProjection({up}, &layer.up));
  return PlanProjection({down}, &layer.down);
}

}  // namespace tutti::model
