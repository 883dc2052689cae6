#!/usr/bin/env python3
"""Makes tests/golden/encoder_families.json: what transformers computes for small encoders of each family, float32, CPU.

    make_encoder_family_goldens.py tests/golden/encoder_families.json [FAMILY...]

Needs the PyPI packages torch, transformers, sentence-transformers and safetensors; for Jina v2, which transformers has not, the environment
variable JINA_BERT names a Python module that holds the published implementation (modeling_bert). With names (or their beginnings) only those families are
made again, and the others of the file are kept: not every version of transformers has every family. Each model is
created, saved as transformers saves it, its tensors replaced by generated values under the names and shapes of the saved
file, and loaded again: names, shapes and config.json are the library's own, and the values need no room here. Value i of
a tensor is
    ((splitmix64(fnv1a64(name) + i) >> 40) / 2^23 - 1) * spread, exact in float32,
where the weights of layer norms have 1 added; spread is 1/4 for vectors and embeddings, 1/8 for matrices.
"""
import importlib
import json
import os
import sys
import tempfile

MASK = (1 << 64) - 1
WIDTH, HEADS, WIDE, LAYERS, WORDS = 32, 2, 64, 2, 40


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def is_norm(name):
    return any(part in name.lower() for part in ("norm", "_ln."))


def generated(name, shape):
    import torch
    count = 1
    for extent in shape:
        count *= extent
    spread = 0.125 if len(shape) == 2 and "embeddings" not in name else 0.25
    seed = fnv1a64(name)
    values = [((splitmix64((seed + i) & MASK) >> 40) / 2**23 - 1) * spread for i in range(count)]
    if is_norm(name) and name.endswith(".weight"):
        values = [1 + v for v in values]
    return torch.tensor(values, dtype=torch.float32).view(*shape)


def modules_of(name, width):
    """What follows the transformer: pairs of a folder and a module of sentence-transformers."""
    import torch
    if name.startswith("splade"):
        from sentence_transformers.sparse_encoder.modules.splade_pooling import SpladePooling
        if "sum" in name:
            return [("1_SpladePooling", SpladePooling("sum", "log1p_relu"))]
        return [("1_SpladePooling", SpladePooling("max"))]
    if not name.startswith(("dense", "colbert")):
        return []
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.base.modules.normalize import Normalize
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling
    if name.startswith("dense"):
        return [("1_Pooling", Pooling(width, "mean")), ("2_Dense", Dense(width, 64)),
                ("3_Dense", Dense(64, 24, bias=False, activation_function=torch.nn.Identity())), ("4_Normalize", Normalize())]
    return [("1_Dense", Dense(width, 24, bias=False, activation_function=torch.nn.Identity(),
                              module_input_name="token_embeddings"))]


def main():
    out, *chosen = sys.argv[1:]
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    shape = dict(hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=WIDE, num_hidden_layers=LAYERS,
                 vocab_size=WORDS, max_position_embeddings=26)
    # A second shape, with texts longer than a tile of the kernels and than the windows.
    other = dict(hidden_size=64, num_attention_heads=4, intermediate_size=96, num_hidden_layers=3, vocab_size=50,
                 max_position_embeddings=310)
    modern = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    deberta = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
                   position_biased_input=False)
    distil = dict(dim=WIDTH, n_heads=HEADS, hidden_dim=WIDE, n_layers=LAYERS, vocab_size=WORDS,
                  max_position_embeddings=26)
    families = {
        "bert": ("BertModel", shape),
        "bert classifier": ("BertForSequenceClassification", dict(**shape, num_labels=3)),
        "roberta": ("RobertaModel", dict(**shape, type_vocab_size=1)),
        "roberta classifier": ("RobertaForSequenceClassification", dict(**shape, type_vocab_size=1, num_labels=1)),
        "xlm-roberta classifier": ("XLMRobertaForSequenceClassification", dict(**shape, type_vocab_size=1, num_labels=2)),
        "nomic": ("NomicBertModel", shape),
        "nomic, larger": ("NomicBertModel", dict(**other, type_vocab_size=1)),
        "modernbert": ("ModernBertModel", dict(**shape, **modern, local_attention=8)),
        "modernbert, larger": ("ModernBertModel", dict(
            **{**other, "num_hidden_layers": 4}, **modern, local_attention=48, global_attn_every_n_layers=2,
            attention_bias=True, mlp_bias=True, norm_bias=True)),
        "modernbert, layer types, larger": ("ModernBertModel", dict(
            **other, **modern, local_attention=22, layer_types=["sliding_attention", "full_attention", "full_attention"],
            rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}})),
        "modernbert classifier": ("ModernBertForSequenceClassification", dict(
            **shape, **modern, local_attention=8, num_labels=1, classifier_pooling="mean")),
        "modernbert classifier, larger": ("ModernBertForSequenceClassification", dict(
            **other, **modern, num_labels=3, classifier_bias=True, classifier_activation="tanh")),
        "mpnet": ("MPNetModel", shape),
        "mpnet, larger": ("MPNetModel", other),
        "mpnet classifier": ("MPNetForSequenceClassification", dict(**shape, num_labels=1)),
        "distilbert": ("DistilBertModel", distil),
        "distilbert, larger": ("DistilBertModel", dict(
            dim=64, n_heads=2, hidden_dim=160, n_layers=3, vocab_size=50, max_position_embeddings=310)),
        "distilbert classifier": ("DistilBertForSequenceClassification", dict(**distil, num_labels=2)),
        "gte": ("GteModel", shape),
        "gte, larger": ("GteModel", dict(**other, type_vocab_size=2)),
        "gte classifier": ("GteForSequenceClassification", dict(**shape, num_labels=1)),
        "jina v2": ("JinaBertModel", dict(**shape, position_embedding_type="alibi", feed_forward_type="geglu")),
        "jina v2, larger": ("JinaBertModel", dict(
            **{**other, "num_attention_heads": 3, "hidden_size": 96}, position_embedding_type="alibi",
            feed_forward_type="geglu")),
        "jina v3": ("JinaEmbeddingsV3Model", shape),
        "deberta-v2": ("DebertaV2Model", dict(**shape, **deberta, position_buckets=8)),
        "deberta-v2, positions and types, larger": ("DebertaV2Model", dict(
            **other, relative_attention=True, pos_att_type="c2p|p2c", position_buckets=32, max_relative_positions=128,
            type_vocab_size=2)),
        "deberta-v2, keys alone, larger": ("DebertaV2Model", dict(
            **{**other, "num_attention_heads": 2}, relative_attention=True, pos_att_type=["c2p"], max_relative_positions=90,
            position_biased_input=False, norm_rel_ebd="layer_norm")),
        "deberta-v2 classifier": ("DebertaV2ForSequenceClassification", dict(
            **shape, **deberta, position_buckets=8, num_labels=1)),
        "deberta-v2 classifier, larger": ("DebertaV2ForSequenceClassification", dict(
            **other, **deberta, position_buckets=64, num_labels=3, pooler_hidden_act="tanh")),
        "splade": ("BertForMaskedLM", shape),
        "splade, sum": ("DistilBertForMaskedLM", distil),
        "splade, modernbert": ("ModernBertForMaskedLM", dict(**shape, **modern, local_attention=8)),
        "splade, mpnet": ("MPNetForMaskedLM", shape),
        "dense": ("BertModel", shape),
        "colbert": ("ModernBertModel", dict(**shape, **modern, local_attention=8)),
        "jina v3, larger": ("JinaEmbeddingsV3Model", dict(**other, type_vocab_size=2)),
    }
    # Ids from 3 on: 1 is RoBERTa's padding, which its positions skip.
    def text(count, words):
        return [3 + (i * 7 + count) % (words - 3) for i in range(count)]

    kept = {}
    if chosen:
        with open(out, encoding="utf-8") as file:
            kept = {made["family"]: made for made in json.load(file)}
    for name, (class_name, settings) in families.items():
        if chosen and not any(name.startswith(begin) for begin in chosen):
            continue
        library = transformers
        if class_name.startswith("JinaBert"):
            if "JINA_BERT" not in os.environ:
                raise SystemExit(f"{name}: JINA_BERT does not name the module of the published implementation")
            library = importlib.import_module(os.environ["JINA_BERT"])
        make = getattr(library, class_name)
        config = make.config_class(**settings)
        with tempfile.TemporaryDirectory() as folder:
            make(config).save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            tensors = {key: generated(key, value.shape) if value.dtype == torch.float32 else value
                       for key, value in load_file(path).items()}
            save_file(tensors, path, metadata={"format": "pt"})
            model = make.from_pretrained(folder, attn_implementation="eager").float().eval()
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config_text = json.load(file)
        modules = modules_of(name, config_text.get("hidden_size", config_text.get("dim")))
        for place, module in modules:
            state = {key: generated(f"{place}/{key}", value.shape) for key, value in module.state_dict().items()}
            tensors.update({f"{place}/{key}": value for key, value in state.items()})
            module.load_state_dict(state)
            module.eval()
        runs = []
        large = "larger" in name
        for count in (150, 300) if large else (1, 7, 20):
            ids = text(count, config.vocab_size)
            inputs = {"input_ids": torch.tensor([ids])}
            typed = getattr(config, "type_vocab_size", 0) > 1
            if typed:
                inputs["token_type_ids"] = torch.tensor([[int(2 * i >= len(ids)) for i in range(len(ids))]])
            with torch.no_grad():
                result = model(**inputs, output_hidden_states=True)
            hidden = result.hidden_states[-1][0] if "logits" in result else result.last_hidden_state[0]
            if modules:
                features = {"attention_mask": torch.ones(1, count, dtype=torch.int64),
                            "token_embeddings": result.logits if "logits" in result else result.last_hidden_state}
                for _, module in modules:
                    features = module(features)
                runs.append({"ids": ids, "typed": typed, "hidden": [], "logits": []})
                vector = features["token_embeddings" if name == "colbert" else "sentence_embedding"]
                runs[-1]["vector"] = [round(v, 7) for v in vector.flatten().tolist()]
                continue
            if "logits" in result and "modernbert" in name:  # whose last hidden state comes before the last norm
                hidden = hidden[:0]
            run = {"ids": ids, "typed": typed}
            rows = range(len(hidden))
            if large and len(hidden) > 0:
                run["rows"] = rows = [0, count // 2 + 3, count - 1]
            run["hidden"] = [[round(v, 6 if large else 7) for v in hidden[row].tolist()] for row in rows]
            run["logits"] = [round(v, 7) for v in result.logits[0].tolist()] if "logits" in result else []
            runs.append(run)
        kept[name] = {"family": name, "config": config_text, "runs": runs,
                      "tensors": {key: list(value.shape) for key, value in tensors.items()}}
        if modules:
            kept[name]["modules"] = [{"path": place, "type": f"{type(module).__module__}.{type(module).__name__}",
                                      "config": module.get_config_dict() if hasattr(module, "get_config_dict") else {}}
                                     for place, module in modules]
        print(name, len(tensors), "tensors", sorted(tensors)[:3])
    golden = [kept[name] for name in families if name in kept]
    with open(out, "w", encoding="utf-8") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
