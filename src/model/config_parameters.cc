#include "model/config_parameters.h"

#include <limits>

namespace tutti::model {
namespace {

struct Alias {
  std::string_view name;     // of GGUF
  std::string_view spelled;  // of config.json; a dot goes into an object
};
// The first alias that exists in the file counts. A name without an alias is used unchanged.
constexpr Alias kAliases[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size_mlp"},
    {"feed_forward_length", "block_ff_dim"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.head_count_kv_full", "num_global_key_value_heads"},
    {"attention.shared_kv_layers", "num_kv_shared_layers"},
    {"attention.key_length", "attention_head_dim"},
    {"attention.key_length", "global_head_dim"},
    {"attention.key_length", "head_dim"},
    {"attention.value_length", "v_head_dim"},
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"attention.key_length_swa", "head_dim"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
    {"altup.num_inputs", "altup_num_inputs"},
    {"altup.active_idx", "altup_active_idx"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_rms_epsilon", "norm_eps"},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.layer_norm_epsilon", "norm_eps"},
    {"attention.layer_norm_epsilon", "norm_epsilon"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.chunk_size", "attention_chunk_size"},
    {"attention.scale", "attention_multiplier"},
    {"attention.bias", "attention_bias"},
    {"attention.bias", "use_bias"},
    {"attention.bias", "use_qkv_bias"},
    {"hidden_activation", "hidden_act"},
    {"activation", "mlp_hidden_act"},
    {"activation", "hidden_activation"},
    {"activation", "hidden_act"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logits_scaling"},
    {"logit_scale", "logit_scale"},
    {"expert_count", "num_local_experts"},
    {"expert_count", "num_experts"},
    {"expert_count", "n_routed_experts"},
    {"expert_count", "moe_num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_used_count", "moe_k"},
    {"expert_used_count", "top_k_experts"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_shared_count", "moe_num_shared_experts"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"leading_dense_block_count", "moe_layer_start_index"},
    {"leading_dense_block_count", "num_dense_layers"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"interleave_moe_layer_step", "moe_layer_interval"},
    {"interleave_moe_layer_step", "decoder_sparse_step"},
    {"attention.sliding_window_pattern", "layer_types"},
    {"rope.layers", "no_rope_layers"},  // 1: such a layer does rotate
    {"rope.dimension_count", "qk_rope_head_dim"},
    {"rope.partial", "rope_scaling.partial_rotary_factor"},
    {"rope.partial", "rope_parameters.partial_rotary_factor"},
    {"rope.partial", "rope_parameters.full_attention.partial_rotary_factor"},
    {"rope.partial", "partial_rotary_factor"},
    {"rope.freq_base", "rope_scaling.rope_theta"},
    {"rope.freq_base", "rope_parameters.rope_theta"},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta"},
    {"rope.freq_base", "theta"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"rope.scaling_swa", "rope_parameters.sliding_attention.rope_type"},
    {"sliding_window_pattern", "sliding_window_pattern"},
    {"sliding_window_pattern", "_sliding_window_pattern"},
    {"rope.scaling.type", "rope_scaling.rope_type"},
    {"rope.scaling.type", "rope_scaling.type"},
    {"rope.scaling.type", "rope_parameters.rope_type"},
    {"rope.scaling.type", "rope_parameters.full_attention.rope_type"},
    {"rope.scaling.factor", "rope_scaling.factor"},
    {"rope.scaling.factor", "rope_parameters.factor"},
    {"rope.scaling.factor", "rope_parameters.full_attention.factor"},
    {"rope.scaling.low_freq_factor", "rope_scaling.low_freq_factor"},
    {"rope.scaling.low_freq_factor", "rope_parameters.low_freq_factor"},
    {"rope.scaling.low_freq_factor", "rope_parameters.full_attention.low_freq_factor"},
    {"rope.scaling.high_freq_factor", "rope_scaling.high_freq_factor"},
    {"rope.scaling.high_freq_factor", "rope_parameters.high_freq_factor"},
    {"rope.scaling.high_freq_factor", "rope_parameters.full_attention.high_freq_factor"},
    // The key outside of rope_scaling, as in Phi's files, has precedence.
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
    {"rope.scaling.original_context_length", "rope_parameters.original_max_position_embeddings"},
    {"rope.scaling.original_context_length",
     "rope_parameters.full_attention.original_max_position_embeddings"},
    {"rope.scaling.attn_factor", "rope_scaling.attention_factor"},
    {"rope.scaling.attn_factor", "rope_parameters.attention_factor"},
    {"rope.scaling.attn_factor", "rope_parameters.full_attention.attention_factor"},
    {"rope.scaling.mscale", "rope_scaling.mscale"},
    {"rope.scaling.mscale", "rope_parameters.mscale"},
    {"rope.scaling.mscale", "rope_parameters.full_attention.mscale"},
    {"rope.scaling.mscale_all_dim", "rope_scaling.mscale_all_dim"},
    {"rope.scaling.mscale_all_dim", "rope_parameters.mscale_all_dim"},
    {"rope.scaling.mscale_all_dim", "rope_parameters.full_attention.mscale_all_dim"},
    {"attention.temperature_scale", "rope_scaling.llama_4_scaling_beta"},
    {"attention.temperature_scale", "rope_parameters.llama_4_scaling_beta"},
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"},
    {"rope.scaling.yarn_beta_fast", "rope_parameters.beta_fast"},
    {"rope.scaling.yarn_beta_fast", "rope_parameters.full_attention.beta_fast"},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"},
    {"rope.scaling.yarn_beta_slow", "rope_parameters.beta_slow"},
    {"rope.scaling.yarn_beta_slow", "rope_parameters.full_attention.beta_slow"},
    {"rope.scaling.truncate", "rope_scaling.truncate"},
    {"rope.scaling.truncate", "rope_parameters.truncate"},
    {"rope.scaling.truncate", "rope_parameters.full_attention.truncate"},
    {"rope.scaling.short_factor", "rope_scaling.short_factor"},
    {"rope.scaling.short_factor", "rope_parameters.short_factor"},
    {"rope.scaling.long_factor", "rope_scaling.long_factor"},
    {"rope.scaling.long_factor", "rope_parameters.long_factor"},
    {"rope.scaling.alpha", "rope_scaling.alpha"},
    {"rope.scaling.alpha", "rope_parameters.alpha"},
    {"shortconv.l_cache", "conv_L_cache"},
    {"ssm.conv_kernel", "mamba_d_conv"},
    {"ssm.conv_kernel", "linear_conv_kernel_dim"},
    {"ssm.conv_kernel", "conv_kernel"},
    {"ssm.state_size", "mamba_d_state"},
    {"ssm.state_size", "linear_key_head_dim"},
    {"ssm.state_size", "ssm_state_size"},
    {"ssm.group_count", "mamba_n_groups"},
    {"ssm.group_count", "linear_num_key_heads"},
    {"ssm.group_count", "n_groups"},
    {"ssm.time_step_rank", "mamba_n_heads"},
    {"ssm.time_step_rank", "linear_num_value_heads"},
    {"ssm.time_step_rank", "mamba_num_heads"},
    {"ssm.conv_bias", "mamba_conv_bias"},
    {"ssm.conv_bias", "use_conv_bias"},
    {"ssm.projection_bias", "mamba_proj_bias"},
    {"expert_shared_feed_forward_length", "shared_intermediate_size"},
    {"tie_word_embeddings", "tie_embedding"},
    {"tie_word_embeddings", "tie_word_embeddings"},
};

// The value at `path` ("rope_scaling.factor"); nullptr if it is absent or null.
const boost::json::value* Reach(const JsonFile& file, std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return file.Find(path);
  const boost::json::value* outer = Reach(file, path.substr(0, dot));
  const boost::json::object* object = outer == nullptr ? nullptr : outer->if_object();
  const boost::json::value* value =
      object == nullptr ? nullptr : object->if_contains(path.substr(dot + 1));
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

Status ConfigParameters::CheckNesting() const {
  for (const Alias& alias : kAliases) {
    for (size_t dot = alias.spelled.find('.'); dot != std::string_view::npos;
         dot = alias.spelled.find('.', dot + 1)) {
      const std::string_view outer = alias.spelled.substr(0, dot);
      const boost::json::value* value = Reach(file_, outer);
      if (value != nullptr && !value->is_object()) return file_.Refuse(outer, "must be an object");
    }
  }
  return OkStatus();
}

ConfigParameters::Found ConfigParameters::Find(std::string_view name) const {
  Found found;
  for (const Alias& alias : kAliases) {
    if (alias.name != name) continue;
    if (found.spelled.empty()) found.spelled = alias.spelled;
    if (const boost::json::value* value = Reach(file_, alias.spelled))
      return {alias.spelled, value};
  }
  if (found.spelled.empty()) found = {name, file_.Find(name)};
  return found;
}

std::string ConfigParameters::Spelled(std::string_view name) const {
  return std::string(Find(name).spelled);
}

Result<int64_t> ConfigParameters::Int(std::string_view name, int64_t low, int64_t high) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const int64_t* number = found.value->if_int64();
  if (number == nullptr || *number < low || *number > high) {
    return file_.Refuse(found.spelled, "must be a whole number from {} to {}", low, high);
  }
  return *number;
}

Result<double> ConfigParameters::Float(std::string_view name, double low, double high) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  boost::system::error_code error;
  const double number = found.value->is_number() ? found.value->to_number<double>(error)
                                                 : std::numeric_limits<double>::quiet_NaN();
  if (error || !(number >= low && number <= high)) {
    return file_.Refuse(found.spelled, "must be a number from {} to {}", low, high);
  }
  return number;
}

Result<std::string> ConfigParameters::Text(std::string_view name) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const boost::json::string* text = found.value->if_string();
  if (text == nullptr) return file_.Refuse(found.spelled, "must be a string");
  return std::string(text->data(), text->size());
}

Result<bool> ConfigParameters::Bool(std::string_view name) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const bool* flag = found.value->if_bool();
  if (flag == nullptr) return file_.Refuse(found.spelled, "must be true or false");
  return *flag;
}

Result<std::vector<bool>> ConfigParameters::Windowed(std::string_view name, int layers) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const boost::json::array* kinds = found.value->if_array();
  const auto wanted = static_cast<size_t>(layers);
  if (kinds == nullptr || kinds->size() < wanted) {
    return file_.Refuse(found.spelled, "must be a list of {} kinds, one for each layer", layers);
  }
  std::vector<bool> windowed(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    const boost::json::value& kind = (*kinds)[i];
    windowed[i] = kind == "sliding_attention";
    if (windowed[i] || kind == "full_attention") continue;
    return file_.Refuse(
        found.spelled,
        "names {} for layer {}, which is not supported (full_attention and sliding_attention are)",
        Excerpt(kind), i);
  }
  return windowed;
}

Result<std::vector<bool>> ConfigParameters::Flags(std::string_view name, int layers) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const boost::json::array* list = found.value->if_array();
  const auto wanted = static_cast<size_t>(layers);
  if (list == nullptr || list->size() < wanted)
    return file_.Refuse(found.spelled, "must be a list of {} flags, one for each layer", layers);
  std::vector<bool> flags(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    const boost::json::value& flag = (*list)[i];
    flags[i] = flag == 1 || flag == true;
    if (!flags[i] && flag != 0 && flag != false)
      return file_.Refuse(found.spelled, "is {} for layer {}, not 0 or 1", Excerpt(flag), i);
  }
  return flags;
}

Result<std::vector<bool>> ConfigParameters::Recurrent(std::string_view kind, int layers) const {
  constexpr std::string_view kKinds = "layer_types", kAttention = "full_attn_idxs";
  const auto wanted = static_cast<size_t>(layers);
  std::vector<bool> recurrent(wanted);
  if (const boost::json::value* value = file_.Find(kKinds)) {
    const boost::json::array* kinds = value->if_array();
    if (kinds == nullptr || kinds->size() != wanted)
      return file_.Refuse(kKinds, "must be a list of {} kinds, one for each layer", layers);
    for (size_t i = 0; i < wanted; ++i) {
      recurrent[i] = (*kinds)[i] == boost::json::string_view(kind.data(), kind.size()) ||
                     // Granite 4, as transformers 5 writes it.
                     (kind == "mamba" && (*kinds)[i] == "linear_attention");
      if (recurrent[i] || (*kinds)[i] == "full_attention" || (*kinds)[i] == "attention") continue;
      return file_.Refuse(kKinds, "names {} for layer {}, which is not supported ({} is)",
                          Excerpt((*kinds)[i]), i, kind);
    }
    return recurrent;
  }
  if (!Has(kAttention)) return recurrent;
  ASSIGN_OR_RETURN(recurrent, Listed(kAttention, layers));
  recurrent.flip();
  return recurrent;
}

Result<std::vector<std::string>> ConfigParameters::Kinds(std::string_view name, int layers) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const boost::json::array* list = found.value->if_array();
  std::vector<std::string> kinds;
  for (size_t i = 0; list != nullptr && i < list->size() && (*list)[i].is_string(); ++i)
    kinds.emplace_back((*list)[i].get_string());
  if (list != nullptr && kinds.size() == list->size() &&
      kinds.size() == static_cast<size_t>(layers))
    return kinds;
  return file_.Refuse(found.spelled, "must be a list of {} kinds, one for each layer", layers);
}

Result<std::vector<bool>> ConfigParameters::Listed(std::string_view name, int layers) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  std::vector<bool> listed(static_cast<size_t>(layers));
  const boost::json::array* list = found.value->if_array();
  if (list == nullptr) return file_.Refuse(found.spelled, "must be a list of layers");
  for (const boost::json::value& item : *list) {
    const int64_t* layer = item.if_int64();
    if (layer == nullptr || *layer < 0 || *layer >= layers)
      return file_.Refuse(found.spelled, "names layer {}; the last is {}", Excerpt(item),
                          layers - 1);
    listed[static_cast<size_t>(*layer)] = true;
  }
  return listed;
}

Result<std::vector<int>> ConfigParameters::IntsOfLayers(std::string_view name, int layers,
                                                        int64_t low, int64_t high) const {
  const Found found = Find(name);
  const boost::json::array* list = found.value == nullptr ? nullptr : found.value->if_array();
  if (list == nullptr) return HyperParameters::IntsOfLayers(name, layers, low, high);
  std::vector<int> numbers;
  for (const boost::json::value& item : *list) {
    const int64_t* number = item.if_int64();
    if (number == nullptr || *number < low || *number > high) break;
    numbers.push_back(static_cast<int>(*number));
  }
  if (numbers.size() == list->size() && numbers.size() == static_cast<size_t>(layers))
    return numbers;
  return file_.Refuse(found.spelled,
                      "must be a whole number from {} to {}, or {} of them, one for each layer",
                      low, high, layers);
}

Result<std::vector<double>> ConfigParameters::NumbersOfLayers(std::string_view name, int layers,
                                                              double low, double high) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const boost::json::array* list = found.value->if_array();
  std::vector<double> numbers;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    boost::system::error_code error;
    const boost::json::value& item = (*list)[i];
    const double number =
        item.is_number() ? item.to_number<double>(error) : std::numeric_limits<double>::quiet_NaN();
    if (error || !(number >= low && number <= high)) break;
    numbers.push_back(number);
  }
  if (list != nullptr && numbers.size() == list->size() &&
      numbers.size() == static_cast<size_t>(layers))
    return numbers;
  return file_.Refuse(found.spelled,
                      "must be a list of {} numbers from {} to {}, one for each layer", layers, low,
                      high);
}

Result<std::vector<float>> ConfigParameters::Floats(std::string_view name) const {
  const Found found = Find(name);
  if (found.value == nullptr) return file_.Refuse(found.spelled, "is missing");
  const boost::json::array* list = found.value->if_array();
  std::vector<float> numbers;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    boost::system::error_code error;
    const boost::json::value& item = (*list)[i];
    const double number = item.is_number() ? item.to_number<double>(error) : 0;
    if (error || !(number >= 1e-6 && number <= 1e6)) break;
    numbers.push_back(static_cast<float>(number));
  }
  if (list == nullptr || numbers.size() != list->size())
    return file_.Refuse(found.spelled, "must be a list of numbers from 1e-06 to 1e+06");
  return numbers;
}

}  // namespace tutti::model
