// WeightsLoader: attention.
#include <string>
#include <utility>
#include <vector>

#include "model/weights_loader.h"

namespace tutti::model {

Status WeightsLoader::PlanAttention(int index, const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  if (c.norm_before) {
    RETURN_IF_ERROR(PlanNorm(prefix + "attn_norm", &layer.attn_norm, &layer.attn_norm_bias));
  }
  RETURN_IF_ERROR(c.latent_rank != 0 ? PlanLatent(prefix, layer) : PlanHeads(index, prefix, layer));
  if (c.attention_sinks)
    RETURN_IF_ERROR(PlanVector(prefix + "attn_sinks.weight", &layer.sinks, c.heads));
  if (c.inner_norms) {
    RETURN_IF_ERROR(PlanVector(prefix + "attn_sub_norm.weight", &layer.attn_inner_norm,
                               c.attended_rows(index)));
  }
  ASSIGN_OR_RETURN(const StoredTensor* o,
                   arena_.Expect(prefix + "attn_output.weight", {c.attended_rows(index), c.width}));
  RETURN_IF_ERROR(PlanProjection({o}, &layer.attn_output));
  if (c.output_bias)
    RETURN_IF_ERROR(PlanBias({{prefix + "attn_output.bias", c.width}}, &layer.attn_output));
  if (!c.norm_after) return OkStatus();
  return PlanVector(prefix + "post_attention_norm.weight", &layer.attn_after_norm);
}

Status WeightsLoader::PlanLatent(const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  LatentWeights& latent = layer.latent;
  const bool ranked = c.query_rank != 0;
  ASSIGN_OR_RETURN(const StoredTensor* q,
                   arena_.Expect(prefix + (ranked ? "attn_q_a.weight" : "attn_q.weight"),
                                 {c.width, ranked ? c.query_rank : c.q_rows()}));
  ASSIGN_OR_RETURN(const StoredTensor* kv, arena_.Expect(prefix + "attn_kv_a_mqa.weight",
                                                         {c.width, c.latent_rank + c.rope_dims}));
  RETURN_IF_ERROR(PlanProjection({q, kv}, &layer.qkv));
  if (ranked) {
    RETURN_IF_ERROR(PlanVector(prefix + "attn_q_a_norm.weight", &latent.query_norm, c.query_rank));
    RETURN_IF_ERROR(PlanOne(prefix + "attn_q_b", {c.query_rank, c.q_rows()}, false, &latent.query));
  }
  RETURN_IF_ERROR(
      PlanVector(prefix + "attn_kv_a_norm.weight", &latent.key_value_norm, c.latent_rank));
  ASSIGN_OR_RETURN(
      const WeightArena::Tensors keys,
      ExpectParts(prefix + "attn_k_b", c.heads, c.head_dim - c.rope_dims, c.latent_rank));
  ASSIGN_OR_RETURN(const WeightArena::Tensors values,
                   ExpectParts(prefix + "attn_v_b", c.heads, c.value_width(), c.latent_rank));
  return PlanGroups({keys, values}, &latent.key_value);
}

// Queries, keys and values, all of the same width, and their norms.
Status WeightsLoader::PlanHeads(int index, const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  const int q_rows = c.q_rows(index), kv_rows = c.kv_rows(index), head_dim = c.head_dim_of(index);
  WeightArena::Tensors q, gates;
  if (c.attention_gate) {
    ASSIGN_OR_RETURN(q, ExpectParts(prefix + "attn_q", c.heads, c.head_dim, c.width));
    ASSIGN_OR_RETURN(gates, ExpectParts(prefix + "attn_gate", c.heads, c.head_dim, c.width));
  } else {
    ASSIGN_OR_RETURN(q.emplace_back(), arena_.Expect(prefix + "attn_q.weight", {c.width, q_rows}));
  }
  WeightArena::Tensors k, v;  // empty where the layer has none
  if (c.owns_kv(index)) {
    ASSIGN_OR_RETURN(k.emplace_back(), arena_.Expect(prefix + "attn_k.weight", {c.width, kv_rows}));
  }
  if (c.owns_kv(index) && c.has_values(index)) {
    ASSIGN_OR_RETURN(v.emplace_back(), arena_.Expect(prefix + "attn_v.weight", {c.width, kv_rows}));
  }
  const std::pair<std::string, int64_t> q_bias = {prefix + "attn_q.bias", q_rows};
  const std::pair<std::string, int64_t> k_bias = {prefix + "attn_k.bias", kv_rows};
  const std::pair<std::string, int64_t> v_bias = {prefix + "attn_v.bias", kv_rows};
  if (options_.fuse) {
    std::vector<WeightArena::Tensors> groups = {q};
    if (!k.empty()) groups.push_back(k);
    if (!v.empty()) groups.push_back(v);
    if (c.attention_gate) groups.push_back(gates);
    RETURN_IF_ERROR(PlanGroups(groups, &layer.qkv));
    if (c.qkv_bias) RETURN_IF_ERROR(PlanBias({q_bias, k_bias, v_bias}, &layer.qkv));
  } else {
    RETURN_IF_ERROR(PlanProjection(q, &layer.q));
    if (c.attention_gate) RETURN_IF_ERROR(PlanProjection(gates, &layer.q_gate));
    if (!k.empty()) RETURN_IF_ERROR(PlanProjection(k, &layer.k));
    if (!v.empty()) RETURN_IF_ERROR(PlanProjection(v, &layer.v));
    if (c.qkv_bias) {
      RETURN_IF_ERROR(PlanBias({q_bias}, &layer.q));
      RETURN_IF_ERROR(PlanBias({k_bias}, &layer.k));
      RETURN_IF_ERROR(PlanBias({v_bias}, &layer.v));
    }
  }
  if (c.head_norm != HeadNorm::kNone && c.head_norm != HeadNorm::kUnweighted) {
    const bool whole = c.head_norm == HeadNorm::kWholeRow;
    RETURN_IF_ERROR(
        PlanVector(prefix + "attn_q_norm.weight", &layer.q_norm, whole ? q_rows : head_dim));
    if (c.owns_kv(index))
      RETURN_IF_ERROR(
          PlanVector(prefix + "attn_k_norm.weight", &layer.k_norm, whole ? kv_rows : head_dim));
  }
  return OkStatus();
}

}  // namespace tutti::model
