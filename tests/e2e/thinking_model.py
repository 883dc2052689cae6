"""Writes a small llama folder that always reasons first: Qwen 3's template, whose prompt ends with the opening tag.

So the prompts of Qwen 3's thinking models (2507) end. The weights are folder_model's: reasoning and answers mean nothing,
and the reasoning ends where a budget, or the model by chance, ends it.
"""
import json
import pathlib

import folder_model

TEMPLATES = pathlib.Path(__file__).resolve().parent.parent / "third_party" / "chat_templates"
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")  # added and not special, as Qwen has them
PROMPT_END = "    {%- endif %}\n{%- endif %}"


def template():
    text = (TEMPLATES / "qwen-3.jinja").read_text().rstrip()
    assert text.endswith(PROMPT_END)
    return text[:-len(PROMPT_END)] + "    {%- else %}\n        {{- '<think>\\n' }}\n" + PROMPT_END


def write(folder):
    folder_model.write(folder)
    tokenizer = folder_model.tokenizer()
    first = 1 + max(tokenizer["model"]["vocab"].values())
    tokenizer["added_tokens"] += [{"id": first + i, "content": tag, "special": False} for i, tag in enumerate(TAGS)]
    texts = {"tokenizer.json": json.dumps(tokenizer), "chat_template.jinja": template(),
             "tokenizer_config.json": json.dumps({"eos_token": "<|im_end|>"})}
    for name, text in texts.items():
        pathlib.Path(folder, name).write_text(text)
