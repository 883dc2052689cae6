#!/usr/bin/env python3
"""One measurement of OpenVINO GenAI on a GGUF file, as JSON on standard output. Run by bench_peers.py.

Decode of B prompts: B * new / (time of new + 1 tokens - time of 1 token), so that loading the prompts is not in it.
Prefill: prompt tokens / time of 1 token. Every point is warmed up once and measured --repeat times; the best counts.
"""
import argparse
import json
import random
import sys
import time

import openvino_genai

# Words that are one token each behind a space in byte-level vocabularies; checked below.
WORDS = ("the and for with from this that have which when people time year work life world day part number state "
         "city group water light house story river small large early young local public first second between under").split()


def make_prompt(tokenizer, tokens, seed):
    """A text of exactly `tokens` tokens, and a different one for each seed."""
    rng = random.Random(seed)
    words = []
    while True:
        count = tokenizer.encode(" " + " ".join(words) if words else "").input_ids.shape[1] if words else 0
        if count == tokens:
            return " " + " ".join(words)
        if count > tokens:
            words.pop()
            continue
        words += [rng.choice(WORDS) for _ in range(max(1, (tokens - count) // 2))]


def seconds(pipe, prompts, new_tokens):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = new_tokens
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    start = time.perf_counter()
    pipe.generate(prompts, config)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--gen", type=int, default=64)
    parser.add_argument("--points", default="512x0,128x1", help="prompt tokens x streams; 0 streams: prefill")
    args = parser.parse_args()

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    scheduler.cache_size = 1
    scheduler.max_num_batched_tokens = 2048
    scheduler.max_num_seqs = 64
    pipe = openvino_genai.LLMPipeline(args.model, "CPU", scheduler_config=scheduler,
                                      INFERENCE_NUM_THREADS=args.threads)
    tokenizer = pipe.get_tokenizer()

    out = {}
    for point in args.points.split(","):
        length, batch = map(int, point.split("x"))
        prompts = [make_prompt(tokenizer, length, 100 + i) for i in range(max(batch, 1))]
        seconds(pipe, prompts, 1)
        best = 0
        for _ in range(args.repeat):
            first = min(seconds(pipe, prompts, 1) for _ in range(2))
            if batch == 0:
                best = max(best, length / first)
            else:
                best = max(best, args.gen * batch / (seconds(pipe, prompts, args.gen + 1) - first))
        out[point] = best
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
