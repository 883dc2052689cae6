#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/quote.h"
#include "model/config_parameters.h"

namespace tutti::model {
namespace {

// Keys read for every family (config_parameters.cc, config.cc), or when a checkpoint is opened.
constexpr std::string_view kCommon[] = {
    "architectures",
    "compression_config",  // the older name of quantization_config
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
    "vocab_size",
};

// Keys about training, other programs and generation, which no logit depends on.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_flash_attn_2_enabled",
    "_from_model_config",
    "_name_or_path",
    "aux_loss_alpha",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "boi_token_index",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "do_sample",
    "dtype",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "eoi_token_index",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "image_token_id",
    "image_token_index",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "mm_tokens_per_image",
    "mtp_num_hidden_layers",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_labels",
    "num_mtp_layers",
    "num_nextn_predict_layers",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "summary_activation",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_last_hidden_states",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

// Keys known from other models: a value that is not neutral changes logits. Neutral values are
// null, false, empty ones, and the number given here.
struct ChangingKey {
  std::string_view key;
  double neutral = 0;
};
constexpr ChangingKey kChanging[] = {
    {"activation_sparsity_pattern"},
    {"add_bias_linear"},
    {"add_qkv_bias"},
    {"alibi"},
    {"altup_num_inputs"},
    {"apply_residual_connection_post_layernorm"},
    {"attention_bias"},
    {"attention_chunk_size"},
    {"attention_in_multiplier", 1},
    {"attention_k_eq_v"},
    {"attention_multiplier"},
    {"attention_out_bias"},
    {"attention_out_multiplier", 1},
    {"attention_qkv_bias"},
    {"attention_sinks"},
    {"attn_layer_period"},
    {"attn_logit_softcapping"},
    {"attn_temperature_tuning"},
    {"bias"},
    {"block_configs"},
    {"clip_qkv"},
    {"conv_L_cache"},
    {"cross_attention_layers"},
    {"decoder_sparse_step", 1},
    {"dim_model_base"},
    {"embedding_multiplier", 1},
    {"enable_moe_block"},
    {"final_logit_softcapping"},
    {"first_k_dense_replace"},
    {"global_head_dim"},
    {"hidden_size_per_layer_input"},
    {"interleave_moe_layer_step"},
    {"intermediate_size_mlp"},
    {"key_multiplier", 1},
    {"kv_lora_rank"},
    {"laurel_rank"},
    {"lm_head_bias"},
    {"lm_head_multiplier", 1},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"mamba_d_state"},
    {"mamba_n_heads"},
    {"mlp_bias"},
    {"mlp_only_layers"},
    {"moe_layer_freq", 1},
    {"moe_layers"},
    {"moe_num_experts"},
    {"multi_query"},
    {"n_routed_experts"},
    {"n_shared_experts"},
    {"no_rope_layer_interval"},
    {"nope_layer_interval"},
    {"normalize_embedding"},
    {"num_experts"},
    {"num_global_key_value_heads"},
    {"num_kv_shared_layers"},
    {"num_local_experts"},
    {"num_shared_experts"},
    {"parallel_attn"},
    {"per_layer_config"},
    {"post_norm"},
    {"q_lora_rank"},
    {"qk_layernorm"},
    {"qk_norm"},
    {"qkv_bias"},
    {"query_pre_attn_scalar"},
    {"residual_multiplier", 1},
    {"rope_interleave"},
    {"rope_interleaved"},
    {"rope_percentage", 1},
    {"rotary_dim"},
    {"rotary_pct", 1},
    {"routed_scaling_factor", 1},
    {"sandwich_norm"},
    {"scale_depth"},
    {"scale_emb", 1},
    {"scale_embedding"},
    {"shared_expert_intermediate_size"},
    {"ssm_multipliers"},
    {"swiglu_limit"},
    {"use_alibi"},
    {"use_bias"},
    {"use_bidirectional_attention"},
    {"use_cla"},
    {"use_double_wide_mlp"},
    {"use_mla"},
    {"use_mrope"},
    {"use_parallel_residual"},
    {"use_post_norm"},
    {"use_qk_layernorm"},
    {"use_qk_norm"},
    {"use_qkv_bias"},
    {"use_sliding_window"},
    {"v_head_dim"},
    {"vocab_size_per_layer_input"},
};

// Within rope_scaling and rope_parameters.
constexpr std::string_view kRopeKeys[] = {
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "finetuned",
    "full_attention",
    "high_freq_factor",
    "long_factor",
    "long_mscale",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "short_mscale",
    "sliding_attention",
    "truncate",
    "type",
};

template <typename Names>
bool Among(const Names& names, std::string_view key) {
  return std::find(std::begin(names), std::end(names), key) != std::end(names);
}

bool IsNeutral(const boost::json::value& value, double neutral) {
  if (value.is_null()) return true;
  if (const bool* flag = value.if_bool()) return !*flag;
  if (const boost::json::string* text = value.if_string()) return text->empty();
  if (const boost::json::array* list = value.if_array()) return list->empty();
  if (const boost::json::object* object = value.if_object()) return object->empty();
  boost::system::error_code error;
  const double number = value.to_number<double>(error);
  return !error && number == neutral;
}

// From 0 to infinity, which transformers writes as {"__float__": "Infinity"}.
bool IsNoLimit(const boost::json::value& value) {
  const boost::json::array* range = value.if_array();
  if (range == nullptr || range->size() != 2 || !IsNeutral(range->front(), 0)) return false;
  const boost::json::object* most = range->back().if_object();
  const boost::json::value* number = most == nullptr ? nullptr : most->if_contains("__float__");
  return number != nullptr && *number == "Infinity";
}

Status Unsupported(const Family& family, const JsonFile& config, std::string_view key,
                   const boost::json::value& value) {
  return RefuseParameter("{}: {} of {} is not supported in {}", config.name(), key, Excerpt(value),
                         family.model_type);
}

// Keys that have a rule of their own.
Status CheckOdd(const Family& family, const JsonFile& config, std::string_view key,
                const boost::json::value& value, bool& known) {
  const auto all = [&](auto&& holds) {
    const boost::json::array* list = value.if_array();
    return value.is_null() || (list != nullptr && std::all_of(list->begin(), list->end(), holds));
  };
  known = true;
  bool fine = true;
  if (key == "is_causal") {
    fine = value.is_null() || value == true;
  } else if (key == "layer_types") {
    fine = all([](const boost::json::value& kind) { return kind == "full_attention"; });
  } else if (key == "time_step_limit") {  // of recurrences: no limit
    fine = value.is_null() || IsNoLimit(value);
  } else if (key == "no_rope_layers") {  // 1: such a layer does rotate
    fine = all([](const boost::json::value& rotates) { return rotates == 1; });
  } else {
    known = false;
  }
  return fine ? OkStatus() : Unsupported(family, config, key, value);
}

Status CheckRope(const Family& family, const JsonFile& config, const std::string& path,
                 const boost::json::object& keys) {
  for (const auto& [key, value] : keys) {
    const std::string at = path + "." + std::string(key);
    const bool known = Among(kRopeKeys, std::string_view(key)) || Among(family.config_keys, at);
    if (!value.is_null() && !known)
      return config.Refuse(at, "of {} is not supported", Excerpt(value));
    if (const boost::json::object* inner = value.if_object())
      RETURN_IF_ERROR(CheckRope(family, config, at, *inner));
  }
  return OkStatus();
}

}  // namespace

Status CheckConfigKeys(const Family& family, const JsonFile& config,
                       std::vector<std::string>& remarks) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : config.members()) {
    const std::string_view key = name;
    if (Among(kCommon, key) || Among(family.config_keys, key) || Among(kHarmless, key)) {
      if (!key.starts_with("rope_")) continue;
      if (const boost::json::object* rope = value.if_object())
        RETURN_IF_ERROR(CheckRope(family, config, std::string(key), *rope));
      continue;
    }
    bool known = false;
    RETURN_IF_ERROR(CheckOdd(family, config, key, value, known));
    const auto* const changing =
        std::find_if(std::begin(kChanging), std::end(kChanging),
                     [&](const ChangingKey& candidate) { return candidate.key == key; });
    if (changing != std::end(kChanging)) {
      if (!IsNeutral(value, changing->neutral)) return Unsupported(family, config, key, value);
    } else if (!known && !value.is_null()) {
      unknown.push_back(Quote(key, 40));
    }
  }
  if (unknown.empty()) return OkStatus();
  constexpr size_t kShown = 8;
  const size_t more = unknown.size() > kShown ? unknown.size() - kShown : 0;
  if (more > 0) unknown.resize(kShown);
  std::string list;
  for (const std::string& key : unknown) list += (list.empty() ? "" : ", ") + key;
  remarks.push_back(fmt::format("{}: keys that are not known and not used: {}{}", config.name(),
                                list, more > 0 ? fmt::format(" and {} more", more) : ""));
  return OkStatus();
}

}  // namespace tutti::model
