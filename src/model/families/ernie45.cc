// ERNIE 4.5, dense: llama whose adjacent rows rotate together in its folders too, so that a GGUF
// has the rows of the folder in their order.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kErnie45Defaults =
    R"({"hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":18,
        "num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,
        "max_position_embeddings":131072,"rms_norm_eps":1e-5,"rope_theta":5e5,
        "tie_word_embeddings":true})";

Status DescribeErnie45(const FamilySource& source, ModelConfig&) {
  return RefuseUnlessActivation(source, "silu");
}

}  // namespace

const Family kErnie45 = {.architecture = "ernie4_5",
                         .model_type = "ernie4_5",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .folder_rope = kernels::RopeMode::kAdjacent,
                         .config_defaults = kErnie45Defaults,
                         .describe = &DescribeErnie45};

}  // namespace tutti::model
