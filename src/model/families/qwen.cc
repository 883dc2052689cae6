// Qwen 2 and 2.5: biases of queries, keys and values. Qwen 3: norms of each head instead; its
// mixture of experts.
#include "base/quote.h"
#include "model/families/families.h"

namespace tutti::model {
namespace {

constexpr std::string_view kQwenMoeKeys[] = {"expert_count", "expert_used_count"};

// Windows are in the files of all of them and off in all that are published.
Status RefuseQwenWindow(const FamilySource& source) {
  ASSIGN_OR_RETURN(const bool windows, source.keys.BoolOr("use_sliding_window", false));
  if (!windows) return OkStatus();
  return InvalidArgument("model_hparam",
                         "use_sliding_window is true, which is not supported here (false is)");
}

Status DescribeQwen2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(RefuseQwenWindow(source));
  config.qkv_bias = true;
  return OkStatus();
}

Status DescribeQwen3(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(RefuseQwenWindow(source));
  ASSIGN_OR_RETURN(config.qkv_bias, source.keys.BoolOr("attention.bias", false));
  config.output_bias = config.qkv_bias;
  config.head_norm = HeadNorm::kPerHead;
  return OkStatus();
}

Status DescribeQwen3Moe(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(DescribeQwen3(source, config));
  RETURN_IF_ERROR(ReadExperts(source, config));
  if (config.experts == 0)
    return InvalidArgument("model_hparam", source.keys.Spelled("expert_count") + " is missing");
  ASSIGN_OR_RETURN(const int64_t wide,
                   source.keys.Int("expert_feed_forward_length", 1, kMaxFeedForward));
  config.feed_forward = static_cast<int>(wide);
  ASSIGN_OR_RETURN(const int64_t step, source.keys.IntOr("decoder_sparse_step", 1, 0, kMaxLayers));
  if (step != 1)
    return InvalidArgument("model_hparam",
                           "decoder_sparse_step is not 1: layers with and without "
                           "experts in one model are not supported");
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1,
                   source.keys.BoolOr("expert_weights_norm", source.form == Form::kGguf));
  return OkStatus();
}

}  // namespace

const Family kQwen2 = {.architecture = "qwen2", .model_type = "qwen2", .describe = &DescribeQwen2};
const Family kQwen3 = {.architecture = "qwen3", .model_type = "qwen3", .describe = &DescribeQwen3};
const Family kQwen3Moe = {.architecture = "qwen3moe",
                          .model_type = "qwen3_moe",
                          .keys = kQwenMoeKeys,
                          .expert_width_key = true,
                          .describe = &DescribeQwen3Moe};

}  // namespace tutti::model
