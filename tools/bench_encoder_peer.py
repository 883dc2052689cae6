#!/usr/bin/env python3
"""One measurement of a peer on an encoder's folder, as JSON on standard output. Run by bench_encoder_peers.py.

    bench_encoder_peer.py PEER MODEL_FOLDER WORK_FOLDER --threads 2 --seconds 2 --cases 16x1,16x32
    bench_encoder_peer.py make-modernbert MINILM_FOLDER NEW_FOLDER

PEER: torch (sentence-transformers), onnx-f32, onnx-int8 (dynamic: weights per channel), openvino-f32, openvino.
A case TOKENSxBATCH is timed for --seconds after a warm-up; texts a second. torch tokenises its texts, as a caller of
sentence-transformers does; the others are given ids, and no pooling is asked of them.

make-modernbert writes a model with the shape of ModernBERT base, generated weights and the tokenizer and pooling of MiniLM.
"""
import argparse
import json
import pathlib
import shutil
import sys
import time

import numpy

WORDS = ("the and for with from this that have which when people time year work life world day part number state "
         "city group water light house story river small large early young local public first second between under").split()


def ids(tokens, batch, rng):
    """Input ids of `batch` texts with special tokens, all ones for a mask, no padding anywhere."""
    body = rng.integers(1996, 29000, size=(batch, tokens - 2))
    edge = numpy.ones((batch, 1), dtype=numpy.int64)
    return {"input_ids": numpy.concatenate([edge * 101, body, edge * 102], axis=1).astype(numpy.int64),
            "attention_mask": numpy.ones((batch, tokens), dtype=numpy.int64),
            "token_type_ids": numpy.zeros((batch, tokens), dtype=numpy.int64)}


def write_modernbert(minilm, folder):
    """ModernBERT base (149 million weights) but for its vocabulary, which is that of MiniLM."""
    import torch
    from transformers import AutoModel, ModernBertConfig
    tokens = json.loads((minilm / "config.json").read_text())["vocab_size"]
    config = ModernBertConfig(vocab_size=tokens, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12,
                              max_position_embeddings=8192, local_attention=128, global_attn_every_n_layers=3, pad_token_id=0,
                              bos_token_id=101, cls_token_id=101, eos_token_id=102, sep_token_id=102, reference_compile=False)
    torch.manual_seed(1)
    folder.mkdir(parents=True)
    AutoModel.from_config(config).save_pretrained(folder)
    for name in ("modules.json", "sentence_bert_config.json", "tokenizer.json"):
        shutil.copy(minilm / name, folder / name)
    tokenizer = json.loads((minilm / "tokenizer_config.json").read_text())
    tokenizer.update(tokenizer_class="PreTrainedTokenizerFast", model_input_names=["input_ids", "attention_mask"])
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    pooling = json.loads((minilm / "1_Pooling" / "config.json").read_text())
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({**pooling, "word_embedding_dimension": config.hidden_size}))


def bare_model(folder):
    import torch
    from transformers import AutoModel

    class Bare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
            self.typed = hasattr(self.model.config, "type_vocab_size")

        def forward(self, input_ids, attention_mask, token_type_ids):
            types = {"token_type_ids": token_type_ids} if self.typed else {}
            return self.model(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state

    return Bare().eval()


def export(folder, work):
    """The model as ONNX, float32 and dynamically quantised; made once."""
    plain, int8 = work / "model.onnx", work / "model-int8.onnx"
    if not plain.exists():
        import torch
        inputs = {name: torch.from_numpy(value) for name, value in ids(16, 2, numpy.random.default_rng(0)).items()}
        axes = {name: {0: "batch", 1: "tokens"} for name in [*inputs, "last_hidden_state"]}
        torch.onnx.export(bare_model(folder), (inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"]),
                          str(plain), input_names=list(inputs), output_names=["last_hidden_state"], dynamic_axes=axes,
                          opset_version=17, dynamo=False)
    if not int8.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(str(plain), str(int8), weight_type=QuantType.QInt8, per_channel=True)
    return {"onnx-f32": plain, "onnx-int8": int8}


def torch_peer(folder, threads):
    import torch
    from sentence_transformers import SentenceTransformer
    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder), device="cpu")

    def forward(tokens, batch, rng):
        texts = [" ".join(rng.choice(WORDS, tokens - 2)) for _ in range(batch)]
        return lambda: model.encode(texts, batch_size=batch, show_progress_bar=False)
    return forward


def onnx_peer(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    used = {node.name for node in session.get_inputs()}

    def forward(tokens, batch, rng):
        inputs = {name: value for name, value in ids(tokens, batch, rng).items() if name in used}
        return lambda: session.run(None, inputs)
    return forward


def openvino_peer(folder, threads, precision):
    import openvino
    import torch
    inputs = {name: torch.from_numpy(value) for name, value in ids(16, 2, numpy.random.default_rng(0)).items()}
    model = openvino.convert_model(bare_model(folder), example_input=inputs)
    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    if precision:
        config["INFERENCE_PRECISION_HINT"] = precision
    request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()

    def forward(tokens, batch, rng):
        arrays = ids(tokens, batch, rng)
        return lambda: request.infer(arrays)
    return forward


def rate(call, batch, seconds):
    for _ in range(3):
        call()
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        call()
        calls += 1
    return calls * batch / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["torch", "onnx-f32", "onnx-int8", "openvino-f32", "openvino", "make-modernbert"])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cases", default="16x1,16x32,128x1,128x32")
    args = parser.parse_args()
    if args.peer == "make-modernbert":
        write_modernbert(args.model, args.work)
        return
    if args.peer == "torch":
        peer = torch_peer(args.model, args.threads)
    elif args.peer.startswith("onnx"):
        peer = onnx_peer(export(args.model, args.work)[args.peer], args.threads)
    else:
        peer = openvino_peer(args.model, args.threads, "f32" if args.peer == "openvino-f32" else "")
    out = {}
    for case in args.cases.split(","):
        tokens, batch = map(int, case.split("x"))
        out[case] = rate(peer(tokens, batch, numpy.random.default_rng(1)), batch, args.seconds)
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
