// Apertus: norms of each head, and a feed-forward without a gate whose activation, xIELU, has
// parameters in each layer. A folder has these as tensors, a GGUF as lists.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/families/family.h"

namespace tutti::model {
namespace {

// Its class always normalises queries and keys, whatever qk_norm says.
constexpr std::string_view kApertusConfigKeys[] = {"attention_bias", "qk_norm"};
constexpr std::string_view kApertusDefaults =
    R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":65536,"rms_norm_eps":1e-5,
        "rope_theta":12000000.0})";
constexpr RenamedTensor kApertusTensors[] = {
    {"attention_layernorm.", "attn_norm."},
    {"feedforward_layernorm.", "ffn_norm."},
    {"mlp.act_fn.", "xielu."},
};

// The values of the parameter `name` in all layers; `fallback` if no layer has it.
Result<std::vector<float>> ReadParameter(const FamilySource& source, const std::string& name,
                                         int layers, std::optional<float> fallback) {
  if (source.form == Form::kGguf) return source.keys.FloatsOfLayers("xielu." + name, layers);
  std::vector<float> values;
  for (int i = 0; i < layers; ++i) {
    const std::string tensor = fmt::format("blk.{}.xielu.{}", i, name);
    const StoredTensor* stored = source.store.Find(tensor);
    if (stored == nullptr && !fallback)
      return InvalidArgument("model_tensor_missing", "the file does not have the tensor " + tensor);
    std::vector<float> read;
    if (stored == nullptr) {
      read = {*fallback};
    } else {
      ASSIGN_OR_RETURN(read, source.store.ReadFloats(*stored));
    }
    if (read.size() != 1 || !(std::fabs(read[0]) <= 1e6F))
      return RefuseParameter("{} is not one number from -1e6 to 1e6", tensor);
    values.push_back(read[0]);
  }
  return values;
}

Status DescribeApertus(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "xielu"));
  config.head_norm = HeadNorm::kPerHead;
  config.gated = false;
  config.gate = GateKind::kXielu;
  const Xielu usual;
  const auto read = [&](const char* name, std::optional<float> fallback) {
    return ReadParameter(source, name, config.layers, fallback);
  };
  ASSIGN_OR_RETURN(const std::vector<float> positive, read("alpha_p", std::nullopt));
  ASSIGN_OR_RETURN(const std::vector<float> negative, read("alpha_n", std::nullopt));
  ASSIGN_OR_RETURN(const std::vector<float> beta, read("beta", usual.beta));
  ASSIGN_OR_RETURN(const std::vector<float> epsilon, read("eps", usual.epsilon));
  for (size_t i = 0; i < positive.size(); ++i) {
    if (!(epsilon[i] >= -1 && epsilon[i] <= -1e-12F))
      return RefuseParameter("xIELU's eps of layer {} is {}, outside -1..-1e-12", i, epsilon[i]);
    config.xielu.push_back({positive[i], negative[i], beta[i], epsilon[i]});
  }
  return ReadBiases(source, config);
}

}  // namespace

const Family kApertus = {.architecture = "apertus",
                         .model_type = "apertus",
                         .config_keys = kApertusConfigKeys,
                         .config_defaults = kApertusDefaults,
                         .tensors = kApertusTensors,
                         .describe = &DescribeApertus};

}  // namespace tutti::model
