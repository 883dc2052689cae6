#!/usr/bin/env python3
"""Makes tests/golden/decoder_families.json: what transformers computes for a small decoder of each family, float32, CPU.

    make_decoder_goldens.py tests/golden/decoder_families.json [FAMILY...]

Needs the PyPI packages torch, transformers (4.57; 5.24 for the families that 4.57 lacks), safetensors and gguf. Each model is created, saved as transformers
saves it, its tensors replaced by generated values under the names and shapes of the saved file, and loaded again: names,
shapes and config.json are the library's own, and the values need no room here. Names of the GGUF form are those of the
package gguf, its keys those that the public converters write. Value i of a tensor is
    ((splitmix64(fnv1a64(name) + i) >> 40) / 2^23 - 1) * spread, exact in float32,
where weights of norms have 1 added, but those of Gemma up to 3, Nemotron, Qwen3-Next and Qwen 3.5, which are stored less
1, and of queries of Gemma 3n and 4, whose other scales have 1 added, and xIELU's beta has 0.5 added and its epsilon is -1e-6.
Routers of Gemma 3n, which are divided by the width, are a quarter of it as large again. The spreads of the embedding and of all
others are chosen so that no model only repeats what it reads; a third is that of biases of gates and ups.

Of each: a prompt, the 64 tokens chosen greedily after it, and the logits that every fourth was chosen from (of all, in
entries without "every"), times 10^4 and rounded. A prompt is taken whose every choice leads by 0.01, so that no rounding
turns one, and which is followed by several tokens.
"""
import json
import math
import os
import statistics
import sys
import tempfile

MASK = (1 << 64) - 1
WIDTH, WORDS, LAYERS, PROMPT, TOKENS, LEAD, KINDS, EVERY = 64, 80, 3, 24, 64, 0.01, 8, 4

# Seeds of the prompts that did, so that the search begins there.
FIRST = {"llama": 10, "llama with biases": 5, "llama 3 scaling": 4, "mistral": 4, "qwen2": 10, "qwen3": 3, "olmo2": 2, "phi3": 5,
         "phi3 with a window": 40, "mixtral": 7}


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def splitmix64(x):
    import numpy as np
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def generated(name, shape, plus, spreads):
    import numpy as np
    import torch
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        numbers = splitmix64(np.uint64(fnv1a64(name)) + np.arange(count, dtype=np.uint64))
    spread = spreads[2 if name.endswith(".gate_up_proj_bias") and len(spreads) > 2 else "embed_tokens" not in name]
    values = ((numbers >> np.uint64(40)).astype(np.float64) / 2**23 - 1) * spread
    if "norm" in name and not name.endswith(".bias"):
        values += plus
    if name.endswith((".layer_scalar", ".router.scale", ".per_expert_scale", ".correct_output_scale")):
        values += 1
    if name.endswith(".modality_router.weight"):
        values *= shape[1] / 4
    if name.endswith(".act_fn.beta"):
        values += 0.5
    if name.endswith(".act_fn.eps"):
        values[:] = -1e-6
    return torch.tensor(values.astype(np.float32)).view(shape)


def families(transformers):
    shape = dict(hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
                 num_hidden_layers=LAYERS, vocab_size=WORDS, max_position_embeddings=256, bos_token_id=1, eos_token_id=2,
                 pad_token_id=0)
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64)
    t = transformers
    five = dict(shape, num_hidden_layers=5)  # of layers that come in groups of four
    latent = dict(shape, num_key_value_heads=4)
    if t.__version__ >= "5":
        few = {key: value for key, value in shape.items() if key != "intermediate_size"}
        growing = dict(yarn, rope_theta=10000.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.25)
        gemma = dict(shape, head_dim=32, sliding_window=16, hidden_size_per_layer_input=0, vocab_size_per_layer_input=WORDS)

        def gemma4(kinds, rotating=0.25, **keys):
            rope = dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                        full_attention=dict(rope_type="proportional", partial_rotary_factor=rotating, rope_theta=1000000.0))
            names = {"s": "sliding_attention", "f": "full_attention"}
            return t.Gemma4ForCausalLM(t.Gemma4TextConfig(**dict(
                gemma, num_hidden_layers=len(kinds), layer_types=[names[kind] for kind in kinds], rope_parameters=rope, **keys)))

        return [
            ("gemma4", "gemma4", gemma4("ssfsf", global_head_dim=32, final_logit_softcapping=10.0)),
            ("gemma4 without windows", "gemma4", gemma4(
                "fff", 0.5, head_dim=16, global_head_dim=16, num_key_value_heads=1, tie_word_embeddings=False)),
            ("gemma4 with larger heads", "gemma4", gemma4(
                "fssf", global_head_dim=64, num_global_key_value_heads=1, attention_k_eq_v=True, tie_word_embeddings=False)),
            ("gemma4 with much larger heads", "gemma4", gemma4(
                "sfsf", 0.5, head_dim=16, global_head_dim=96, num_key_value_heads=1, sliding_window=20)),
            ("gemma4 with shared keys", "gemma4", gemma4(
                "ssfsf", global_head_dim=64, num_key_value_heads=1, num_kv_shared_layers=2, use_double_wide_mlp=True,
                hidden_size_per_layer_input=32, final_logit_softcapping=20.0)),
            ("gemma4 with inputs of layers", "gemma4", gemma4(
                "sfssf", global_head_dim=32, num_kv_shared_layers=3, hidden_size_per_layer_input=64,
                tie_word_embeddings=False)),
            ("gemma4 with experts", "gemma4", gemma4(
                "sfsf", global_head_dim=64, num_global_key_value_heads=1, attention_k_eq_v=True, enable_moe_block=True,
                num_experts=6, top_k_experts=2, moe_intermediate_size=32)),
            ("gemma4 with wide experts", "gemma4", gemma4(
                "ssf", global_head_dim=32, enable_moe_block=True, num_experts=5, top_k_experts=3, moe_intermediate_size=64,
                tie_word_embeddings=False)),
            ("ministral3", "mistral3", t.Ministral3ForCausalLM(t.Ministral3Config(
                **shape, head_dim=32, rope_parameters=dict(growing, mscale=1.0, mscale_all_dim=1.0)))),
            ("ministral3 with a window", "mistral3", t.Ministral3ForCausalLM(t.Ministral3Config(
                **dict(shape, num_key_value_heads=1), head_dim=16, sliding_window=20, rope_parameters=growing))),
            ("qwen35", "qwen35", t.Qwen3_5ForCausalLM(t.Qwen3_5TextConfig(
                **five, head_dim=32, linear_num_key_heads=2, linear_key_head_dim=16, linear_num_value_heads=6,
                linear_value_head_dim=32))),
            ("qwen35 with experts", "qwen35moe", t.Qwen3_5MoeForCausalLM(t.Qwen3_5MoeTextConfig(
                **few, head_dim=64, linear_num_key_heads=2, linear_key_head_dim=32, linear_num_value_heads=4,
                linear_value_head_dim=32, linear_conv_kernel_dim=3, num_experts=6, num_experts_per_tok=3,
                moe_intermediate_size=32, shared_expert_intermediate_size=64,
                layer_types=["full_attention", "linear_attention", "linear_attention"]))),
            ("lfm2moe", "lfm2moe", t.Lfm2MoeForCausalLM(t.Lfm2MoeConfig(
                **five, num_dense_layers=2, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32,
                layer_types=["conv", "conv", "full_attention", "conv", "full_attention"]))),
            ("lfm2moe with biases", "lfm2moe", t.Lfm2MoeForCausalLM(t.Lfm2MoeConfig(
                **dict(shape, num_key_value_heads=1), num_dense_layers=1, num_experts=5, num_experts_per_tok=2,
                moe_intermediate_size=64, conv_L_cache=4, conv_bias=True, tie_word_embeddings=False,
                layer_types=["full_attention", "conv", "conv"]))),
            ("nemotron_h", "nemotron_h", t.NemotronHForCausalLM(t.NemotronHConfig(
                **shape, head_dim=32, mamba_num_heads=4, mamba_head_dim=32, ssm_state_size=16, n_groups=2, chunk_size=8,
                layers_block_type=["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"]))),
            ("nemotron_h with biases", "nemotron_h", t.NemotronHForCausalLM(t.NemotronHConfig(
                **dict(shape, num_key_value_heads=1), head_dim=16, mamba_num_heads=2, mamba_head_dim=80, ssm_state_size=32,
                n_groups=1, conv_kernel=3, use_conv_bias=False, use_bias=True, mlp_bias=True, chunk_size=8,
                layers_block_type=["full_attention", "linear_attention", "linear_attention", "mlp"]))),
            # 4.57 does not multiply scores by the squared factor of YaRN.
            ("deepseek_v2 with groups", "deepseek2", t.DeepseekV2ForCausalLM(t.DeepseekV2Config(
                **latent, q_lora_rank=64, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
                n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=32, n_group=4,
                topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=1.5,
                rope_parameters=dict(yarn, rope_theta=10000.0, mscale=0.707, mscale_all_dim=0.707)))),
            ("nemotron_h with experts", "nemotron_h_moe", t.NemotronHForCausalLM(t.NemotronHConfig(
                **shape, head_dim=32, mamba_num_heads=4, mamba_head_dim=32, ssm_state_size=16, n_groups=2, chunk_size=8,
                n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=32, moe_shared_expert_intermediate_size=64,
                routed_scaling_factor=2.5,
                layers_block_type=["linear_attention", "moe", "full_attention", "moe", "linear_attention"]))),
            ("nemotron_h with experts and without", "nemotron_h_moe", t.NemotronHForCausalLM(t.NemotronHConfig(
                **dict(shape, num_key_value_heads=1), head_dim=16, mamba_num_heads=2, mamba_head_dim=48, ssm_state_size=16,
                n_groups=1, chunk_size=8, n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=96,
                moe_shared_expert_intermediate_size=32, norm_topk_prob=False,
                layers_block_type=["moe", "full_attention", "linear_attention", "mlp"]))),
        ]
    gemma = dict(shape, head_dim=32, query_pre_attn_scalar=32, sliding_window=16, tie_word_embeddings=False)
    return [
        ("llama", "llama", t.LlamaForCausalLM(t.LlamaConfig(**shape))),
        ("llama with biases", "llama", t.LlamaForCausalLM(t.LlamaConfig(**shape, attention_bias=True,
                                                                        tie_word_embeddings=True))),
        ("llama 3 scaling", "llama", t.LlamaForCausalLM(t.LlamaConfig(**shape, rope_scaling=llama3))),
        ("llama yarn", "llama", t.LlamaForCausalLM(t.LlamaConfig(**shape, rope_scaling=yarn))),
        ("mistral", "llama", t.MistralForCausalLM(t.MistralConfig(**shape, head_dim=32, sliding_window=None))),
        ("mistral with a window", "llama", t.MistralForCausalLM(t.MistralConfig(**shape, sliding_window=16))),
        ("qwen2", "qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**shape))),
        ("qwen3", "qwen3", t.Qwen3ForCausalLM(t.Qwen3Config(**shape, head_dim=32))),
        ("granite", "granite", t.GraniteForCausalLM(t.GraniteConfig(
            **shape, embedding_multiplier=3.0, residual_multiplier=0.22, attention_multiplier=0.0625, logits_scaling=0.5))),
        ("olmo2", "olmo2", t.Olmo2ForCausalLM(t.Olmo2Config(**shape))),
        ("phi3", "phi3", t.Phi3ForCausalLM(t.Phi3Config(**shape, partial_rotary_factor=0.5, sliding_window=None))),
        ("phi3 with a window", "phi3", t.Phi3ForCausalLM(t.Phi3Config(**shape, sliding_window=20))),
        ("mixtral", "llama", t.MixtralForCausalLM(t.MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2))),
        ("qwen3moe", "qwen3moe", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
            **shape, head_dim=16, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True))),
        ("gemma2", "gemma2", t.Gemma2ForCausalLM(t.Gemma2Config(
            **gemma, attn_logit_softcapping=5.0, final_logit_softcapping=10.0))),
        ("gemma3", "gemma3", t.Gemma3ForCausalLM(t.Gemma3TextConfig(**dict(gemma, num_hidden_layers=7)))),
        ("smollm3", "smollm3", t.SmolLM3ForCausalLM(t.SmolLM3Config(
            **five, no_rope_layer_interval=4, tie_word_embeddings=False))),
        ("seed_oss", "seed_oss", t.SeedOssForCausalLM(t.SeedOssConfig(**shape, head_dim=32))),
        ("seed_oss with a bias of the output", "seed_oss", t.SeedOssForCausalLM(t.SeedOssConfig(
            **shape, head_dim=32, attention_out_bias=True))),
        ("ernie4_5", "ernie4_5", t.Ernie4_5ForCausalLM(t.Ernie4_5Config(
            **shape, head_dim=32, tie_word_embeddings=False))),
        ("olmo3", "olmo2", t.Olmo3ForCausalLM(t.Olmo3Config(**five, sliding_window=16, rope_scaling=yarn))),
        ("exaone4", "exaone4", t.Exaone4ForCausalLM(t.Exaone4Config(
            **five, head_dim=32, sliding_window=16, sliding_window_pattern=4, rope_scaling=llama3))),
        ("exaone4 without windows", "exaone4", t.Exaone4ForCausalLM(t.Exaone4Config(
            **shape, sliding_window=None, layer_types=["full_attention"] * LAYERS))),
        ("gemma", "gemma", t.GemmaForCausalLM(t.GemmaConfig(
            **shape, head_dim=32, tie_word_embeddings=False))),
        ("glm4", "glm4", t.Glm4ForCausalLM(t.Glm4Config(**shape, head_dim=32))),
        ("hunyuan", "hunyuan-dense", t.HunYuanDenseV1ForCausalLM(t.HunYuanDenseV1Config(
            **shape, head_dim=32, rope_scaling=dict(rope_type="dynamic", type="dynamic", alpha=50.0, factor=1.0)))),
        ("qwen2moe", "qwen2moe", t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(
            **shape, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64))),
        ("qwen2moe with layers without experts", "qwen2moe", t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(
            **five, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=64, shared_expert_intermediate_size=32,
            decoder_sparse_step=2))),
        ("qwen3moe with layers without experts", "qwen3moe", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
            **five, head_dim=32, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True,
            mlp_only_layers=[0, 3]))),
        ("glm4moe", "glm4moe", t.Glm4MoeForCausalLM(t.Glm4MoeConfig(
            **shape, head_dim=32, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=1,
            first_k_dense_replace=1, routed_scaling_factor=1.5))),
        ("glm4moe with norms of heads", "glm4moe", t.Glm4MoeForCausalLM(t.Glm4MoeConfig(
            **five, n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=64, n_shared_experts=2,
            first_k_dense_replace=2, use_qk_norm=True, attention_bias=True, norm_topk_prob=False))),
        ("olmoe", "olmoe", t.OlmoeForCausalLM(t.OlmoeConfig(**shape, num_experts=6, num_experts_per_tok=3))),
        ("ernie4_5_moe", "ernie4_5-moe", t.Ernie4_5_MoeForCausalLM(t.Ernie4_5_MoeConfig(
            **five, moe_num_experts=6, moe_k=2, moe_intermediate_size=32, moe_num_shared_experts=2,
            moe_layer_start_index=1, moe_layer_interval=2, tie_word_embeddings=False))),
        ("cohere", "command-r", t.CohereForCausalLM(t.CohereConfig(**shape, logit_scale=2.0))),
        ("cohere with biases", "command-r", t.CohereForCausalLM(t.CohereConfig(
            **dict(shape, num_key_value_heads=4), logit_scale=3.0, attention_bias=True, tie_word_embeddings=False))),
        ("cohere2", "cohere2", t.Cohere2ForCausalLM(t.Cohere2Config(
            **five, logit_scale=2.0, sliding_window=16, attention_bias=True))),
        ("arcee", "arcee", t.ArceeForCausalLM(t.ArceeConfig(**shape, rope_scaling=yarn))),
        ("arcee with larger heads", "arcee", t.ArceeForCausalLM(t.ArceeConfig(
            **dict(shape, num_key_value_heads=1), head_dim=32))),
        ("nemotron", "nemotron", t.NemotronForCausalLM(t.NemotronConfig(**shape, head_dim=32))),
        ("nemotron with biases", "nemotron", t.NemotronForCausalLM(t.NemotronConfig(
            **dict(shape, num_key_value_heads=4), head_dim=16, attention_bias=True, partial_rotary_factor=0.25,
            tie_word_embeddings=True))),
        ("starcoder2", "starcoder2", t.Starcoder2ForCausalLM(t.Starcoder2Config(
            **shape, sliding_window=16, tie_word_embeddings=False))),
        ("starcoder2 without biases", "starcoder2", t.Starcoder2ForCausalLM(t.Starcoder2Config(
            **dict(shape, num_key_value_heads=1), sliding_window=None, use_bias=False))),
        ("stablelm", "stablelm", t.StableLmForCausalLM(t.StableLmConfig(
            **shape, partial_rotary_factor=0.5, use_qkv_bias=True))),
        ("stablelm with parallel parts", "stablelm", t.StableLmForCausalLM(t.StableLmConfig(
            **shape, partial_rotary_factor=0.25, use_parallel_residual=True))),
        ("qwen3next", "qwen3next", t.Qwen3NextForCausalLM(t.Qwen3NextConfig(
            **five, head_dim=32, num_experts=0, linear_num_key_heads=2, linear_key_head_dim=16, linear_num_value_heads=4,
            linear_value_head_dim=32))),
        ("qwen3next with experts", "qwen3next", t.Qwen3NextForCausalLM(t.Qwen3NextConfig(
            **shape, head_dim=64, partial_rotary_factor=0.5, linear_num_key_heads=2, linear_key_head_dim=32,
            linear_num_value_heads=2, linear_value_head_dim=64, linear_conv_kernel_dim=3, num_experts=6,
            num_experts_per_tok=3, moe_intermediate_size=32, shared_expert_intermediate_size=64, mlp_only_layers=[1],
            layer_types=["full_attention", "linear_attention", "linear_attention"]))),
        # From the 17th token on, so in all that is stored, by the factors for long texts.
        ("phi3 with a long text", "phi3", t.Phi3ForCausalLM(t.Phi3Config(
            **shape, sliding_window=None, original_max_position_embeddings=16,
            rope_scaling=dict(type="longrope", short_factor=[1.0 + 0.125 * i for i in range(8)],
                              long_factor=[1.5 + 0.75 * i for i in range(8)])))),
        ("granite hybrid", "granitehybrid", t.GraniteMoeHybridForCausalLM(t.GraniteMoeHybridConfig(
            **five, shared_intermediate_size=128, num_local_experts=0, mamba_n_heads=4, mamba_d_state=16,
            layer_types=["mamba", "mamba", "attention", "mamba", "attention"],
            embedding_multiplier=3.0, residual_multiplier=0.22, attention_multiplier=0.0625, logits_scaling=0.5))),
        ("granite hybrid that rotates", "granitehybrid", t.GraniteMoeHybridForCausalLM(t.GraniteMoeHybridConfig(
            **shape, shared_intermediate_size=96, num_local_experts=0, mamba_n_heads=2, mamba_d_state=32, mamba_d_conv=3,
            mamba_n_groups=2, mamba_conv_bias=False, mamba_proj_bias=True, position_embedding_type="rope",
            layer_types=["attention", "mamba", "mamba"]))),
        ("granite hybrid with experts", "granitehybrid", t.GraniteMoeHybridForCausalLM(t.GraniteMoeHybridConfig(
            **dict(five, intermediate_size=32), shared_intermediate_size=64, num_local_experts=6, num_experts_per_tok=3,
            mamba_n_heads=4, mamba_d_state=16, layer_types=["mamba", "mamba", "attention", "mamba", "attention"],
            embedding_multiplier=3.0, residual_multiplier=0.22, attention_multiplier=0.0625, logits_scaling=0.5))),
        ("granite mixture", "granitemoe", t.GraniteMoeForCausalLM(t.GraniteMoeConfig(
            **dict(shape, intermediate_size=64), num_local_experts=5, num_experts_per_tok=2,
            embedding_multiplier=3.0, residual_multiplier=0.22, attention_multiplier=0.0625, logits_scaling=0.5))),
        ("gpt_oss", "gpt-oss", t.GptOssForCausalLM(t.GptOssConfig(
            **shape, head_dim=32, num_local_experts=6, num_experts_per_tok=3, sliding_window=16, rope_theta=10000.0,
            rope_scaling=dict(yarn, beta_fast=8.0, beta_slow=1.0, truncate=False)))),
        # Large biases of gates and ups, so that some meet their limits.
        ("gpt_oss with its limits", "gpt-oss", t.GptOssForCausalLM(t.GptOssConfig(
            **dict(shape, num_key_value_heads=1, intermediate_size=64), head_dim=16, num_local_experts=4, num_experts_per_tok=2,
            sliding_window=20, rope_theta=5000.0, rope_scaling=dict(yarn, truncate=True),
            layer_types=["full_attention", "sliding_attention", "sliding_attention"]))),
        ("lfm2", "lfm2", t.Lfm2ForCausalLM(t.Lfm2Config(
            **five, norm_eps=1e-5, block_multiple_of=32, layer_types=["conv", "conv", "full_attention", "conv", "full_attention"]))),
        ("lfm2 with biases", "lfm2", t.Lfm2ForCausalLM(t.Lfm2Config(
            **dict(shape, num_key_value_heads=1), norm_eps=1e-5, block_auto_adjust_ff_dim=False, conv_L_cache=4,
            conv_bias=True, tie_word_embeddings=False, layer_types=["full_attention", "conv", "conv"]))),
        ("apertus", "apertus", t.ApertusForCausalLM(t.ApertusConfig(**shape, rope_scaling=llama3))),
        ("apertus with biases", "apertus", t.ApertusForCausalLM(t.ApertusConfig(
            **dict(shape, num_key_value_heads=1), head_dim=32, rope_scaling=None, attention_bias=True,
            tie_word_embeddings=True))),
        ("falcon h1", "falcon-h1", t.FalconH1ForCausalLM(t.FalconH1Config(
            **shape, head_dim=32, mamba_d_ssm=128, mamba_n_heads=4, mamba_d_state=16, mamba_n_groups=2, mamba_chunk_size=8,
            embedding_multiplier=3.0, lm_head_multiplier=0.5, mlp_multipliers=[0.75, 1.5], key_multiplier=0.6,
            attention_out_multiplier=0.9, attention_in_multiplier=1.2, ssm_multipliers=[0.7, 0.8, 1.25, 1.5, 0.6],
            ssm_in_multiplier=1.25, ssm_out_multiplier=0.3))),
        ("falcon h1 with norms", "falcon-h1", t.FalconH1ForCausalLM(t.FalconH1Config(
            **dict(shape, num_key_value_heads=1), head_dim=16, mamba_d_ssm=64, mamba_n_heads=2, mamba_d_state=32,
            mamba_n_groups=2, mamba_d_conv=3, mamba_conv_bias=False, mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_chunk_size=8,
            ssm_out_multiplier=0.5))),
        ("gemma3n", "gemma3n", t.Gemma3nForCausalLM(t.Gemma3nTextConfig(**dict(
            shape, head_dim=32, num_hidden_layers=6, sliding_window=16, hidden_size_per_layer_input=32, laurel_rank=32,
            vocab_size_per_layer_input=WORDS, num_kv_shared_layers=2, final_logit_softcapping=5.0,
            activation_sparsity_pattern=[0.95, 0.5, 0.0, 0.0, 0.8, 0.0],
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
                         "full_attention"])))),
        ("gemma3n with two streams", "gemma3n", t.Gemma3nForCausalLM(t.Gemma3nTextConfig(**dict(
            shape, num_key_value_heads=1, head_dim=16, num_hidden_layers=4, intermediate_size=[96, 96, 64, 128],
            sliding_window=20, hidden_size_per_layer_input=64, laurel_rank=64, vocab_size_per_layer_input=WORDS,
            num_kv_shared_layers=1, altup_num_inputs=2, altup_active_idx=1, final_logit_softcapping=None,
            activation_sparsity_pattern=[0.0, 0.9, 0.0, 0.3], tie_word_embeddings=False,
            layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"])))),
        ("deepseek_v2", "deepseek2", t.DeepseekV2ForCausalLM(t.DeepseekV2Config(
            **latent, q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=8, v_head_dim=16,
            n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=32,
            first_k_dense_replace=1))),
        ("deepseek_v3", "deepseek2", t.DeepseekV3ForCausalLM(t.DeepseekV3Config(
            **latent, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=48,
            n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, n_group=4, topk_group=2,
            first_k_dense_replace=1, rope_scaling=dict(yarn, mscale=1.0, mscale_all_dim=1.0)))),
        # The shape of Moonlight.
        ("deepseek_v3 without groups", "deepseek2", t.DeepseekV3ForCausalLM(t.DeepseekV3Config(
            **dict(latent, num_attention_heads=2, num_key_value_heads=2), q_lora_rank=None, kv_lora_rank=64,
            qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=5, num_experts_per_tok=3,
            n_shared_experts=2, moe_intermediate_size=32, n_group=1, topk_group=1, first_k_dense_replace=1,
            routed_scaling_factor=2.446, rope_theta=50000.0))),
        # Equal borders of the scaling, as published.
        ("llama4", "llama4", t.Llama4ForCausalLM(t.Llama4TextConfig(
            **dict(five, intermediate_size=32), intermediate_size_mlp=96, head_dim=32, num_local_experts=4,
            attention_chunk_size=16, floor_scale=8, attn_scale=0.25, rope_theta=10000.0,
            rope_scaling=dict(llama3, high_freq_factor=1.0)))),
        ("llama4 with layers without experts", "llama4", t.Llama4ForCausalLM(t.Llama4TextConfig(
            **dict(five, num_key_value_heads=1, intermediate_size=64), intermediate_size_mlp=96, head_dim=16,
            num_local_experts=6, num_experts_per_tok=2, interleave_moe_layer_step=2, use_qk_norm=False,
            no_rope_layers=[0, 1, 1, 0, 1], attention_chunk_size=24, floor_scale=16, attn_scale=0.5, rope_theta=5000.0))),
        # The form of MobileLLM-R1.
        ("llama4 without experts", "llama4", t.Llama4ForCausalLM(t.Llama4TextConfig(
            **shape, intermediate_size_mlp=128, head_dim=16, num_local_experts=0, num_experts_per_tok=0,
            interleave_moe_layer_step=0, moe_layers=[], no_rope_layers=[1] * LAYERS, layer_types=["full_attention"] * LAYERS,
            attn_temperature_tuning=False, tie_word_embeddings=True))),
        ("bitnet", "bitnet", t.BitNetForCausalLM(t.BitNetConfig(**shape, rope_theta=10000.0))),
        ("bitnet with silu", "bitnet", t.BitNetForCausalLM(t.BitNetConfig(
            **dict(shape, num_attention_heads=2, num_key_value_heads=1, intermediate_size=160), hidden_act="silu",
            tie_word_embeddings=True))),
    ]


def gguf_keys(arch, c):
    """As the public converters write them for that architecture."""
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    keys = {
        "block_count": c.get("num_hidden_layers") or len(c["layers_block_type"]), "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "attention.head_count": c["num_attention_heads"], "attention.head_count_kv": c["num_key_value_heads"],
        "vocab_size": c["vocab_size"],
    }
    if arch == "gemma4":
        rope = c["rope_parameters"]
        sizes = next(iter(c["per_layer_config"].values()), {})
        windows = [kind == "sliding_attention" for kind in c["layer_types"]]
        full = sizes.get("head_dim", c["head_dim"])
        keys.update({"rope.freq_base": rope["full_attention"]["rope_theta"],
                     "rope.freq_base_swa": rope["sliding_attention"]["rope_theta"],
                     "attention.sliding_window_pattern": windows, "attention.sliding_window": c["sliding_window"],
                     "attention.shared_kv_layers": c["num_kv_shared_layers"],
                     "embedding_length_per_layer_input": c["hidden_size_per_layer_input"],
                     "attention.key_length": full, "attention.value_length": full, "rope.dimension_count": full})
        keys.update({f"{key}_swa": c["head_dim"] for key in ("attention.key_length", "attention.value_length",
                                                             "rope.dimension_count")})
        if c["final_logit_softcapping"]:
            keys["final_logit_softcapping"] = c["final_logit_softcapping"]
        if "num_key_value_heads" in sizes:
            keys["attention.head_count_kv"] = [c["num_key_value_heads"] if window else sizes["num_key_value_heads"]
                                               for window in windows]
        if c["enable_moe_block"]:
            keys.update({"expert_count": c["num_experts"], "expert_used_count": c["top_k_experts"],
                         "expert_feed_forward_length": c["moe_intermediate_size"]})
    elif arch == "gemma3n":
        normal = statistics.NormalDist()
        keys.update({"rope.freq_base": c["rope_theta"], "rope.freq_base_swa": c["rope_local_base_freq"],
                     "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in c["layer_types"]],
                     "attention.sliding_window": c["sliding_window"],
                     "attention.shared_kv_layers": c["num_kv_shared_layers"],
                     "embedding_length_per_layer_input": c["hidden_size_per_layer_input"],
                     "altup.num_inputs": c["altup_num_inputs"], "altup.active_idx": c["altup_active_idx"],
                     # None for minus infinity, which JSON lacks.
                     "activation_sparsity_scale": [normal.inv_cdf(part) if part else None
                                                   for part in c["activation_sparsity_pattern"]]})
        keys["final_logit_softcapping"] = c["final_logit_softcapping"] or 0.0  # without it readers assume 30
    elif not arch.startswith("nemotron_h"):
        keys["rope.freq_base"] = float(c.get("rope_theta") or c["rope_parameters"]["rope_theta"])
    if "intermediate_size" in c:
        keys["feed_forward_length"] = c["intermediate_size"]
    if c.get("use_double_wide_mlp"):
        first = c["num_hidden_layers"] - c["num_kv_shared_layers"]
        keys["feed_forward_length"] = [c["intermediate_size"] * (1 + (i >= first)) for i in range(c["num_hidden_layers"])]
    rms = arch in ("lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe")
    for key in ("rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon", "layer_norm_epsilon"):
        if key in c:
            keys["attention.layer_norm_rms_epsilon" if key == "rms_norm_eps" or rms else "attention.layer_norm_epsilon"] = c[key]
    if arch in ("llama", "granite", "granitehybrid", "granitemoe", "smollm3", "arcee", "cohere2", "apertus"):
        keys["rope.dimension_count"] = head_dim
    if arch in ("command-r", "cohere2"):
        keys["logit_scale"] = c["logit_scale"]
    if arch == "phi3":
        keys["rope.dimension_count"] = int(head_dim * c["partial_rotary_factor"])
        keys["attention.sliding_window"] = c["sliding_window"] or 0
    if arch == "hunyuan-dense":
        keys["rope.freq_base"] *= c["rope_scaling"]["alpha"] ** (head_dim / (head_dim - 2))
    if arch == "granitehybrid":
        kinds = c["layer_types"]
        keys["attention.head_count_kv"] = [c["num_key_value_heads"] * (kind == "attention") for kind in kinds]
        keys.update({"ssm.conv_kernel": c["mamba_d_conv"], "ssm.state_size": c["mamba_d_state"],
                     "ssm.group_count": c["mamba_n_groups"], "ssm.time_step_rank": c["mamba_n_heads"],
                     "ssm.inner_size": c["mamba_expand"] * c["hidden_size"],
                     "expert_shared_feed_forward_length": c["shared_intermediate_size"],
                     "rope.scaling.finetuned": c["position_embedding_type"] == "rope"})
    if arch == "falcon-h1":
        keys.update({"ssm.conv_kernel": c["mamba_d_conv"], "ssm.state_size": c["mamba_d_state"],
                     "ssm.group_count": c["mamba_n_groups"], "ssm.time_step_rank": c["mamba_n_heads"],
                     "ssm.inner_size": c["mamba_d_ssm"]})
    if arch.startswith("nemotron_h"):
        kinds = c["layers_block_type"]
        keys["attention.head_count_kv"] = [c["num_key_value_heads"] * (kind == "full_attention") for kind in kinds]
        widths = {"mlp": c["intermediate_size"], "moe": c["moe_intermediate_size"]}
        keys["feed_forward_length"] = [widths.get(kind, 0) for kind in kinds]
        keys.update({"ssm.conv_kernel": c["conv_kernel"], "ssm.state_size": c["ssm_state_size"],
                     "ssm.group_count": c["n_groups"], "ssm.time_step_rank": c["mamba_num_heads"],
                     "ssm.inner_size": c["mamba_num_heads"] * c["mamba_head_dim"]})
    if arch in ("lfm2", "lfm2moe"):
        keys["attention.head_count_kv"] = [c["num_key_value_heads"] * (kind == "full_attention") for kind in c["layer_types"]]
        keys["shortconv.l_cache"] = c["conv_L_cache"]
        if c.get("block_auto_adjust_ff_dim"):
            rows = int(c["block_ffn_dim_multiplier"] * int(2 * c["intermediate_size"] / 3))
            keys["feed_forward_length"] = -(-rows // c["block_multiple_of"]) * c["block_multiple_of"]
    delta = arch in ("qwen3next", "qwen35", "qwen35moe")
    if delta:
        keys.update({"ssm.conv_kernel": c["linear_conv_kernel_dim"], "ssm.state_size": c["linear_key_head_dim"],
                     "ssm.group_count": c["linear_num_key_heads"], "ssm.time_step_rank": c["linear_num_value_heads"],
                     "ssm.inner_size": c["linear_num_value_heads"] * c["linear_value_head_dim"]})
        recurrent = [kind == "linear_attention" for kind in c["layer_types"]]
        if recurrent == [(i + 1) % 4 != 0 for i in range(len(recurrent))]:
            keys["full_attention_interval"] = 4
        else:
            keys["attention.recurrent_layers"] = recurrent
    if arch in ("glm4", "nemotron", "stablelm") or delta:
        keys["rope.dimension_count"] = int(head_dim * (c.get("partial_rotary_factor") or c["rope_parameters"]["partial_rotary_factor"]))
    if c.get("head_dim") and arch != "gemma4":
        keys["attention.key_length"] = keys["attention.value_length"] = head_dim
    if arch in ("granite", "granitehybrid", "granitemoe"):
        keys.update({"attention.scale": c["attention_multiplier"], "embedding_scale": c["embedding_multiplier"],
                     "residual_scale": c["residual_multiplier"], "logit_scale": c["logits_scaling"]})
    if arch in ("gemma2", "gemma3", "cohere2") or (arch in ("llama", "mistral3", "starcoder2") and c.get("sliding_window")):
        keys["attention.sliding_window"] = c["sliding_window"]
    if arch in ("olmo2", "exaone4") and c.get("sliding_window"):
        keys["attention.sliding_window"] = c["sliding_window"]
        keys["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in c["layer_types"]]
    if arch == "gpt-oss":
        keys.update({"expert_feed_forward_length": c["intermediate_size"], "attention.sliding_window": c["sliding_window"]})
        # No converter writes these two: it knows the published models' alone.
        kinds = [kind == "sliding_attention" for kind in c["layer_types"]]
        if kinds != [(i + 1) % 2 != 0 for i in range(len(kinds))]:
            keys["attention.sliding_window_pattern"] = kinds
        if c["rope_scaling"]["truncate"]:
            keys["rope.scaling.truncate"] = True
    if arch == "gemma2":
        keys["attn_logit_softcapping"] = c["attn_logit_softcapping"]
        keys["final_logit_softcapping"] = c["final_logit_softcapping"]
    if arch == "lfm2moe":
        keys.update({"expert_gating_func": 2, "leading_dense_block_count": c["num_dense_layers"]})
    experts = c.get("num_local_experts") or c.get("num_experts") or c.get("n_routed_experts") or c.get("moe_num_experts")
    experts = experts if arch not in ("nemotron_h", "gemma4") else None  # stated, but no layer has them; done above
    if experts:
        keys.update({"expert_count": experts, "expert_used_count": c.get("num_experts_per_tok") or c.get("moe_k")})
    if arch == "nemotron_h_moe":
        keys.update({"expert_shared_feed_forward_length": c["moe_shared_expert_intermediate_size"],
                     "expert_shared_count": c["n_shared_experts"], "expert_group_count": c["n_group"],
                     "expert_group_used_count": c["topk_group"], "expert_weights_norm": c["norm_topk_prob"],
                     "expert_weights_scale": float(c["routed_scaling_factor"])})
    if arch in ("qwen2moe", "qwen3moe", "glm4moe", "ernie4_5-moe", "lfm2moe", "nemotron_h_moe") or (delta and experts):
        keys["expert_feed_forward_length"] = c["moe_intermediate_size"]
    if arch == "qwen2moe" or (delta and experts):
        keys["expert_shared_feed_forward_length"] = c["shared_expert_intermediate_size"]
    if arch == "ernie4_5-moe":
        keys.update({"expert_shared_count": c["moe_num_shared_experts"], "interleave_moe_layer_step": c["moe_layer_interval"],
                     "leading_dense_block_count": c["moe_layer_start_index"]})
    if arch == "glm4moe":
        keys.update({"rope.dimension_count": int(head_dim * c["partial_rotary_factor"]), "expert_gating_func": 2,
                     "expert_shared_count": c["n_shared_experts"], "expert_weights_norm": c["norm_topk_prob"],
                     "expert_weights_scale": c["routed_scaling_factor"],
                     "leading_dense_block_count": c["first_k_dense_replace"]})
    scaling = c.get("rope_scaling") or c.get("rope_parameters")
    if arch == "mistral3":
        keys.update({"attention.temperature_scale": scaling["llama_4_scaling_beta"], "rope.dimension_count": head_dim})
        if "mscale_all_dim" in scaling:
            keys["rope.scaling.yarn_log_multiplier"] = scaling["mscale_all_dim"]
    if scaling and "long_factor" in scaling:
        stretch, original = c["max_position_embeddings"], c["original_max_position_embeddings"]
        keys.update({"rope.scaling.type": "longrope", "rope.scaling.original_context_length": original,
                     "rope.scaling.attn_factor": math.sqrt(1 + math.log(stretch / original) / math.log(original))})
    if scaling and scaling.get("rope_type") == "yarn":
        keys.update({"rope.scaling.type": "yarn", "rope.scaling.factor": scaling["factor"],
                     "rope.scaling.original_context_length": scaling["original_max_position_embeddings"]})
        keys.update({f"rope.scaling.yarn_{beta}": scaling[beta] for beta in ("beta_fast", "beta_slow") if scaling.get(beta)})
    if scaling and scaling.get("rope_type") == "llama3":  # converters write a tensor of factors; the keys say the same
        keys.update({"rope.scaling.type": "llama3", "rope.scaling.factor": scaling["factor"],
                     "rope.scaling.low_freq_factor": scaling["low_freq_factor"],
                     "rope.scaling.high_freq_factor": scaling["high_freq_factor"],
                     "rope.scaling.original_context_length": scaling["original_max_position_embeddings"]})
    if arch == "deepseek2":
        keys.update(gguf_latent_keys(c))
    if arch == "llama4":
        keys.update(gguf_chunk_keys(c))
    if arch == "bitnet":  # the activation as newer readers know it; without that key they take SiLU
        keys.update({"rope.scaling.type": "linear", "rope.scaling.factor": 1.0})
        if c["hidden_act"] != "silu":
            keys["hidden_activation"] = c["hidden_act"]
    return keys


def gguf_chunk_keys(c):
    """Of llama4. Converters write the first three keys, and a window of 0 for a model without chunks: they know the published
    models' other settings alone. The size of chunks has the name that another converter gives it, or that of a window."""
    keys = {"feed_forward_length": c["intermediate_size_mlp"], "expert_feed_forward_length": c["intermediate_size"],
            "interleave_moe_layer_step": c["interleave_moe_layer_step"], "rope.dimension_count": c["head_dim"]}
    if "chunked_attention" not in c["layer_types"]:
        return {**keys, "attention.sliding_window": 0}
    keys.update({"attention.temperature_scale": c["attn_scale"], "attention.temperature_length": c["floor_scale"]})
    rotating = [bool(rotates) for rotates in c["no_rope_layers"]]
    if rotating == [(i + 1) % 4 != 0 for i in range(len(rotating))]:
        return {**keys, "attention.chunk_size": c["attention_chunk_size"]}
    return {**keys, "attention.sliding_window": c["attention_chunk_size"], "attention.qk_norm": c["use_qk_norm"],
            "rope.layers": rotating, "attention.sliding_window_pattern": rotating}


def gguf_latent_keys(c):
    """Of deepseek2. Old converters write the heads as they are multiplied, newer ones those of one common latent row, and
    the matrix of keys and values in two parts. The models with a rank of queries are as new ones write them."""
    keys = {"attention.kv_lora_rank": c["kv_lora_rank"], "rope.dimension_count": c["qk_rope_head_dim"],
            "expert_feed_forward_length": c["moe_intermediate_size"], "expert_shared_count": c["n_shared_experts"],
            "expert_weights_scale": c["routed_scaling_factor"], "expert_weights_norm": c["norm_topk_prob"],
            "expert_gating_func": 1 if c["model_type"] == "deepseek_v2" else 2,
            "leading_dense_block_count": c["first_k_dense_replace"]}
    heads = {"key_length": c["qk_nope_head_dim"] + c["qk_rope_head_dim"], "value_length": c["v_head_dim"]}
    if c["q_lora_rank"]:
        keys.update({"attention.q_lora_rank": c["q_lora_rank"], "attention.head_count_kv": 1,
                     "attention.key_length": c["kv_lora_rank"] + c["qk_rope_head_dim"],
                     "attention.value_length": c["kv_lora_rank"]})
        heads = {key + "_mla": value for key, value in heads.items()}
    keys.update({"attention." + key: value for key, value in heads.items()})
    if c.get("n_group"):
        keys.update({"expert_group_count": c["n_group"], "expert_group_used_count": c["topk_group"]})
    scaling = c.get("rope_scaling") or c.get("rope_parameters") or {}
    if "mscale_all_dim" in scaling:
        keys["rope.scaling.yarn_log_multiplier"] = 0.1 * scaling["mscale_all_dim"]
    return keys


def gguf_names(arch, names, layers):
    """Name of the GGUF form by transformers' name; NAME#2 is the third of those that are stacked."""
    import re

    import gguf
    known = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], layers)
    dense = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    found = {}
    for name in names:
        expert = re.search(r"\.experts\.(\d+)\.", name)
        plain = name.replace(expert.group(0), ".experts.") if expert else name
        plain = plain.replace("model.language_model.", "model.")
        plain = plain.replace("e_score_correction_bias", "e_score_correction.bias").replace("expert_bias", "expert_bias.bias")
        if arch == "lfm2moe" and expert:
            plain = plain.removeprefix("model.")
        if arch.startswith("nemotron_h"):
            plain = plain.replace("model.", "backbone.", 1)
            if expert:  # converters join them under the names of others
                plain = plain.replace("backbone.", "model.", 1).replace(".mixer.", ".mlp.")
        if ".act_fn." in name:  # a list over the layers in a key
            found[name] = "xielu." + name.split(".act_fn.")[1]
            continue
        stacked = re.fullmatch(r"model\.(altup_\w+)\.(\d+)\.weight", plain)
        if stacked:
            mapped = known.get_name(f"model.{stacked.group(1)}.weight", try_suffixes=(".weight",))
            found[name] = f"{mapped}#{stacked.group(2)}"
            continue
        plain = plain.replace(".correct_output_scale", ".correct_output_scale.weight")
        mapped = known.get_name(plain.replace(".dt_bias", ".dt_proj.bias"), try_suffixes=(".weight", ".bias"))
        if arch in ("granitehybrid", "granitemoe") and (".shared_mlp." in name or ".block_sparse_moe." in name):
            block, mixture = f"blk.{name.split('.')[2]}.ffn_", any("block_sparse_moe" in other for other in names)
            kind = "_exps" if ".block_sparse_moe." in name else "_shexp" if mixture else ""
            mapped = block + (f"down{kind}.weight" if "output" in name else f"gate{kind}.weight+{block}up{kind}.weight"
                              if "input" in name else "gate_inp.weight")
        scale = {".router.scale": "ffn_gate_inp.scale", ".router.per_expert_scale": "ffn_down_exps.scale"}
        if arch == "gemma4" and any(name.endswith(end) for end in scale):
            mapped = f"blk.{name.split('.')[2]}." + next(new for end, new in scale.items() if name.endswith(end))
        elif arch == "gemma4" and name.endswith((".layer_scalar", ".gate_up_proj", ".down_proj")):
            mapped = known.get_name(name + ".weight", try_suffixes=(".weight",))
        elif name.endswith(".experts.gate_up_proj"):
            block = f"blk.{name.split('.')[2]}.ffn_"
            mapped = f"{block}gate_exps.weight+{block}up_exps.weight"
        if name.endswith("_sub_norm.weight"):
            mapped = f"blk.{name.split('.')[2]}.{name.split('.')[-2]}.weight"
        if arch == "llama4" and name.endswith(".experts.down_proj"):
            mapped = f"blk.{name.split('.')[2]}.ffn_down_exps.weight"
        if arch == "gpt-oss" and ".mlp.experts." in name:
            block, part = f"blk.{name.split('.')[2]}.ffn_", ".bias" if name.endswith("_bias") else ".weight"
            mapped = f"{block}gate_exps{part}+{block}up_exps{part}" if "gate_up" in name else f"{block}down_exps{part}"
        if ".kv_b_proj." in name and any(".q_a_proj." in other for other in names):
            block = f"blk.{name.split('.')[2]}.attn_"
            mapped = f"{block}k_b.weight+{block}v_b.weight"
        if name.endswith(".self_attn.sinks"):
            mapped += ".weight"
        if ".in_proj_qkvz." in name:
            block = f"blk.{name.split('.')[2]}.attn_"
            mapped = f"{block}qkv.weight+{block}gate.weight"
        if plain == "lm_head.weight":  # no published Gemma has one
            mapped = "output.weight"
        # Converters know no layers without experts in these mixtures: their names are llama's.
        mapped = mapped or dense.get_name(plain, try_suffixes=(".weight",))
        assert mapped, (arch, name)
        found[name] = mapped + (f"#{expert.group(1)}" if expert else "")
    return found


def greedy(model, prompt):
    """The tokens after the prompt, their logits, and the least lead of a choice."""
    import torch
    # In 4.57 layers of Gemma 3n share keys and values through the cache alone.
    cached = model.config.model_type.startswith("gemma3n")
    ids, rows, lead = list(prompt), [], math.inf
    with torch.no_grad():
        while len(ids) < len(prompt) + TOKENS:
            row = model(input_ids=torch.tensor([ids]), use_cache=cached).logits[0, -1]
            best = torch.topk(row, 2).values
            lead = min(lead, float(best[0] - best[1]))
            rows.append([round(v * 1e4) for v in row.tolist()])
            ids.append(int(row.argmax()))
            if lead < LEAD:
                break
    return ids, rows, lead


def write(out, golden, order):
    golden.sort(key=lambda entry: order.index(entry["family"]))
    with open(out, "w", encoding="utf-8") as file:
        for i, entry in enumerate(golden):
            file.write(("[" if i == 0 else ",") + json.dumps(entry, separators=(",", ":")) + "\n")
        file.write("]\n")


def main():
    out, *only = sys.argv[1:]
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    torch.manual_seed(0)
    torch.set_num_threads(1)
    golden, order = [], []
    if only:  # the others stay as they are
        with open(out, encoding="utf-8") as file:
            golden = json.load(file)
        order = [entry["family"] for entry in golden]
        golden = [entry for entry in golden if entry["family"] not in only]
    for name, arch, made in families(transformers):
        if name not in order:
            order.append(name)
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            plus = 0 if (arch.startswith("gemma") and arch not in ("gemma3n", "gemma4")) or arch in ("nemotron", "qwen3next", "qwen35", "qwen35moe") else 1
            # 4.57 writes the prefix into a name of Gemma 3n.
            shapes = {key.replace("_model.language_model_", "_model_"): value.shape for key, value in load_file(path).items()}
            small = arch in ("starcoder2", "stablelm") or "lm_head.weight" not in shapes
            spreads = (0.25, 0.5) if small else (1.0, 0.25)
            if name == "gpt_oss with its limits":
                spreads = (1.0, 0.25, 6.0)
            if arch.startswith("gemma"):
                spreads = (0.125, 0.25) if arch == "gemma" else (0.125, 0.5)
            scaled = [".q_norm."] if arch in ("gemma3n", "gemma4") else []  # its scores have no other scale
            tensors = {key: generated(key, shape, 0 if any(part in key for part in scaled) else plus, spreads)
                       for key, shape in shapes.items()}
            save_file(tensors, path, metadata={"format": "pt"})
            model = type(made).from_pretrained(folder, attn_implementation="eager").float().eval()
            # The library loads parameters of activations in bfloat16.
            model.load_state_dict({key: value for key, value in tensors.items() if ".act_fn." in key}, strict=False)
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
        for seed in range(FIRST.get(name, 1), 200):
            prompt = [3 + (i * i * seed + i * 7 + seed) % (WORDS - 3) for i in range(PROMPT)]
            ids, rows, lead = greedy(model, prompt)
            if lead >= LEAD and len(set(ids[PROMPT:])) >= KINDS:
                break
        else:
            raise SystemExit(f"{name}: no prompt will do")
        keys = gguf_keys(arch, config)
        golden.append({"family": name, "config": config, "gguf": arch, "keys": keys,
                       "names": gguf_names(arch, tensors, keys["block_count"]),
                       "tensors": {key: list(value.shape) for key, value in tensors.items()},
                       "spreads": spreads, "prompt": PROMPT, "ids": ids, "every": EVERY, "logits": rows[::EVERY]})
        print(name, len(tensors), "tensors, prompt", seed, "lead", round(lead, 3), "kinds of tokens", len(set(ids[PROMPT:])),
              flush=True)
        write(out, golden, order)


if __name__ == "__main__":
    main()
