"""Small folders in the form of published models: the published side files with a shortened vocabulary, weights from a seed."""
import array
import gzip
import json
import math
import os
import pathlib
import random
import struct

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


def tokenizer_file(name):
    """tokenizer.json of tests/data/tokenizer/published.json.gz."""
    with gzip.open(DATA / "tokenizer" / "published.json.gz") as z:
        files = json.loads(z.read())["files"]
    return next(f["tokenizer_json"] for f in files if f["name"] == name)


def values(name, shape, seed):
    """The floats of a tensor: matrices spread around 0, vectors around 1, from the name alone."""
    rng = random.Random(f"{seed}:{name}")
    count = math.prod(shape)
    middle, spread = (0.0, 0.3) if len(shape) > 1 else (1.0, 0.05) if "norm" in name else (0.0, 0.1)
    return array.array("f", (middle + spread * rng.gauss(0, 1) for _ in range(count)))


def write(folder, config, tokenizer, shapes, seed, settings=None, template=None):
    """config.json, tokenizer.json, tokenizer_config.json, chat_template.jinja and model.safetensors."""
    os.makedirs(folder, exist_ok=True)
    texts = {"config.json": json.dumps(config), "tokenizer.json": tokenizer, "tokenizer_config.json": json.dumps(settings or {}),
             "chat_template.jinja": template}
    for name, text in texts.items():
        if text is not None:
            pathlib.Path(folder, name).write_text(text)
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape in sorted(shapes.items()):
        data = values(name, shape, seed).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    pathlib.Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))
    return folder
