"""LLM: a language model in this process."""
import asyncio
import collections
import time
from typing import Any, Iterable, Optional, Sequence, Union

from . import errors
from ._loading import Progress, open_model
from ._native import Error, decoded, encoded, ffi, lib
from ._request import Request
from ._stream import Stream
from .outputs import RequestOutput
from .sampling import SamplingParams

Prompt = Union[str, Sequence[int], dict[str, Any]]
Messages = Sequence[dict[str, Any]]

_AT_ONCE = 128  # requests of one call that are under way; the model's queue holds 256 by default


class LLM:
    """A language model, shared by all threads of the process.

        llm = LLM("smollm2-135m-instruct")
        for out in llm.generate(["The river", "A king"], SamplingParams(max_tokens=32, seed=1)):
            print(out.text)

    Requests of all threads are computed together; no answer depends on another one. Any thread may use it. close(), the end of a `with` and
    the last reference free its memory when no request runs.
    """

    def __init__(self, model: str = "smollm2-135m-instruct", *, threads: Optional[int] = None, max_num_seqs: Optional[int] = None,
                 kv_cache_bytes: Union[int, str, None] = None, max_model_len: Optional[int] = None, dtype: Optional[str] = None,
                 progress: Progress = True, **options: Any):
        """Loads the model, which takes seconds; one that is not here is fetched first.

        Args:
            model: a known model ("smollm2-135m-instruct"), a GGUF file, a folder, or ORG/NAME of a hub.
            threads: that compute; None: the processors that this process may use.
            max_num_seqs: sequences in one forward pass; None: 8.
            kv_cache_bytes: of all sequences together, such as "2GiB"; None: 1 GiB.
            max_model_len: tokens of a sequence, prompt and answer; None: the model's, at most 8192.
            dtype: of the weights in memory; None: chosen for the model and the processor.
            progress: shows a long load at a terminal; or a function of the bytes that are packed and their total.
            options: any model option of the program, with underscores: prefill_chunk=512. See `tutti run --help`.

        Raises:
            NotFoundError, InvalidArgumentError and others of TuttiError.
        """
        self.model = model
        given = {"threads": threads, "max_num_seqs": max_num_seqs, "kv_cache_bytes": kv_cache_bytes, "context": max_model_len,
                 "dtype": dtype, **options}
        self._model = open_model("model", model, progress, given)

    @property
    def max_model_len(self) -> int:
        """Tokens of a sequence, prompt and answer."""
        return lib().tutti_model_context(self._model.get())

    @property
    def vocab_size(self) -> int:
        return lib().tutti_model_vocabulary(self._model.get())

    # --- answers ---

    def generate(self, prompts: Union[Prompt, Sequence[Prompt]], sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
                 *, json_object: bool = False, json_schema: Any = None, regex: Optional[str] = None, choice: Optional[Sequence[str]] = None,
                 grammar: Optional[str] = None, structural_tag: Any = None) -> list[RequestOutput]:
        """Continues texts, or lists of token ids. Returns an answer for each prompt, in their order.

        Blocks until all have ended; the GIL is released. `sampling_params`: for all prompts, or one for each. The constraint, at most one:
        `json_schema` (a dict, a text or a model of pydantic), `regex`, `choice`, `grammar` (GBNF), `json_object`, `structural_tag`.
        """
        constraints = _constraints(json_object, json_schema, regex, choice, grammar, structural_tag)
        each: list[Any] = [prompts] if isinstance(prompts, (str, dict)) or _are_ids(prompts) else list(prompts)
        return self._run([self._request(params, index, constraints, prompt=prompt)
                          for prompt, (params, index) in zip(each, _each(sampling_params, len(each)))])

    def chat(self, messages: Union[Messages, Sequence[Messages]], sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
             *, tools: Optional[Sequence[dict]] = None, tool_choice: Union[str, dict, None] = None, parallel_tool_calls: bool = True,
             chat_template_kwargs: Optional[dict] = None, add_generation_prompt: bool = True, continue_final_message: bool = False,
             json_object: bool = False, json_schema: Any = None, regex: Optional[str] = None, choice: Optional[Sequence[str]] = None,
             grammar: Optional[str] = None, structural_tag: Any = None) -> list[RequestOutput]:
        """Answers a conversation, or several, in OpenAI's form of messages. Arguments and answers as of generate()."""
        constraints = _constraints(json_object, json_schema, regex, choice, grammar, structural_tag)
        chat = _chat(tools, tool_choice, parallel_tool_calls, chat_template_kwargs, add_generation_prompt, continue_final_message)
        given: list[Any] = list(messages)
        conversations = [given] if not given or isinstance(given[0], dict) else given
        return self._run([self._request(params, index, constraints, messages=each, chat=chat)
                          for each, (params, index) in zip(conversations, _each(sampling_params, len(conversations)))])

    def stream(self, prompt: Union[Prompt, Messages], sampling_params: Optional[SamplingParams] = None, *,
               tools: Optional[Sequence[dict]] = None, tool_choice: Union[str, dict, None] = None, parallel_tool_calls: bool = True,
               chat_template_kwargs: Optional[dict] = None, add_generation_prompt: bool = True, continue_final_message: bool = False,
               json_object: bool = False, json_schema: Any = None, regex: Optional[str] = None, choice: Optional[Sequence[str]] = None,
               grammar: Optional[str] = None, structural_tag: Any = None) -> Stream:
        """The pieces of one answer as they are generated, for `for` or `async for`. `prompt`: a text, token ids, or messages.

            async for piece in llm.stream("Once"): print(piece.text, end="")
        """
        constraints = _constraints(json_object, json_schema, regex, choice, grammar, structural_tag)
        params = sampling_params or SamplingParams()
        if _are_messages(prompt):
            chat = _chat(tools, tool_choice, parallel_tool_calls, chat_template_kwargs, add_generation_prompt, continue_final_message)
            request = self._request(params, 0, constraints, messages=prompt, chat=chat)
        else:
            request = self._request(params, 0, constraints, prompt=prompt)
        return Stream(self._model, request, request.prompt)

    async def generate_async(self, *arguments: Any, **named: Any) -> list[RequestOutput]:
        """generate() for asyncio. Cancelling the task lets the requests end by themselves."""
        return await asyncio.to_thread(self.generate, *arguments, **named)

    async def chat_async(self, *arguments: Any, **named: Any) -> list[RequestOutput]:
        """chat() for asyncio."""
        return await asyncio.to_thread(self.chat, *arguments, **named)

    # --- tokens ---

    def tokenize(self, text: str) -> list[int]:
        """The token ids of a text, with the beginning of text where the model has one. Special tokens in the text are taken as such."""
        data, count, error = encoded(text, "text"), ffi.new("size_t*"), Error()
        capacity = len(data) + 16
        while True:
            ids = ffi.new("int32_t[]", capacity)
            error.check(lib().tutti_tokenize(self._model.get(), data, ids, capacity, count, error.out))
            if count[0] <= capacity:
                return list(ids[0:count[0]])
            capacity = count[0]

    def detokenize(self, token_ids: Iterable[int]) -> str:
        """The text of token ids, special tokens spelled out."""
        ids, text, error = ffi.new("int32_t[]", list(token_ids)), ffi.new("char**"), Error()
        error.check(lib().tutti_detokenize(self._model.get(), ids, len(ids), text, error.out))
        return decoded(ffi.gc(text[0], lib().tutti_string_free))

    def render(self, messages: Messages, **chat: Any) -> str:
        """A conversation as the model's chat template writes it. `chat`: tools and the like, as of chat()."""
        request = self._request(SamplingParams(), 0, {}, messages=messages, chat=chat)
        text, error = ffi.new("char**"), Error()
        error.check(lib().tutti_render(self._model.get(), request.handle, text, error.out))
        return decoded(ffi.gc(text[0], lib().tutti_string_free))

    # --- life ---

    def close(self) -> None:
        """Frees the model when the last running request has ended."""
        self._model.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LLM({self.model!r})"

    def _request(self, params: SamplingParams, index: int, constraints: dict, prompt: Any = None, messages: Any = None,
                 chat: Optional[dict] = None) -> Request:
        request = Request(params, index)
        if messages is not None:
            request.use_messages(messages, chat or {})
        else:
            request.use_prompt(prompt)
        request.constrain(constraints)
        return request

    def _run(self, requests: list[Request]) -> list[RequestOutput]:
        """Answers in the order of the requests. An error ends those that are under way."""
        results: list[RequestOutput] = []
        running: collections.deque[Stream] = collections.deque()
        try:
            for request in requests:
                while True:
                    if len(running) >= _AT_ONCE:
                        results.append(running.popleft().result())
                    try:
                        running.append(Stream(self._model, request, request.prompt))
                        break
                    except errors.TuttiError as error:
                        if error.code != "queue_full":
                            raise
                        if running:
                            results.append(running.popleft().result())
                        else:
                            time.sleep(0.005)  # other threads have filled the queue
            while running:
                results.append(running[0].result())
                running.popleft()
            return results
        finally:
            for stream in running:
                stream.cancel()


def _constraints(json_object, json_schema, regex, choice, grammar, structural_tag) -> dict:
    return {"json_object": json_object, "json_schema": json_schema, "regex": regex, "choice": choice, "grammar": grammar,
            "structural_tag": structural_tag}


def _chat(tools, tool_choice, parallel_tool_calls, chat_template_kwargs, add_generation_prompt, continue_final_message) -> dict:
    return {"tools": tools, "tool_choice": tool_choice, "parallel_tool_calls": parallel_tool_calls,
            "chat_template_kwargs": chat_template_kwargs, "add_generation_prompt": add_generation_prompt and not continue_final_message,
            "continue_final_message": continue_final_message}


def _are_messages(prompt: Any) -> bool:
    return isinstance(prompt, (list, tuple)) and bool(prompt) and isinstance(prompt[0], dict)


def _are_ids(prompts: Any) -> bool:
    """One prompt of token ids, and not several prompts."""
    try:
        return len(prompts) > 0 and not isinstance(prompts[0], (str, dict)) and not hasattr(prompts[0], "__len__")
    except (TypeError, KeyError, IndexError):
        return False


def _each(params: Union[SamplingParams, Sequence[SamplingParams], None], count: int) -> list[tuple[SamplingParams, int]]:
    """The parameters of each prompt, and what is added to their seed: of one for all, the prompt's place; of several, nothing."""
    if params is None:
        params = SamplingParams()
    if isinstance(params, SamplingParams):
        return [(params, index) for index in range(count)]
    params = list(params)
    if len(params) != count:
        raise errors.InvalidArgumentError(f"there are {count} prompts and {len(params)} sampling_params", "invalid_value", "sampling_params")
    return [(each, 0) for each in params]
