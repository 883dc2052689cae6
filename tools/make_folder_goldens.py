#!/usr/bin/env python3
"""Makes tests/golden/folder_configs.json: forms in which transformers 5 and other programs write folders.

    make_folder_goldens.py tests/golden/folder_configs.json

Needs the PyPI packages torch, transformers (5.24) and safetensors. Models and values are made as make_decoder_goldens.py
makes them, at two layers of 64 and with few tokens; of each the config.json as the library wrote it, the names and shapes
of its tensors, a prompt, the tokens chosen greedily after it and their logits times 10^4. `edit` changes what was written
to a form that others write, which the library must read as the same.
"""
import json
import math
import os
import sys
import tempfile

import make_decoder_goldens as common

common.TOKENS, common.KINDS = 10, 4


def drop(*keys):
    return lambda config: [config.pop(key, None) for key in keys]


def cases(t):
    shape = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, num_hidden_layers=2,
                 vocab_size=80, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    gemma = dict(shape, head_dim=32, query_pre_attn_scalar=32, sliding_window=8, tie_word_embeddings=False)
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    three = dict(num_hidden_layers=3)
    of_layers = {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5},
                 "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}
    longrope = {"rope_type": "longrope", "short_factor": [1.0 + 0.25 * i for i in range(6)], "long_factor": [9.0] * 6,
                "partial_rotary_factor": 0.75, "rope_theta": 1e4}

    def old_phi(config):  # as 4.x wrote it
        rope = config.pop("rope_parameters")
        config["partial_rotary_factor"], config["rope_theta"] = rope["partial_rotary_factor"], rope["rope_theta"]

    def old_longrope(config):
        rope = config.pop("rope_parameters")
        config["partial_rotary_factor"], config["rope_theta"] = rope["partial_rotary_factor"], rope["rope_theta"]
        config["rope_scaling"] = {"type": "longrope", "short_factor": rope["short_factor"], "long_factor": rope["long_factor"]}

    def old_gemma(config):
        rope = config.pop("rope_parameters")
        config["rope_theta"], config["rope_local_base_freq"] = rope["full_attention"]["rope_theta"], rope["sliding_attention"]["rope_theta"]
        config["rope_scaling"] = {"rope_type": "linear", "factor": 4.0}

    def of_parts(config):  # 5.24 needs another package to make the other parts
        text = dict(config)
        config.clear()
        config.update(model_type="gemma3n", text_config=text, architectures=["Gemma3nForConditionalGeneration"])

    nothing = lambda config: None
    gemma_long = dict(gemma, sliding_window=512)
    vision = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    gemma_of_parts = t.Gemma3Config(text_config=dict(gemma, **three, layer_types=kinds, model_type="gemma3_text"),
                                    vision_config=dict(vision, model_type="siglip_vision_model"), mm_tokens_per_image=1,
                                    image_token_index=79, boi_token_index=78, eoi_token_index=77, tie_word_embeddings=False)
    mistral_of_parts = t.Mistral3Config(text_config=dict(shape, model_type="mistral", head_dim=32, sliding_window=None),
                                        vision_config=dict(vision, model_type="pixtral", head_dim=16), image_token_index=79)
    llava = t.LlavaConfig(text_config=dict(shape, model_type="llama"), vision_config=dict(vision, model_type="clip_vision_model", projection_dim=32),
                          image_token_index=79)
    return [
        ("phi3, rope_parameters", t.Phi3ForCausalLM(t.Phi3Config(**shape, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5})), nothing),
        ("phi3, keys of 4.x", t.Phi3ForCausalLM(t.Phi3Config(**shape, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5})), old_phi),
        ("phi3, longrope", t.Phi3ForCausalLM(t.Phi3Config(**dict(shape, max_position_embeddings=256), original_max_position_embeddings=64, rope_parameters=dict(longrope))), nothing),
        ("phi3, longrope of 4.x", t.Phi3ForCausalLM(t.Phi3Config(**dict(shape, max_position_embeddings=256), original_max_position_embeddings=64, rope_parameters=dict(longrope))), old_longrope),
        ("gemma3, layer_types", t.Gemma3ForCausalLM(t.Gemma3TextConfig(**dict(gemma, **three), layer_types=kinds, rope_parameters=of_layers)), nothing),
        ("gemma3, keys of 4.x", t.Gemma3ForCausalLM(t.Gemma3TextConfig(**dict(gemma, **three), layer_types=kinds, rope_parameters=of_layers)), old_gemma),
        ("gemma3, sliding_window_pattern", t.Gemma3ForCausalLM(t.Gemma3TextConfig(**dict(gemma, **three), sliding_window_pattern=2)), lambda c: (c.pop("layer_types"), c.update(sliding_window_pattern=2))),
        ("gemma3, a window beyond the context", t.Gemma3ForCausalLM(t.Gemma3TextConfig(**dict(gemma_long, **three), layer_types=kinds)), nothing),
        ("gemma2, layer_types", t.Gemma2ForCausalLM(t.Gemma2Config(**dict(gemma, **three), layer_types=kinds[1:] + kinds[:1])), nothing),
        ("gemma2, biases", t.Gemma2ForCausalLM(t.Gemma2Config(**gemma, attention_bias=True)), nothing),
        ("qwen2, windows of some layers", t.Qwen2ForCausalLM(t.Qwen2Config(**dict(shape, **three), use_sliding_window=True, sliding_window=8, max_window_layers=1)), nothing),
        ("qwen2, max_window_layers", t.Qwen2ForCausalLM(t.Qwen2Config(**dict(shape, **three), use_sliding_window=True, sliding_window=8, max_window_layers=2)), drop("layer_types")),
        ("qwen3, layer_types", t.Qwen3ForCausalLM(t.Qwen3Config(**dict(shape, **three), head_dim=32, use_sliding_window=True, sliding_window=8, layer_types=kinds)), nothing),
        ("qwen3moe, windows", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**shape, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, use_sliding_window=True, sliding_window=8)), nothing),
        ("olmo2, biases", t.Olmo2ForCausalLM(t.Olmo2Config(**shape, attention_bias=True)), nothing),
        ("mixtral, a window", t.MixtralForCausalLM(t.MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2, sliding_window=8)), nothing),
        ("mistral, the window of its class", t.MistralForCausalLM(t.MistralConfig(**dict(shape, max_position_embeddings=8192))), drop("sliding_window")),
        ("llama, a window that it has not", t.LlamaForCausalLM(t.LlamaConfig(**shape)), lambda c: c.update(sliding_window=8)),
        ("llama, dynamic", t.LlamaForCausalLM(t.LlamaConfig(**shape, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})), nothing),
        ("llama, both places", t.LlamaForCausalLM(t.LlamaConfig(**shape, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 7e4})), lambda c: c.update(rope_theta=1e4)),
        ("gemma3 with pictures", t.Gemma3ForConditionalGeneration(gemma_of_parts), nothing),
        ("mistral3 with pictures", t.Mistral3ForConditionalGeneration(mistral_of_parts), nothing),
        ("llava", t.LlavaForConditionalGeneration(llava), nothing),
        ("gemma3n with pictures", t.Gemma3nForCausalLM(t.Gemma3nTextConfig(
            **dict(shape, **three), head_dim=32, sliding_window=8, layer_types=kinds, num_kv_shared_layers=1,
            hidden_size_per_layer_input=32, vocab_size_per_layer_input=70, laurel_rank=32, altup_num_inputs=3,
            activation_sparsity_pattern=[0.9, 0.0, 0.5], final_logit_softcapping=10.0)), of_parts),
    ]


def main():
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    torch.manual_seed(0)
    torch.set_num_threads(1)
    golden = []
    for name, made, edit in cases(transformers):
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            path, config_path = os.path.join(folder, "model.safetensors"), os.path.join(folder, "config.json")
            plus = 0 if name.startswith("gemma") and not name.startswith("gemma3n") else 1
            shapes = {key: value.shape for key, value in load_file(path).items()}
            spreads = (0.125, 0.5) if name.startswith("gemma") else (1.0, 0.25)
            queries = ".q_norm." if name.startswith("gemma3n") else "none"
            tensors = {key: common.generated(key, shape, 0 if queries in key else plus, spreads) for key, shape in shapes.items()}
            save_file(tensors, path, metadata={"format": "pt"})
            with open(config_path, encoding="utf-8") as file:
                config = json.load(file)
            edit(config)
            with open(config_path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            model = type(made).from_pretrained(folder, attn_implementation="eager").float().eval()
        for seed in range(1, 300):
            prompt = [3 + (i * i * seed + i * 7 + seed) % 74 for i in range(common.PROMPT)]
            ids, rows, lead = common.greedy(model, prompt)
            if lead >= common.LEAD and len(set(ids[common.PROMPT:])) >= common.KINDS:
                break
        else:
            raise SystemExit(f"{name}: no prompt will do")
        golden.append({"family": name, "config": config, "tensors": {key: list(value.shape) for key, value in tensors.items()},
                       "spreads": spreads, "plus": plus, "prompt": common.PROMPT, "ids": ids, "logits": rows})
        print(name, len(tensors), "tensors, prompt", seed, "lead", round(lead, 3), flush=True)
        common.write(sys.argv[1], golden, [entry["family"] for entry in golden])


if __name__ == "__main__":
    main()
