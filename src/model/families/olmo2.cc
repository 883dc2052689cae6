// OLMo 2: norms behind attention and feed-forward instead of before, and of all queries, all keys.
#include "model/families/families.h"

namespace tutti::model {
namespace {

constexpr RenamedTensor kOlmo2Tensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

Status DescribeOlmo2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.head_norm = HeadNorm::kWholeRow;
  config.norm_before = false;
  config.norm_after = true;
  return OkStatus();
}

}  // namespace

const Family kOlmo2 = {.architecture = "olmo2",
                       .model_type = "olmo2",
                       .tensors = kOlmo2Tensors,
                       .describe = &DescribeOlmo2};

}  // namespace tutti::model
