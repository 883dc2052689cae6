"""Answers: from a handle of the library to values."""
import math
from typing import Any, Optional

from ._native import decoded, ffi, lib
from .outputs import CompletionOutput, Logprob, RequestOutput, ToolCall

_FINISH = {0: "stop", 1: "length", 2: "cancelled", 3: "tool_calls"}
_MAX_ENTRIES = 24  # the token's own and 20 more


def _positions(completion: Any, choice: int) -> list[tuple[int, dict[int, Logprob]]]:
    """Each position's entries by token; a list of (id, those entries)."""
    entries = ffi.new("tutti_logprob[]", _MAX_ENTRIES)
    count = ffi.new("size_t*")
    found: list[tuple[int, dict[int, Logprob]]] = []
    while lib().tutti_completion_logprobs(completion, choice, len(found), entries, _MAX_ENTRIES, count) == 0:
        position = {}
        for rank in range(1, count[0]):
            entry = entries[rank]
            position[entry.id] = _entry(entry, rank)
        if entries[0].id not in position:
            position[entries[0].id] = _entry(entries[0], None)
        found.append((entries[0].id, position))
    return found


def _entry(entry: Any, rank: Optional[int]) -> Logprob:
    return Logprob(entry.id, entry.logprob, bytes(ffi.buffer(entry.bytes, entry.byte_count)).decode(errors="replace"), rank)


def _choice(completion: Any, index: int) -> CompletionOutput:
    count = ffi.new("size_t*")
    tokens = lib().tutti_completion_tokens(completion, index, count)
    positions = _positions(completion, index)
    stop_text = lib().tutti_completion_stop_text(completion, index)
    stop_token = lib().tutti_completion_stop_token(completion, index)
    calls = []
    call = ffi.new("tutti_tool_call*")
    for number in range(lib().tutti_completion_tool_calls(completion, index)):
        lib().tutti_completion_tool_call(completion, index, number, call)
        calls.append(ToolCall(decoded(call.id), decoded(call.name), decoded(call.arguments)))
    return CompletionOutput(
        index=index, text=decoded(lib().tutti_completion_text(completion, index)), token_ids=list(tokens[0:count[0]]) if count[0] else [],
        finish_reason=_FINISH[lib().tutti_completion_finish(completion, index)],
        stop_reason=decoded(stop_text) if stop_text != ffi.NULL else stop_token if stop_token >= 0 else None,
        logprobs=[position for _, position in positions] if positions else None,
        cumulative_logprob=math.fsum(position[token].logprob for token, position in positions) if positions else None,
        reasoning=decoded(lib().tutti_completion_reasoning(completion, index)), tool_calls=calls)


def read(completion: Any, prompt: Any) -> RequestOutput:
    scored = [position for _, position in _positions(completion, -1)]
    return RequestOutput(
        prompt=prompt, outputs=[_choice(completion, index) for index in range(lib().tutti_completion_choices(completion))],
        prompt_tokens=lib().tutti_completion_prompt_tokens(completion),
        completion_tokens=lib().tutti_completion_completion_tokens(completion),
        num_cached_tokens=lib().tutti_completion_cached_tokens(completion),
        prompt_logprobs=[None, *scored[1:]] if scored else None)
