"""LLM: a language model in this process."""
import asyncio
import collections
import time
from typing import Any, Iterable, Literal, Optional, Sequence, Union

from . import errors
from ._loading import Count, Progress, open_model
from ._native import Error, Handle, decoded, encoded, ffi, lib
from ._request import Request
from ._stream import Stream
from .encoder import Encoder
from .outputs import (ClassificationOutput, ClassificationRequestOutput, EmbeddingOutput, EmbeddingRequestOutput, RequestOutput,
                      ScoringOutput, ScoringRequestOutput)
from .sampling import PoolingParams, SamplingParams

Prompt = Union[str, Sequence[int], dict[str, Any]]
Messages = Sequence[dict[str, Any]]
Runner = Literal["auto", "generate", "pooling"]

_AT_ONCE = 128  # requests of one call that are under way; the model's queue holds 256 by default


class LLM:
    """A language model, shared by all threads of the process.

        llm = LLM("smollm2-135m-instruct")
        for out in llm.generate(["The river", "A king"], SamplingParams(max_tokens=32, seed=1)):
            print(out.text)

    Requests of all threads are computed together; no answer depends on another one. Any thread may use it. close(), the end of a `with` and
    the last reference free its memory when no request runs.
    """

    def __init__(self, model: str = "smollm2-135m-instruct", *, runner: Runner = "auto", threads: Optional[int] = None,
                 max_num_seqs: Optional[int] = None, kv_cache_bytes: Union[int, str, None] = None, max_model_len: Optional[int] = None,
                 dtype: Optional[str] = None, progress: Progress = True, **options: Any):
        """Loads the model, which takes seconds; one that is not here is fetched first.

        Args:
            model: a known model ("smollm2-135m-instruct"), a GGUF file, a folder, or ORG/NAME of a hub.
            runner: "generate": for generate(), chat() and stream(); "pooling": for embed(), score() and classify(); "auto": the first, or the
                second for a model that generates no text.
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
        if runner not in ("auto", "generate", "pooling"):
            raise errors.InvalidArgumentError(f"runner must be auto, generate or pooling, not {runner!r}", "invalid_value", "runner")
        self._model: Optional[Handle] = None
        self._encoder: Optional[Encoder] = None
        if runner != "pooling":
            self._model = open_model("model", model, progress, given)
            if _generates(self._model):
                return
            self._model.close()
            self._model = None
            if runner == "generate":
                raise errors.FailedPreconditionError(f"{model} generates no text: load it with runner=\"pooling\"", "wrong_runner", "runner")
        self._encoder = Encoder(model, progress=progress, **given)

    @property
    def runner(self) -> str:
        """"generate" or "pooling"."""
        return "generate" if self._encoder is None else "pooling"

    @property
    def max_model_len(self) -> int:
        """Tokens of a sequence, prompt and answer."""
        if self._encoder is not None:
            return self._encoder.max_seq_length
        return int(lib().tutti_model_context(self._generator().get()))

    @property
    def vocab_size(self) -> int:
        return int(lib().tutti_model_vocabulary(self._generator().get()))

    @property
    def labels(self) -> list[str]:
        """Of classify()."""
        return self._pooler().labels

    # --- answers ---

    def generate(self, prompts: Union[Prompt, Sequence[Prompt]], sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
                 *, use_tqdm: bool = False, json_object: bool = False, json_schema: Any = None, regex: Optional[str] = None,
                 choice: Optional[Sequence[str]] = None, grammar: Optional[str] = None,
                 structural_tag: Any = None) -> list[RequestOutput]:
        """Continues texts, or lists of token ids. Returns an answer for each prompt, in their order.

        Blocks until all have ended; the GIL is released. `sampling_params`: for all prompts, or one for each. The constraint, at most one:
        `json_schema` (a dict, a text or a model of pydantic), `regex`, `choice`, `grammar` (GBNF), `json_object`, `structural_tag`.
        `use_tqdm`: counts answers at standard error.
        """
        constraints = _constraints(json_object, json_schema, regex, choice, grammar, structural_tag)
        each: list[Any] = [prompts] if isinstance(prompts, (str, dict)) or _are_ids(prompts) else list(prompts)
        return self._run([self._request(params, index, constraints, prompt=prompt)
                          for prompt, (params, index) in zip(each, _each(sampling_params, len(each)))], use_tqdm)

    def chat(self, messages: Union[Messages, Sequence[Messages]], sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
             *, use_tqdm: bool = False, tools: Optional[Sequence[dict[str, Any]]] = None, tool_choice: Union[str, dict[str, Any], None] = None,
             parallel_tool_calls: bool = True, chat_template_kwargs: Optional[dict[str, Any]] = None, add_generation_prompt: bool = True,
             continue_final_message: bool = False,
             json_object: bool = False, json_schema: Any = None, regex: Optional[str] = None, choice: Optional[Sequence[str]] = None,
             grammar: Optional[str] = None, structural_tag: Any = None) -> list[RequestOutput]:
        """Answers a conversation, or several, in OpenAI's form of messages. Arguments and answers as of generate()."""
        constraints = _constraints(json_object, json_schema, regex, choice, grammar, structural_tag)
        chat = _chat(tools, tool_choice, parallel_tool_calls, chat_template_kwargs, add_generation_prompt, continue_final_message)
        given: list[Any] = list(messages)
        conversations = [given] if not given or isinstance(given[0], dict) else given
        return self._run([self._request(params, index, constraints, messages=each, chat=chat)
                          for each, (params, index) in zip(conversations, _each(sampling_params, len(conversations)))], use_tqdm)

    def stream(self, prompt: Union[Prompt, Messages], sampling_params: Optional[SamplingParams] = None, *,
               tools: Optional[Sequence[dict[str, Any]]] = None, tool_choice: Union[str, dict[str, Any], None] = None,
               parallel_tool_calls: bool = True, chat_template_kwargs: Optional[dict[str, Any]] = None, add_generation_prompt: bool = True,
               continue_final_message: bool = False,
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
        return Stream(self._generator(), request, request.prompt)

    async def generate_async(self, *arguments: Any, **named: Any) -> list[RequestOutput]:
        """generate() for asyncio. Cancelling the task lets the requests end by themselves."""
        return await asyncio.to_thread(self.generate, *arguments, **named)

    async def chat_async(self, *arguments: Any, **named: Any) -> list[RequestOutput]:
        """chat() for asyncio."""
        return await asyncio.to_thread(self.chat, *arguments, **named)

    # --- vectors and scores ---

    def embed(self, prompts: Union[str, Sequence[str]], *, pooling_params: Optional[PoolingParams] = None, use_tqdm: bool = False,
              truncate: bool = True) -> list[EmbeddingRequestOutput]:
        """The vector of each text, `out.outputs.embedding`. Encoder gives them as one array.

        `truncate`: read the beginning of a text that is too long; False: InvalidArgumentError.

        Raises:
            FailedPreconditionError: the model was loaded to generate. One copy of the weights serves one of both: load
                LLM(model, runner="pooling"), or Encoder(model).
        """
        encoder, params = self._pooler(), pooling_params or PoolingParams()
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        vectors, tokens = encoder._embed(texts, None, params.use_activation, params.dimensions, truncate, None, use_tqdm)
        return [EmbeddingRequestOutput(text, EmbeddingOutput(vector), count)
                for text, vector, count in zip(texts, vectors.tolist(), tokens.tolist())]

    def score(self, data_1: Union[str, Sequence[str]], data_2: Union[str, Sequence[str]], *, pooling_params: Optional[PoolingParams] = None,
              truncate: bool = True) -> list[ScoringRequestOutput]:
        """How well texts fit, `out.outputs.score`: one query with each document, or the texts of two lists at the same places.

        A cross-encoder reads both texts; of another model the score is the cosine of their vectors. Raises as embed().
        """
        encoder, params = self._pooler(), pooling_params or PoolingParams()
        first = [data_1] if isinstance(data_1, str) else list(data_1)
        second = [data_2] if isinstance(data_2, str) else list(data_2)
        if len(first) == 1:
            first *= len(second)
        if len(first) != len(second):
            raise errors.InvalidArgumentError(f"data_1 has {len(first)} texts and data_2 has {len(second)}: give one, or as many",
                                              "invalid_value", "data_1")
        pairs = list(zip(first, second))
        scores = encoder.predict(pairs, truncate=truncate, raw_scores=params.use_activation is False)
        return [ScoringRequestOutput(pair, ScoringOutput(score)) for pair, score in zip(pairs, scores.tolist())]

    def classify(self, prompts: Union[str, Sequence[str]], *, pooling_params: Optional[PoolingParams] = None,
                 truncate: bool = True) -> list[ClassificationRequestOutput]:
        """The probability of each of `labels` for each text, `out.outputs.probs`. Raises as embed()."""
        encoder, params = self._pooler(), pooling_params or PoolingParams()
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        scores = encoder.classify(texts, truncate=truncate, raw_scores=params.use_activation is False)
        return [ClassificationRequestOutput(text, ClassificationOutput(row)) for text, row in zip(texts, scores.tolist())]

    async def embed_async(self, *arguments: Any, **named: Any) -> list[EmbeddingRequestOutput]:
        """embed() for asyncio."""
        return await asyncio.to_thread(self.embed, *arguments, **named)

    async def score_async(self, *arguments: Any, **named: Any) -> list[ScoringRequestOutput]:
        """score() for asyncio."""
        return await asyncio.to_thread(self.score, *arguments, **named)

    # --- tokens ---

    def tokenize(self, text: str) -> list[int]:
        """The token ids of a text, with the beginning of text where the model has one. Special tokens in the text are taken as such."""
        data, count, error = encoded(text, "text"), ffi.new("size_t*"), Error()
        capacity = len(data) + 16
        while True:
            ids = ffi.new("int32_t[]", capacity)
            error.check(lib().tutti_tokenize(self._generator().get(), data, ids, capacity, count, error.out))
            if count[0] <= capacity:
                return list(ids[0:count[0]])
            capacity = count[0]

    def detokenize(self, token_ids: Iterable[int]) -> str:
        """The text of token ids, special tokens spelled out."""
        ids, text, error = ffi.new("int32_t[]", list(token_ids)), ffi.new("char**"), Error()
        error.check(lib().tutti_detokenize(self._generator().get(), ids, len(ids), text, error.out))
        return decoded(ffi.gc(text[0], lib().tutti_string_free))

    def render(self, messages: Messages, **chat: Any) -> str:
        """A conversation as the model's chat template writes it. `chat`: tools and the like, as of chat()."""
        request = self._request(SamplingParams(), 0, {}, messages=messages, chat=chat)
        text, error = ffi.new("char**"), Error()
        error.check(lib().tutti_render(self._generator().get(), request.handle, text, error.out))
        return decoded(ffi.gc(text[0], lib().tutti_string_free))

    # --- life ---

    def close(self) -> None:
        """Frees the model when the last running request has ended."""
        for held in (self._model, self._encoder):
            if held is not None:
                held.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LLM({self.model!r})"

    def _generator(self) -> Handle:
        if self._model is None:
            raise errors.FailedPreconditionError(
                f"{self.model} was loaded for vectors and scores: this needs a model that generates text, with runner=\"generate\"",
                "wrong_runner", "runner")
        return self._model

    def _pooler(self) -> Encoder:
        if self._encoder is None:
            raise errors.FailedPreconditionError(
                f"{self.model} was loaded to generate: load LLM(model, runner=\"pooling\") or Encoder(model) for this",
                "wrong_runner", "runner")
        return self._encoder

    def _request(self, params: SamplingParams, index: int, constraints: dict[str, Any], prompt: Any = None, messages: Any = None,
                 chat: Optional[dict[str, Any]] = None) -> Request:
        request = Request(params, index)
        if messages is not None:
            request.use_messages(messages, chat or {})
        else:
            request.use_prompt(prompt)
        request.constrain(constraints)
        return request

    def _run(self, requests: list[Request], use_tqdm: bool = False) -> list[RequestOutput]:
        """Answers in the order of the requests. An error ends those that are under way."""
        model = self._generator()
        results: list[RequestOutput] = []
        count = Count(len(requests), "answers", use_tqdm)
        running: collections.deque[Stream] = collections.deque()
        try:
            for request in requests:
                while True:
                    if len(running) >= _AT_ONCE:
                        results.append(running.popleft().result())
                        count.add()
                    try:
                        running.append(Stream(model, request, request.prompt))
                        break
                    except errors.TuttiError as error:
                        if error.code != "queue_full":
                            raise
                        if running:
                            results.append(running.popleft().result())
                            count.add()
                        else:
                            time.sleep(0.005)  # other threads have filled the queue
            while running:
                results.append(running[0].result())
                running.popleft()
                count.add()
            return results
        finally:
            for stream in running:
                stream.cancel()


def _generates(model: Handle) -> bool:
    """Whether the model generates text: one that does accepts a request, which is cancelled at once."""
    request = ffi.gc(lib().tutti_request_new(), lib().tutti_request_free)
    lib().tutti_request_tokens(request, ffi.new("int32_t[]", [0]), 1)
    lib().tutti_request_set(request, b"max_tokens", 0)
    job, error = ffi.new("tutti_job**"), Error()
    try:
        error.check(lib().tutti_submit(model.get(), request, job, error.out))
    except errors.InvalidArgumentError as refusal:
        if refusal.param != "model":
            raise
        return False
    lib().tutti_job_free(job[0])
    return True


def _constraints(json_object: bool, json_schema: Any, regex: Optional[str], choice: Optional[Sequence[str]], grammar: Optional[str],
                 structural_tag: Any) -> dict[str, Any]:
    return {"json_object": json_object, "json_schema": json_schema, "regex": regex, "choice": choice, "grammar": grammar,
            "structural_tag": structural_tag}


def _chat(tools: Optional[Sequence[dict[str, Any]]], tool_choice: Union[str, dict[str, Any], None], parallel_tool_calls: bool,
          chat_template_kwargs: Optional[dict[str, Any]], add_generation_prompt: bool, continue_final_message: bool) -> dict[str, Any]:
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
