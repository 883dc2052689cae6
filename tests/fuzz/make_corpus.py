#!/usr/bin/env python3
"""Writes the generated part of the start corpora: one file per line of the catalogues in seeds_*.py.

Files are named after their contents, so running it again changes nothing. Findings are added to the same folders by hand.
"""
import pathlib

from seeds_files import decoder_configs, encoder_configs, gguf_tokenizers, ggufs, loras, packed, prefix_files, quantized, safetensors
from seeds_protocols import (anthropic, dialogs, encodings, http, jsons, kserve, model_calls, mqtt, mqtt_sessions, mqtts, ollamas, requests,
                             websockets)
from seeds_texts import constraint_regexes, gbnfs, huggingface, json_schemas, regexes, templates, texts, tokenizer_specs, tool_calls

HERE = pathlib.Path(__file__).resolve().parent


def write(target, files):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def main():
    write("template", templates())
    write("tokenizer", texts())
    write("tokenizer_spec", tokenizer_specs())
    write("huggingface", huggingface())
    write("regex", regexes())
    write("json_schema", json_schemas())
    write("regex_constraint", constraint_regexes())
    write("tool_calls", tool_calls())
    write("gbnf", gbnfs())
    write("gguf", ggufs())
    write("gguf_tokenizer", gguf_tokenizers())
    write("decoder_config", decoder_configs())
    write("encoder_config", encoder_configs())
    write("packed", packed())
    write("prefix_file", prefix_files())
    write("quantized", quantized())
    write("lora", loras())
    write("safetensors", safetensors())
    write("json", jsons())
    write("openai_request", requests())
    write("anthropic_request", anthropic())
    write("ollama_request", ollamas())
    write("model_call", model_calls())
    write("encoding_request", encodings())
    write("dialog_request", dialogs())
    write("mqtt_payload", mqtt())
    write("http_framing", http())
    write("websocket", websockets())
    write("kserve_request", kserve())
    write("mqtt", mqtts())
    write("mqtt_session", mqtt_sessions())


if __name__ == "__main__":
    main()
