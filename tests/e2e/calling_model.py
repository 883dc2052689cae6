"""Writes a small llama folder that calls a tool first, and answers when it has the tool's result: Qwen 2.5's template.

A model of a few hundred kilobytes that chooses to call a tool, for APIs without `tool_choice`. Each token has one
successor: attention and feed-forward layers add zero, and the row of a token's successor in the output matrix is that token's
embedding. The generation prompt ends in a tab after a tool's result, and in a line feed otherwise. A chain starts at each.
"""
import json
import pathlib
import random
import struct

import folder_model

TEMPLATES = pathlib.Path(__file__).resolve().parent.parent / "third_party" / "chat_templates"
NAME, ARGUMENTS = "get_weather", {"city": "Rome"}
ANSWER = "It is sunny in Rome."
# Tokens of their own, in the order in which they are written.
CALL = ("<tool_call>", '\n{"name": "' + NAME + '", "arguments": ', json.dumps(ARGUMENTS), "}\n", "</tool_call>")
ANSWER_PIECES = ("It is", " sunny", " in Rome", ".")
LINE_FEED, TAB = "\u010a", "\u0109"  # as the vocabulary spells these bytes
END = 2  # <|im_end|>
PROMPT_END = "    {{- '<|im_start|>assistant\\n' }}"
WIDTH = 256


def template():
    text = (TEMPLATES / "qwen-2.5.jinja").read_text()
    assert text.count(PROMPT_END) == 1
    return text.replace(PROMPT_END, "    {{- '<|im_start|>assistant' + ('\\t' if messages[-1].role == 'tool' else '\\n') }}")


def bfloat16(numbers):
    return b"".join(struct.pack("<f", number)[2:] for number in numbers)


def write(folder):
    folder_model.write(folder, layers=1, width=WIDTH, feed_forward=256)
    tokenizer = folder_model.tokenizer()
    ids = dict(tokenizer["model"]["vocab"])
    first = 1 + max(ids.values())
    added = {text: first + i for i, text in enumerate((*CALL, *ANSWER_PIECES))}
    tokenizer["added_tokens"] += [{"id": number, "content": text, "special": False} for text, number in added.items()]
    chains = [[ids[LINE_FEED], *(added[text] for text in CALL), END], [ids[TAB], *(added[text] for text in ANSWER_PIECES), END]]
    rng = random.Random(5)
    embeddings = [[rng.choice((-1.0, 1.0)) for _ in range(WIDTH)] for _ in range(folder_model.ROWS)]
    outputs = [[0.0] * WIDTH for _ in range(folder_model.ROWS)]
    for chain in chains:
        for token, successor in zip(chain, chain[1:]):
            outputs[successor] = [a + b / 4 for a, b in zip(outputs[successor], embeddings[token])]
    with open(pathlib.Path(folder, "model.safetensors"), "r+b") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))

        def replace(name, data):
            begin, end = header[name]["data_offsets"]
            assert len(data) == end - begin, name
            file.seek(8 + size + begin)
            file.write(data)
        replace("model.embed_tokens.weight", b"".join(map(bfloat16, embeddings)))
        replace("lm_head.weight", b"".join(map(bfloat16, outputs)))
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            begin, end = header[f"model.layers.0.{name}.weight"]["data_offsets"]
            replace(f"model.layers.0.{name}.weight", bytes(end - begin))
    texts = {"tokenizer.json": json.dumps(tokenizer), "chat_template.jinja": template(),
             "tokenizer_config.json": json.dumps({"eos_token": "<|im_end|>"})}
    for name, text in texts.items():
        pathlib.Path(folder, name).write_text(text)
