#!/usr/bin/env python3
"""Makes tests/golden/decoder_vectors.json: vectors and scores of small decoders that were published to give them, float32, CPU.

    make_decoder_vector_goldens.py tests/golden/decoder_vectors.json

Needs the PyPI packages torch, transformers (4.57), sentence-transformers (6.2), safetensors and gguf. Each model is created and
saved by transformers, and its tensors are replaced by generated values, as in make_decoder_goldens.py. What follows the
model are modules of sentence-transformers: pooling and Dense, or the score of tokens behind the text.
"""
import json
import os
import sys
import tempfile

from make_decoder_goldens import WORDS, generated, gguf_keys, gguf_names

LENGTHS = (1, 17, 300)


def models(t):
    import torch
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.base.modules.normalize import Normalize
    from sentence_transformers.cross_encoder.modules.logit_score import LogitScore
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling
    shape = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, num_hidden_layers=3,
                 vocab_size=WORDS, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    small = dict(shape, hidden_size=32, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2)
    gemma = dict(use_bidirectional_attention=True, rms_norm_eps=1e-6)
    pooling = lambda mode: ("1_Pooling", lambda width: Pooling(width, mode))
    plain = lambda out, columns=None: lambda width: Dense(columns or width, out, bias=False, activation_function=torch.nn.Identity())
    normalize = lambda _: Normalize()
    return [
        ("qwen3 without a head", t.Qwen3Model(t.Qwen3Config(**shape, head_dim=32, tie_word_embeddings=False)),
         [pooling("lasttoken"), ("2_Normalize", normalize)]),
        ("qwen3 of one group", t.Qwen3Model(t.Qwen3Config(**small, head_dim=16, tie_word_embeddings=True)),
         [pooling("lasttoken"), ("2_Dense", lambda width: Dense(width, 40))]),
        ("gemma3 both ways", t.Gemma3TextModel(t.Gemma3TextConfig(
            **dict(shape, num_hidden_layers=7), **gemma, head_dim=32, query_pre_attn_scalar=32, sliding_window=16)),
         [pooling("mean"), ("2_Dense", plain(96)), ("3_Dense", plain(40, 96)), ("4_Normalize", normalize)]),
        ("gemma3 both ways, a wide window", t.Gemma3TextModel(t.Gemma3TextConfig(
            **dict(small, num_hidden_layers=6), **gemma, head_dim=48, query_pre_attn_scalar=48, sliding_window=520)),
         [pooling("cls"), ("2_Normalize", normalize)]),
        ("qwen3 with a score", t.Qwen3ForCausalLM(t.Qwen3Config(**shape, head_dim=32, tie_word_embeddings=True)),
         [("1_LogitScore", lambda _: LogitScore(9, 17))]),
        ("qwen3 with a score by its head", t.Qwen3ForCausalLM(t.Qwen3Config(**small, head_dim=32, tie_word_embeddings=False)),
         [("1_LogitScore", lambda _: LogitScore(5, 40))]),
        ("qwen3 with a score of one token", t.Qwen3ForCausalLM(t.Qwen3Config(**small, head_dim=32, tie_word_embeddings=True)),
         [("1_LogitScore", lambda _: LogitScore(5))]),
    ]


def gguf_form(config, tensors, modules):
    """Architecture, keys and names of tensors as llama.cpp's converter writes them; nothing for what it cannot say."""
    arch = "gemma-embedding" if config.get("use_bidirectional_attention") else "qwen3"
    keys, score = gguf_keys(arch.replace("-embedding", "3"), config), None
    for place, module in modules:
        said = module.get_config_dict()
        if place == "1_Pooling":
            keys["pooling_type"] = {"mean": 1, "cls": 2, "lasttoken": 3}[said["pooling_mode"]]
        elif place == "1_LogitScore":
            if said["false_token_id"] is None:
                return {}
            keys["pooling_type"], score = 4, [said["true_token_id"], said["false_token_id"]]
        elif place.endswith("_Dense"):
            if said["bias"]:
                return {}
            for end in ("in", "out"):
                keys[f"dense_{place[0]}_feat_{end}"] = said[f"{end}_features"]
    plain = {name: name if name.startswith(("model.", "lm_head.")) else f"model.{name}" for name in tensors if "/" not in name}
    known = gguf_names(arch, plain.values(), config["num_hidden_layers"])
    names = {name: known[whole] for name, whole in plain.items()}
    names.update({name: f"dense_{name[0]}.weight" for name in tensors if "/" in name})
    return {"gguf": arch, "keys": keys, "names": names, "score": score}


def main():
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    torch.set_num_threads(1)
    golden = []
    for name, made, parts in models(transformers):
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            # As published, where the constructor halves it.
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            if config.get("use_bidirectional_attention"):
                config["sliding_window"] = 2 * (config["sliding_window"] - 1)
                with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                    json.dump(config, file)
            plus, spreads = (0, (0.125, 0.25)) if name.startswith("gemma") else (1, (0.25, 0.5))
            tensors = {key: generated(key, value.shape, plus, spreads) for key, value in load_file(path).items()}
            save_file(tensors, path, metadata={"format": "pt"})
            model = type(made).from_pretrained(folder, attn_implementation="eager").float().eval()
        modules = [(place, make(config["hidden_size"])) for place, make in parts]
        for place, module in modules:
            state = {key: generated(f"{place}/{key}", value.shape, 0, spreads) for key, value in module.state_dict().items()}
            module.load_state_dict(state)
            tensors.update({f"{place}/{key}": value for key, value in state.items()})
        runs = []
        for seed, length in enumerate(LENGTHS, 3):
            ids = [3 + (i * i * seed + i * 7 + seed) % (WORDS - 3) for i in range(length)]
            with torch.no_grad():
                result = model(input_ids=torch.tensor([ids]), use_cache=False)
                features = {"attention_mask": torch.ones(1, length, dtype=torch.int64)}
                features["causal_logits" if "logits" in result else "token_embeddings"] = \
                    result.logits if "logits" in result else result.last_hidden_state
                for _, module in modules:
                    features = module(features)
            values = features["scores" if "scores" in features else "sentence_embedding"]
            runs.append({"seed": seed, "length": length, "values": [round(v, 7) for v in values.flatten().tolist()]})
        golden.append({
            "family": name, "config": config, "tensors": {key: list(value.shape) for key, value in tensors.items()},
            "spreads": spreads, "prompt": 0, "ids": [], "logits": [], "runs": runs, **gguf_form(config, tensors, modules),
            "modules": [{"path": place, "type": f"{type(module).__module__}.{type(module).__name__}",
                         "config": module.get_config_dict() if hasattr(module, "get_config_dict") else {}}
                        for place, module in modules]})
        print(name, [run["values"][:3] for run in runs], flush=True)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        for i, entry in enumerate(golden):
            file.write(("[" if i == 0 else ",") + json.dumps(entry, separators=(",", ":")) + "\n")
        file.write("]\n")


if __name__ == "__main__":
    main()
