#!/usr/bin/env python3
"""Makes tests/golden/lora.json: what peft computes for small decoders with LoRA adapters, float32, CPU.

    make_lora_goldens.py tests/golden/lora.json [FAMILY...]

Needs the PyPI packages torch, transformers (4.57), peft and safetensors. The bases are those of make_decoder_goldens.py,
by the same names and values. Each adapter is made and saved by peft, its tensors replaced by values generated from the names
of the saved file as there, with spreads for A and B that change the logits by about as much as they are, and loaded again.

Of each: the configuration that peft saved, the shapes of its tensors, a text, and the logits after every fourth token of
it, times 10^4 and rounded.
"""
import json
import os
import sys
import tempfile

from make_decoder_goldens import PROMPT, WORDS, families, generated

TEXT, EVERY = 40, 4
SPREADS = (0.25, 0.25)  # of A, of B

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
DENSE = ATTENTION + ["gate_proj", "up_proj", "down_proj"]
UNGATED = ATTENTION + ["up_proj", "down_proj"]

# Family, target modules, further settings.
ADAPTERS = [
    ("llama", DENSE, dict(r=8, lora_alpha=16)),
    ("llama", ["q_proj", "v_proj"], dict(r=16, lora_alpha=8, use_rslora=True)),
    ("llama", DENSE, dict(r=4, lora_alpha=8, rank_pattern={"down_proj": 12, "layers.1.self_attn.q_proj": 3},
                          alpha_pattern={"layers.2.mlp.up_proj": 2, "k_proj": 16})),
    ("llama with biases", DENSE, dict(r=5, lora_alpha=10)),
    ("mistral with a window", DENSE, dict(r=8, lora_alpha=8)),
    ("qwen2", DENSE, dict(r=8, lora_alpha=16)),
    ("qwen3", DENSE, dict(r=24, lora_alpha=24)),
    ("granite", DENSE, dict(r=8, lora_alpha=16)),
    ("olmo2", DENSE, dict(r=8, lora_alpha=16)),
    ("phi3", ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], dict(r=8, lora_alpha=16)),
    ("phi3 with a window", ["qkv_proj", "gate_up_proj"], dict(r=6, lora_alpha=12)),
    ("gemma2", DENSE, dict(r=8, lora_alpha=16)),
    ("gemma3", DENSE, dict(r=8, lora_alpha=16)),
    ("smollm3", DENSE, dict(r=8, lora_alpha=16)),
    ("exaone4", DENSE, dict(r=8, lora_alpha=16)),
    ("gemma", DENSE, dict(r=8, lora_alpha=16)),
    ("glm4", ATTENTION + ["gate_up_proj", "down_proj"], dict(r=8, lora_alpha=16)),
    ("cohere", DENSE, dict(r=8, lora_alpha=16)),
    ("stablelm", DENSE, dict(r=8, lora_alpha=16)),
    ("starcoder2", ATTENTION + ["c_fc", "c_proj"], dict(r=8, lora_alpha=16)),
    ("nemotron", UNGATED, dict(r=8, lora_alpha=16)),
    ("apertus", UNGATED, dict(r=8, lora_alpha=16)),
    ("arcee", UNGATED, dict(r=8, lora_alpha=16)),
    ("gemma3n", DENSE, dict(r=8, lora_alpha=16)),
    ("bitnet", DENSE, dict(r=8, lora_alpha=16)),
    ("qwen3moe", ATTENTION, dict(r=8, lora_alpha=16)),
    ("mixtral", ATTENTION, dict(r=8, lora_alpha=16)),
    ("gpt_oss", ATTENTION, dict(r=8, lora_alpha=16)),
    ("qwen3next", ATTENTION, dict(r=8, lora_alpha=16)),
    ("lfm2", ["q_proj", "k_proj", "v_proj", "w1", "w2", "w3"], dict(r=8, lora_alpha=16)),
]


def base_of(made, golden):
    """The model with the values of make_decoder_goldens.py."""
    from safetensors.torch import load_file, save_file
    arch = golden["gguf"]
    plus = 0 if (arch.startswith("gemma") and arch not in ("gemma3n", "gemma4")) or arch in ("nemotron", "qwen3next") else 1
    scaled = [".q_norm."] if arch in ("gemma3n", "gemma4") else []
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        shapes = {key.replace("_model.language_model_", "_model_"): value.shape for key, value in load_file(path).items()}
        assert {key: list(shape) for key, shape in shapes.items()} == golden["tensors"], golden["family"]
        tensors = {key: generated(key, shape, 0 if any(part in key for part in scaled) else plus, golden["spreads"])
                   for key, shape in shapes.items()}
        save_file(tensors, path, metadata={"format": "pt"})
        model = type(made).from_pretrained(folder, attn_implementation="eager").float().eval()
        model.load_state_dict({key: value for key, value in tensors.items() if ".act_fn." in key}, strict=False)
    return model


def adapted(model, targets, settings):
    """The model with an adapter of generated values, its configuration, and the shapes of its tensors."""
    import peft
    from safetensors.torch import load_file, save_file
    config = peft.LoraConfig(target_modules=targets, **settings)
    wrapped = peft.get_peft_model(model, config)
    with tempfile.TemporaryDirectory() as folder:
        wrapped.save_pretrained(folder)
        path = os.path.join(folder, "adapter_model.safetensors")
        shapes = {key: list(value.shape) for key, value in load_file(path).items()}
        tensors = {key: generated(key, shape, 0, (0, SPREADS["lora_B" in key])) for key, shape in shapes.items()}
        save_file(tensors, path, metadata={"format": "pt"})
        with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
            saved = json.load(file)
        plain = wrapped.unload()
        wrapped = peft.PeftModel.from_pretrained(plain, folder).float().eval()
    saved["base_model_name_or_path"] = None  # a folder of this run
    return wrapped, saved, shapes


def main():
    out, *only = sys.argv[1:]
    import torch
    import transformers
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with open(os.path.join(os.path.dirname(os.path.abspath(out)), "decoder_families.json"), encoding="utf-8") as file:
        bases = {entry["family"]: entry for entry in json.load(file)}
    known = {name: made for name, _, made in families(transformers)}
    golden = []
    for name, targets, settings in ADAPTERS:
        if (only and name not in only) or name not in known:
            print("left out:", name)
            continue
        model, config, shapes = adapted(base_of(known[name], bases[name]), targets, settings)
        ids = [3 + (i * i * 5 + i * 7 + 11) % (WORDS - 3) for i in range(TEXT)]
        cached = model.config.model_type.startswith("gemma3n")
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), use_cache=cached).logits[0]
            with model.disable_adapter():
                plain = model(input_ids=torch.tensor([ids]), use_cache=cached).logits[0]
        rows = [[round(v * 1e4) for v in row.tolist()] for row in logits[EVERY - 1::EVERY]]
        change = float((logits - plain).abs().max() / plain.abs().max())
        golden.append({"family": name, "config": config, "tensors": shapes, "spreads": SPREADS, "prompt": PROMPT, "ids": ids,
                       "every": EVERY, "logits": rows})
        print(name, len(shapes), "tensors, greatest change", round(change, 2), "of the greatest logit", flush=True)
    with open(out, "w", encoding="utf-8") as file:
        for i, entry in enumerate(golden):
            file.write(("[" if i == 0 else ",") + json.dumps(entry, separators=(",", ":")) + "\n")
        file.write("]\n")


if __name__ == "__main__":
    main()
