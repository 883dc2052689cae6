#!/usr/bin/env python3
"""Makes tests/golden/published_folders.json: answers of transformers for small folders in the form of published models.

    make_published_goldens.py FOLDER

FOLDER holds the published side files, one NAME.json each (make_published_tokenizers.py). Needs the PyPI packages torch and
transformers (5.24). Of each model: config.json as the library writes it at two layers of 64, the shapes of its tensors,
the chat template and tokenizer_config.json as published, and for each prompt the text of 12 greedy tokens in float32; the
seed of the weights is the first whose texts have no special tokens.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
import published_folder  # noqa: E402

PROMPTS = ["Good morning, everyone!", "nai\u0308ve cafe\u0301 \u8c22\u8c22", "   three  two one \nlines"]
TOKENS = 12
MAX_SEEDS = 2000
SMALL = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, num_hidden_layers=2, max_position_embeddings=512,
             tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)
MODELS = {"qwen2.5-instruct": "Qwen2Config", "mistral-7b-v0.1": "MistralConfig", "mistral-7b-v0.3": "MistralConfig", "mistral-nemo": "MistralConfig",
          "phi-3-mini": "Phi3Config", "phi-4": "Phi3Config", "olmo2": "Olmo2Config"}
FROM_PUBLISHED = ("rope_theta", "rope_parameters", "rms_norm_eps", "sliding_window", "use_sliding_window", "max_window_layers", "partial_rotary_factor")


def special(settings, name):
    value = settings.get(name)
    return value["content"] if isinstance(value, dict) else value


def make(name, side):
    import torch
    import transformers as t
    tokenizer_text = published_folder.tokenizer_file(name)
    tokenizer_json = json.loads(tokenizer_text)
    rows = 1 + max([*tokenizer_json["model"]["vocab"].values(), *(a["id"] for a in tokenizer_json["added_tokens"])])
    published = json.loads(side.get("config.json", "{}"))
    kept = {k: published[k] for k in FROM_PUBLISHED if k in published}
    config = getattr(t, MODELS[name])(**SMALL, vocab_size=rows, **kept)
    model = t.AutoModelForCausalLM.from_config(config).float().eval()
    shapes = {k: list(v.shape) for k, v in model.state_dict().items()}
    settings = json.loads(side.get("tokenizer_config.json", "{}"))
    settings = {k: settings[k] for k in ("bos_token", "eos_token", "pad_token", "unk_token", "add_bos_token", "chat_template", "tokenizer_class") if k in settings}
    template = side.get("chat_template.jinja")
    if name.startswith("mistral") and "bos_token" not in settings:
        settings.update(bos_token="<s>", eos_token="</s>")
    named = {k: special(settings, k) for k in ("bos_token", "eos_token", "pad_token", "unk_token") if special(settings, k)}
    import tempfile
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(tokenizer_text)
        file.flush()
        tokenizer = t.PreTrainedTokenizerFast(tokenizer_file=file.name, **named)
    tokenizer.chat_template = template or settings.get("chat_template")
    prompts = []
    for prompt in PROMPTS:
        if tokenizer.chat_template:
            whole = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True)
            prompts.append(tokenizer(whole, add_special_tokens=False)["input_ids"])
        else:
            prompts.append(tokenizer(prompt)["input_ids"])
    special_ids = set(tokenizer.all_special_ids) | {a["id"] for a in tokenizer_json["added_tokens"]} | {2}
    for seed in range(MAX_SEEDS):
        with torch.no_grad():
            for key, tensor in model.state_dict().items():
                tensor.copy_(torch.tensor(published_folder.values(key, list(tensor.shape), seed)).reshape(tensor.shape))
        texts = []
        for prompt, ids in zip(PROMPTS, prompts):
            # Without a mask the library takes every token 0 of the prompt for padding.
            out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=TOKENS, do_sample=False,
                                 eos_token_id=None, pad_token_id=0)[0].tolist()[len(ids):]
            if special_ids & set(out):
                break
            texts.append({"prompt": prompt, "prompt_tokens": len(ids), "text": tokenizer.decode(out, skip_special_tokens=True)})
        if len(texts) == len(PROMPTS):
            break
    assert len(texts) == len(PROMPTS), name
    return {"name": name, "seed": seed, "config": json.loads(config.to_json_string(use_diff=False)), "shapes": shapes, "settings": settings, "template": template,
            "chats": bool(tokenizer.chat_template), "texts": texts}


def main():
    folder = pathlib.Path(sys.argv[1])
    made = []
    for name in MODELS:
        side = json.loads((folder / f"{name}.json").read_text())
        made.append(make(name, side))
        print(name, made[-1]["seed"], [x["text"][:30] for x in made[-1]["texts"]], file=sys.stderr)
    out = ROOT / "tests/golden/published_folders.json"
    out.write_text(json.dumps({"tokens": TOKENS, "models": made}, ensure_ascii=True, indent=1) + "\n")


if __name__ == "__main__":
    main()
