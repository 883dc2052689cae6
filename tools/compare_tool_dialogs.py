#!/usr/bin/env python3
"""Compares the dialogs of src/chat_template/testing/dialogs with SGLang's tool-call parsers, which are a published implementation of
most formats.

Needs no SGLang that runs: the wheel, unpacked, and `pip install orjson partial-json-parser pydantic`. What its parsers import besides is
replaced by stand-ins.

    pip download --no-deps sglang && unzip -q sglang-*.whl 'sglang/srt/function_call/*' -d /tmp/reference
    python3 tools/compare_tool_dialogs.py --sglang /tmp/reference

Prints the dialogs whose calls are read differently. docs/tools.md says why those are.
"""
import argparse
import importlib
import json
import logging
import pathlib
import sys
import types
import typing

import pydantic

PARSERS = {
    "generic": ("hermes_detector", "HermesDetector"),
    "hermes": ("qwen25_detector", "Qwen25Detector"),
    "qwen3-coder": ("qwen3_coder_detector", "Qwen3CoderDetector"),
    "llama3-json": ("llama32_detector", "Llama32Detector"),
    "llama-pythonic": ("pythonic_detector", "PythonicDetector"),
    "mistral": ("mistral_detector", "MistralDetector"),
    "mistral-args": ("mistral_detector", "MistralDetector"),
    "deepseek-v3": ("deepseekv3_detector", "DeepSeekV3Detector"),
    "deepseek-v3.1": ("deepseekv31_detector", "DeepSeekV31Detector"),
    "kimi": ("kimik2_detector", "KimiK2Detector"),
    "lfm2": ("lfm2_detector", "Lfm2Detector"),
    "glm": ("glm4_moe_detector", "Glm4MoeDetector"),
    "minimax": ("minimax_m2", "MinimaxM2Detector"),
    "command": ("cohere_command4_detector", "CohereCommand4Detector"),
    "gemma": ("gemma4_detector", "Gemma4Detector"),
    "harmony": ("gpt_oss_detector", "GptOssDetector"),
}


class Function(pydantic.BaseModel):
    name: typing.Optional[str] = None
    description: typing.Optional[str] = None
    parameters: typing.Optional[typing.Any] = None
    strict: bool = False


class Tool(pydantic.BaseModel):
    type: str = "function"
    function: Function


class Unset:
    """Stands in for a setting that is off."""

    def __getattr__(self, name):
        return Unset()

    def get(self):
        return False


def stand_in(name, path=None, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__path__ = [str(path)] if path else []
    module.__getattr__ = lambda member: type(member, (), {})
    sys.modules[name] = module


def load(root):
    stand_in("sglang", root / "sglang")
    stand_in("sglang.srt", root / "sglang/srt")
    stand_in("sglang.srt.function_call", root / "sglang/srt/function_call")
    stand_in("sglang.srt.parser", root / "sglang/srt/parser")
    stand_in("sglang.srt.utils")
    stand_in("sglang.srt.entrypoints")
    stand_in("sglang.srt.entrypoints.openai")
    stand_in("sglang.srt.entrypoints.openai.protocol", Tool=Tool, Function=Function)
    stand_in("sglang.srt.environ", envs=Unset())


def text_of(name, case):
    """The answer as the parser wants it: some need a blank that the family's newer templates leave out, or what the prompt ends with."""
    if name == "mistral":
        return case["text"].replace("[TOOL_CALLS][", "[TOOL_CALLS] [")
    return "<|start|>assistant" + case["text"] if name == "harmony" else case["text"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sglang", type=pathlib.Path, required=True)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    load(args.sglang)
    folder = pathlib.Path(__file__).resolve().parent.parent / "src/chat_template/testing/dialogs"
    tools = [Tool(function=Function(**tool)) for tool in json.loads((folder / "tools.json").read_text())]
    compared = different = 0
    for name, (module, member) in PARSERS.items():
        parse = getattr(importlib.import_module("sglang.srt.function_call." + module), member)
        for case in json.loads((folder / (name + ".json")).read_text())["cases"]:
            compared += 1
            try:
                found = parse().detect_and_parse(text_of(name, case), tools)
                calls = [{"name": call.name, "arguments": json.loads(call.parameters)} for call in found.calls]
            except Exception as error:
                calls = f"{type(error).__name__}: {error}"
            if calls == case["calls"]:
                continue
            different += 1
            print(f"{name}: {case['name']}: {json.dumps(calls, ensure_ascii=False)[:120]}")
    print(f"{compared} dialogs, {different} differ")


if __name__ == "__main__":
    main()
