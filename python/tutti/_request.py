"""Requests: from the arguments of LLM to a handle of the library."""
import json
from typing import Any, Optional

from . import errors
from ._native import encoded, ffi, lib, sized
from .sampling import SamplingParams

_CONSTRAINTS = {"json_object": 0, "json_schema": 1, "regex": 2, "choice": 3, "grammar": 4, "structural_tag": 5}
_ROLES = {"system": 0, "developer": 0, "user": 1, "assistant": 2}
_NUMBERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "min_tokens", "n")
_OPTIONAL_NUMBERS = ("max_tokens", "logprobs", "prompt_logprobs", "truncate_prompt_tokens", "max_reasoning_tokens")


def _invalid(message: str, param: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(message, "invalid_value", param)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _numbers(values: Any, param: str) -> Any:
    """Token ids: a list, an array of numpy, ..."""
    try:
        return ffi.new("int32_t[]", [int(value) for value in values])
    except (TypeError, ValueError, OverflowError):
        raise _invalid(f"{param} must hold token ids", param) from None


class Request:
    """A handle of one request. `index` is added to the seed."""

    def __init__(self, params: SamplingParams, index: int = 0):
        self.handle = ffi.gc(lib().tutti_request_new(), lib().tutti_request_free)
        self.prompt: Any = None
        self._sample(params, index)

    def _check(self, status: int, param: str, value: Any) -> None:
        if status == 8:
            raise errors.ResourceExhaustedError("out of memory", "out_of_memory")
        if status != 0:
            raise _invalid(f"{param} cannot be {value!r}", param)

    def _set(self, name: str, value: Any, param: Optional[str] = None) -> None:
        param = param or name
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            try:
                value = float(value)  # numbers of numpy
            except (TypeError, ValueError):
                raise _invalid(f"{param} must be a number, not {value!r}", param) from None
        self._check(lib().tutti_request_set(self.handle, name.encode(), value), param, value)

    def _sample(self, params: SamplingParams, index: int) -> None:
        for name in _NUMBERS:
            self._set(name, getattr(params, name))
        for name in _OPTIONAL_NUMBERS:
            value = getattr(params, name)
            if value is not None:
                self._set(name, value)
        self._set("ignore_eos", int(params.ignore_eos))
        self._set("skip_special_tokens", int(params.skip_special_tokens))
        self._set("include_stop_in_output", int(params.include_stop_str_in_output), "include_stop_str_in_output")
        if params.timeout_s is not None:
            self._set("timeout_ms", int(params.timeout_s * 1000), "timeout_s")
        if params.seed is not None:
            seed = int(params.seed) + index
            if not -2**63 <= seed < 2**63:
                raise _invalid("seed must fit 64 bits", "seed")
            lib().tutti_request_seed(self.handle, seed)
        stops = [params.stop] if isinstance(params.stop, str) else params.stop or ()
        for stop in stops:
            lib().tutti_request_stop(self.handle, encoded(stop, "stop"))
        for name, add in (("stop_token_ids", lib().tutti_request_stop_token), ("allowed_token_ids", lib().tutti_request_allow_token),
                          ("banned_token_ids", lib().tutti_request_ban_token)):
            values = getattr(params, name)
            for token in _numbers(values if values is not None else (), name):
                add(self.handle, token)
        for token, bias in (params.logit_bias or {}).items():
            lib().tutti_request_logit_bias(self.handle, int(token), float(bias))

    def use_prompt(self, prompt: Any) -> None:
        """A text, token ids, or a dict with `prompt` or `prompt_token_ids`."""
        if isinstance(prompt, dict):
            if "prompt_token_ids" in prompt:
                prompt = prompt["prompt_token_ids"]
            elif "prompt" in prompt:
                prompt = prompt["prompt"]
            else:
                raise _invalid("a prompt must have prompt or prompt_token_ids", "prompt")
        self.prompt = prompt
        if isinstance(prompt, str):
            text, held = sized(prompt, "prompt")
            self._check(lib().tutti_request_sized_text(self.handle, text), "prompt", prompt)
            del held
            return
        ids = _numbers(prompt, "prompt")
        self.prompt = list(ids)
        self._check(lib().tutti_request_tokens(self.handle, ids, len(ids)), "prompt", self.prompt)

    def use_messages(self, messages: Any, chat: dict[str, Any]) -> None:
        """Messages in OpenAI's form; `chat`: the other arguments of LLM.chat."""
        self.prompt = messages
        if not messages:
            raise _invalid("messages must not be empty", "messages")
        for index, message in enumerate(messages):
            self._add_message(message, f"messages[{index}]")
        for tool in chat.get("tools") or ():
            self._add_tool(tool)
        self._choose_tools(chat.get("tool_choice"), chat.get("parallel_tool_calls", True), bool(chat.get("tools")))
        arguments = chat.get("chat_template_kwargs")
        if arguments:
            lib().tutti_request_template_arguments(self.handle, encoded(_json(arguments), "chat_template_kwargs"))
        self._set("add_generation_prompt", int(chat.get("add_generation_prompt", True)))
        self._set("continue_final_message", int(chat.get("continue_final_message", False)))

    def _add_message(self, message: Any, param: str) -> None:
        if not isinstance(message, dict) or "role" not in message:
            raise _invalid(f"{param} must be a dict with role and content", param)
        role = message["role"]
        text = _text_of(message.get("content"), param)
        if role == "tool":
            lib().tutti_request_tool_result(self.handle, encoded(message.get("tool_call_id", ""), f"{param}.tool_call_id"),
                                            encoded(text, f"{param}.content"))
            return
        if role not in _ROLES:
            raise _invalid(f"{param}.role must be system, user, assistant or tool, not {role!r}", f"{param}.role")
        content, held = sized(text, f"{param}.content")
        self._check(lib().tutti_request_sized_message(self.handle, _ROLES[role], content), f"{param}.role", role)
        del held
        if role != "assistant":
            return
        reasoning = message.get("reasoning") or message.get("reasoning_content")
        if reasoning:
            lib().tutti_request_reasoning(self.handle, encoded(reasoning, f"{param}.reasoning"))
        for call in message.get("tool_calls") or ():
            function = call.get("function", call) if isinstance(call, dict) else vars(call)
            identity = call.get("id", "") if isinstance(call, dict) else call.id
            lib().tutti_request_tool_call(self.handle, encoded(identity, f"{param}.tool_calls"),
                                          encoded(function["name"], f"{param}.tool_calls"),
                                          encoded(_json(function.get("arguments", {})), f"{param}.tool_calls"))

    def _add_tool(self, tool: Any) -> None:
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if function is None or not isinstance(function.get("name"), str):
            raise _invalid("a tool must be a dict of a function with a name", "tools")
        description, parameters = function.get("description"), function.get("parameters")
        lib().tutti_request_tool(self.handle, encoded(function["name"], "tools"),
                                 ffi.NULL if description is None else encoded(description, "tools"),
                                 ffi.NULL if parameters is None else encoded(_json(parameters), "tools"), int(bool(function.get("strict"))))

    def _choose_tools(self, choice: Any, parallel: bool, has_tools: bool) -> None:
        if choice is None and parallel and not has_tools:
            return
        name = ffi.NULL
        if isinstance(choice, dict):
            name = encoded(choice.get("function", choice).get("name"), "tool_choice")
            kind = 3
        else:
            kinds = {None: 0, "auto": 0, "none": 1, "required": 2}
            if choice not in kinds:
                raise _invalid(f"tool_choice must be auto, none, required or a function, not {choice!r}", "tool_choice")
            kind = kinds[choice]
        self._check(lib().tutti_request_tool_choice(self.handle, kind, name, int(parallel)), "tool_choice", choice)

    def constrain(self, constraints: dict[str, Any]) -> None:
        """At most one of json_object, json_schema, regex, choice, grammar and structural_tag."""
        given = {name: value for name, value in constraints.items() if value is not None and value is not False}
        if len(given) > 1:
            raise _invalid(f"only one of {' and '.join(given)} can be kept", next(iter(given)))
        for name, value in given.items():
            if name == "json_schema" and hasattr(value, "model_json_schema"):  # a model of pydantic
                value = value.model_json_schema()
            texts = [""] if name == "json_object" else value if name == "choice" else [value]
            if name == "choice" and (isinstance(texts, str) or not texts):
                raise _invalid("choice must be a list of strings", "choice")
            for text in texts:
                text = _json(text) if name in ("json_schema", "structural_tag") else text
                self._check(lib().tutti_request_constrain(self.handle, _CONSTRAINTS[name], encoded(text, name)), name, value)


def _text_of(content: Any, param: str) -> str:
    """The text of a message's content: a string, or a list of parts of text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, (list, tuple)) else [content]:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise _invalid(f"{param}.content must be a string or parts of text", f"{param}.content")
        texts.append(part["text"])
    return "".join(texts)
