// Nemotron-H: layers of one part each: Mamba-2, whose outputs are normalised by group; attention
// without rotation; or a feed-forward without a gate that squares what is above 0. In Nemotron 3
// feed-forwards are mixtures of such networks and a shared one, chosen by sigmoids with a bias; its
// GGUFs have an architecture of their own.
#include <fmt/format.h>

#include <string>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kNemotronHKeys[] = {"expert_count",
                                               "expert_used_count",
                                               "expert_shared_count",
                                               "expert_shared_feed_forward_length",
                                               "mlp_bias",
                                               "ssm.conv_kernel",
                                               "ssm.state_size",
                                               "ssm.group_count",
                                               "ssm.time_step_rank"};
constexpr std::string_view kNemotronHConfigKeys[] = {
    "attention_head_dim",
    "chunk_size",
    "conv_kernel",
    "expand",
    "hybrid_override_pattern",
    "layer_norm_epsilon",
    "layers_block_type",
    "mamba_head_dim",
    "mamba_hidden_act",
    "mamba_num_heads",
    "mamba_proj_bias",
    "mamba_ssm_cache_dtype",
    "mlp_bias",
    "mlp_hidden_act",
    "moe_intermediate_size",
    "moe_latent_size",
    "moe_shared_expert_intermediate_size",
    "moe_shared_expert_overlap",
    "mtp_hybrid_override_pattern",
    "mtp_layers_block_type",
    "n_group",
    "n_groups",
    "n_routed_experts",
    "n_shared_experts",
    "norm_topk_prob",
    "num_experts_per_tok",
    "num_logits_to_keep",
    "rescale_prenorm_residual",
    "residual_in_fp32",
    "routed_scaling_factor",
    "ssm_state_size",
    "time_step_floor",
    "time_step_limit",
    "time_step_max",
    "time_step_min",
    "time_step_rank",
    "topk_group",
    "use_bias",
    "use_conv_bias",
    "use_mamba_kernels",
};
constexpr std::string_view kNemotronHDefaults =
    R"({"hidden_size":4096,"intermediate_size":21504,"num_attention_heads":32,
        "num_key_value_heads":8,"head_dim":128,"max_position_embeddings":4096,
        "layer_norm_epsilon":1e-5,"ssm_state_size":128,"mamba_num_heads":128,"mamba_head_dim":64,
        "n_groups":8,"conv_kernel":4,"n_routed_experts":8,"num_experts_per_tok":2,
        "moe_intermediate_size":7688,"moe_shared_expert_intermediate_size":7688})";
constexpr RenamedTensor kNemotronHTensors[] = {
    {"norm.", "attn_norm."},
    {"mixer.in_proj.", "ssm_in."},
    {"mixer.out_proj.", "ssm_out."},
    {"mixer.conv1d.", "ssm_conv1d."},
    {"mixer.norm.", "ssm_norm."},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a"},
    {"mixer.D", "ssm_d"},
    {"mixer.q_proj.", "attn_q."},
    {"mixer.k_proj.", "attn_k."},
    {"mixer.v_proj.", "attn_v."},
    {"mixer.o_proj.", "attn_output."},
    {"mixer.up_proj.", "ffn_up."},
    {"mixer.down_proj.", "ffn_down."},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.gate.", "ffn_gate_inp."},
    {"mixer.shared_experts.up_proj.", "ffn_up_shexp."},
    {"mixer.shared_experts.down_proj.", "ffn_down_shexp."},
};

char LetterOf(std::string_view kind) {
  if (kind == "linear_attention" || kind == "mamba") return 'M';
  if (kind == "full_attention" || kind == "attention") return '*';
  return kind == "mlp" ? '-' : kind == "moe" ? 'E' : '?';
}

// A letter for each layer, as in hybrid_override_pattern: M for Mamba-2, * for attention, - for a
// feed-forward, E for experts.
Result<std::string> LayerPattern(const FamilySource& source, int layers) {
  constexpr std::string_view kPattern = "hybrid_override_pattern", kList = "layers_block_type";
  std::string pattern;
  if (source.form == Form::kGguf) {
    ASSIGN_OR_RETURN(const auto attends, source.keys.Positive("attention.head_count_kv", layers));
    ASSIGN_OR_RETURN(const auto feeds, source.keys.Positive("feed_forward_length", layers));
    for (size_t i = 0; i < attends.size(); ++i) {
      const bool routes =
          source.store.Find(fmt::format("blk.{}.ffn_gate_inp.weight", i)) != nullptr;
      pattern += attends[i] ? '*' : !feeds[i] ? 'M' : routes ? 'E' : '-';
    }
    return pattern;
  }
  if (source.keys.Has(kList)) {
    ASSIGN_OR_RETURN(const auto kinds, source.keys.Kinds(kList, layers));
    for (const std::string& kind : kinds) pattern += LetterOf(kind);
  } else {
    ASSIGN_OR_RETURN(pattern, source.keys.Text(kPattern));
  }
  if (pattern.size() != static_cast<size_t>(layers) ||
      pattern.find_first_not_of("M*-E") != std::string::npos)
    return RefuseParameter("{} must have M, *, - or E for each of {} layers", kPattern, layers);
  return pattern;
}

// The mixtures of Nemotron 3. Their layers have no other part.
Status ReadNemotronExperts(const FamilySource& source, std::string_view pattern,
                           ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  RETURN_IF_ERROR(ReadSigmoidRouter(source, config));
  constexpr std::string_view kLatent = "moe_latent_size";
  if (keys.Has(kLatent))
    return RefuseParameter("{} is set: experts of a latent width are not supported", kLatent);
  ASSIGN_OR_RETURN(const bool biases, keys.BoolOr("mlp_bias", false));
  if (biases) return RefuseParameter("mlp_bias is true, which is not supported with experts");
  config.router_bias = true;
  ASSIGN_OR_RETURN(const int64_t shared,
                   keys.IntOr("expert_shared_feed_forward_length", 0, 0, kMaxFeedForward));
  config.shared_feed_forward = static_cast<int>(shared);
  for (const char kind : pattern) config.without_experts.push_back(kind != 'E');
  return OkStatus();
}

Status DescribeNemotronH(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "relu2"));
  config.gated = false;
  config.gate = GateKind::kRelu2;
  config.rope_mode = kernels::RopeMode::kNone;
  config.ffn_norm = "attn_norm";
  config.recurrence = Recurrence::kMamba2;
  config.state_norm_by_group = true;
  ASSIGN_OR_RETURN(const std::string pattern, LayerPattern(source, config.layers));
  for (const char kind : pattern) {
    config.recurrent.push_back(kind == 'M');
    config.feed_forward_alone.push_back(kind == '-' || kind == 'E');
  }
  if (pattern.find('E') != std::string::npos) {
    config.architecture = kNemotronHMoe.architecture;
    RETURN_IF_ERROR(ReadNemotronExperts(source, pattern, config));
  }
  if (config.recurrent_layers() == 0)
    return RefuseParameter("no layer of this nemotron_h has Mamba-2");
  RETURN_IF_ERROR(ReadStateHeads(source, config));
  RETURN_IF_ERROR(ReadMamba2Biases(source, config));
  if (source.form == Form::kGguf) {
    const size_t dense = pattern.find('-');
    config.ffn_bias = dense != std::string::npos &&
                      source.store.Find(fmt::format("blk.{}.ffn_up.bias", dense)) != nullptr;
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string act, source.keys.StringOr("mamba_hidden_act", "silu"));
  if (act != "silu") return RefuseParameter("mamba_hidden_act is not silu, which is needed");
  ASSIGN_OR_RETURN(config.recurrent_bias, source.keys.BoolOr("use_bias", false));
  ASSIGN_OR_RETURN(config.ffn_bias, source.keys.BoolOr("mlp_bias", false));
  return ReadInt(source.keys, "mamba_head_dim", 1, 1 << 12, &config.state_values);
}

constexpr Family NemotronH(std::string_view architecture) {
  return {.architecture = architecture,
          .model_type = "nemotron_h",
          .keys = kNemotronHKeys,
          .config_keys = kNemotronHConfigKeys,
          .config_defaults = kNemotronHDefaults,
          .tensors = kNemotronHTensors,
          .expert_width_key = true,
          .state_keys = std::span(kNemotronHKeys).subspan(5),
          .kv_heads_by_layer = true,
          .layer_list = "layers_block_type",
          .describe = &DescribeNemotronH};
}

}  // namespace

const Family kNemotronH = NemotronH("nemotron_h");
const Family kNemotronHMoe = NemotronH("nemotron_h_moe");

}  // namespace tutti::model
