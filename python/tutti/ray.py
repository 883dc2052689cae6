"""Tutti on Ray: batches with Ray Data and requests with Ray Serve. `pip install 'tutti[ray]'`

    import ray, tutti.ray
    answers = tutti.ray.map_batches(ray.data.read_json("prompts.jsonl"), "smollm2-135m-instruct", prompts="prompt", concurrency=2)
    answers.write_json("answers")

    from ray import serve
    serve.run(tutti.ray.deployment(max_replicas=3).bind("smollm2-135m-instruct"))  # http://127.0.0.1:8000/v1/chat/completions

Ray itself is imported when map_batches() or deployment() is called. Batches runs without it.
"""
import asyncio
import collections
import ctypes
import dataclasses
import hashlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any, AsyncIterator, Optional, Union

import numpy

from . import _program, errors
from ._native import option_text
from .encoder import Encoder
from .llm import LLM
from .sampling import SamplingParams

Batch = dict[str, Any]
Concurrency = Union[int, tuple[int, int]]

_START_S = 1800  # a model may be fetched first
_STOP_S = 10  # more than the program's own --drain-s
# Routes without state: requests of one client go to any replica. No route of operators, as clients of a replica count as local.
_ROUTES = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/messages/count_tokens", "/v1/rerank", "/v2/rerank",
           "/rerank", "/v1/score", "/score", "/v1/decisions", "/v1/models", "/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize",
           "/livez", "/readyz", "/health", "/version"}
_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host",
        "content-length"}


def _ray(part: str) -> Any:
    try:
        return importlib.import_module(part)
    except ImportError as error:
        raise ImportError(f"{part} is missing ({error}): pip install 'tutti[ray]'") from error


# --- Ray Data ---


class Batches:
    """What an actor of map_batches() does with a batch: columns in, the same columns and the answers out. It holds one model.

    It needs no Ray: Batches("smollm2-135m-instruct", prompts="prompt")({"prompt": numpy.array(["A", "B"])}).
    """

    def __init__(self, model: str, *, prompts: Optional[str] = None, messages: Optional[str] = None, texts: Optional[str] = None,
                 output: Optional[str] = None, sampling_params: Optional[SamplingParams] = None, seed: Optional[int] = 0,
                 seed_column: Optional[str] = None, on_error: str = "raise", call_options: Optional[dict[str, Any]] = None,
                 model_options: Optional[dict[str, Any]] = None):
        given = [name for name, column in (("prompts", prompts), ("messages", messages), ("texts", texts)) if column is not None]
        if len(given) != 1:
            raise errors.InvalidArgumentError(f"give one of prompts, messages and texts, not {' and '.join(given) or 'none'}",
                                              "invalid_value", given[0] if given else "prompts")
        if on_error not in ("raise", "keep"):
            raise errors.InvalidArgumentError(f"on_error must be raise or keep, not {on_error!r}", "invalid_value", "on_error")
        self._kind = given[0]
        self._column: str = prompts or messages or texts or ""
        self._output = output or ("embedding" if texts is not None else "answer")
        self._params = sampling_params or SamplingParams()
        self._seed, self._seed_column = seed, seed_column
        self._keep = on_error == "keep"
        self._call_options = call_options or {}
        options = {"progress": False, **(model_options or {})}
        self._encoder = Encoder(model, **options) if texts is not None else None
        self._llm = LLM(model, runner="generate", **options) if texts is None else None

    def __call__(self, batch: Batch) -> Batch:
        if self._column not in batch:
            raise errors.InvalidArgumentError(f"there is no column {self._column}; there are {', '.join(batch) or 'none'}", "invalid_value",
                                              self._kind)
        inputs = [_plain(value) for value in batch[self._column]]
        return {**batch, **(self._embed(inputs) if self._llm is None else self._answer(inputs, batch))}

    def _embed(self, inputs: list[Any]) -> Batch:
        assert self._encoder is not None
        return {self._output: self._encoder.encode(inputs, **self._call_options)}

    def _answer(self, inputs: list[Any], batch: Batch) -> Batch:
        assert self._llm is not None
        call = self._llm.generate if self._kind == "prompts" else self._llm.chat
        params = [self._seeded(value, batch, index) for index, value in enumerate(inputs)]
        columns: dict[str, list[Any]] = collections.defaultdict(list)

        def add(out: Any, failure: str) -> None:
            columns[self._output].append(out.text if out else "")
            columns[f"{self._output}_finish_reason"].append(out.finish_reason if out else "error")
            columns[f"{self._output}_prompt_tokens"].append(out.prompt_tokens if out else 0)
            columns[f"{self._output}_completion_tokens"].append(out.completion_tokens if out else 0)
            if self._keep:
                columns[f"{self._output}_error"].append(failure)

        try:
            for out in call(inputs, params, **self._call_options) if inputs else []:
                add(out, "")
        except errors.InvalidArgumentError:
            if not self._keep:
                raise
            columns.clear()
            for value, param in zip(inputs, params):  # one row at fault: the others are computed again, alone, and say the same
                try:
                    add(call([value], [param], **self._call_options)[0], "")
                except errors.InvalidArgumentError as error:
                    add(None, str(error))
        return {name: numpy.array(values, dtype=object if isinstance(values[0], str) else numpy.int64) for name, values in columns.items()}

    def _seeded(self, value: Any, batch: Batch, index: int) -> SamplingParams:
        """The parameters of a row. Its seed depends on the row alone, so that a block that is computed again gives the same texts."""
        if self._params.seed is not None or self._seed is None:
            return self._params
        if self._seed_column is not None:
            if self._seed_column not in batch:
                raise errors.InvalidArgumentError(f"there is no column {self._seed_column}", "invalid_value", "seed_column")
            row = int(batch[self._seed_column][index])
        else:
            row = int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:6], "big")
        return dataclasses.replace(self._params, seed=self._seed + row)

    def close(self) -> None:
        for held in (self._llm, self._encoder):
            if held is not None:
                held.close()


def _plain(value: Any) -> Any:
    """A cell as texts, lists and dicts: Ray gives arrays of numpy for lists, and None for what other rows' dicts have."""
    if isinstance(value, numpy.ndarray):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return value


def map_batches(dataset: Any, model: str, *, prompts: Optional[str] = None, messages: Optional[str] = None, texts: Optional[str] = None,
                output: Optional[str] = None, sampling_params: Optional[SamplingParams] = None, seed: Optional[int] = 0,
                seed_column: Optional[str] = None, on_error: str = "raise", call_options: Optional[dict[str, Any]] = None,
                model_options: Optional[dict[str, Any]] = None, concurrency: Concurrency = 1, batch_size: int = 64, num_cpus: float = 1,
                **ray_options: Any) -> Any:
    """Answers, or vectors, for the rows of a Ray dataset. Returns the dataset with more columns; Ray computes it when it is read.

    Each of `concurrency` actors holds one model. Ray starts an actor that dies again and repeats its blocks.

    Args:
        dataset: a ray.data.Dataset.
        prompts, messages, texts: the column that is read, one of these: texts or token ids to continue; conversations in OpenAI's form;
            texts that become vectors.
        output: the column that is added, "answer" or "embedding" by default. Of answers also OUTPUT_finish_reason, OUTPUT_prompt_tokens
            and OUTPUT_completion_tokens.
        seed, seed_column: a row's seed is `seed` plus its number in `seed_column`, or plus a hash of its input: equal inputs then have
            equal answers. It does not depend on blocks, so repeated rows say the same. None: none, and a seed of sampling_params is kept.
        on_error: "raise", or "keep": a row that is refused has an empty answer, and the error in OUTPUT_error.
        call_options: further arguments of LLM.generate, LLM.chat or Encoder.encode, such as json_schema.
        model_options: further arguments of LLM or Encoder, such as kv_cache_bytes; `threads` is num_cpus if it is not given.
        concurrency: actors, or (min, max).
        batch_size: rows of one call; several times the model's max_num_seqs.
        num_cpus: that Ray reserves for an actor. Leave it one processor of each machine for reading and writing.
        ray_options: further arguments of Dataset.map_batches.
    """
    data = _ray("ray.data")
    low, high = (concurrency, concurrency) if isinstance(concurrency, int) else concurrency
    options = {"threads": max(1, int(num_cpus)), **(model_options or {})}
    arguments = {"model": model, "prompts": prompts, "messages": messages, "texts": texts, "output": output,
                 "sampling_params": sampling_params, "seed": seed, "seed_column": seed_column, "on_error": on_error,
                 "call_options": call_options, "model_options": options}
    return dataset.map_batches(Batches, fn_constructor_kwargs=arguments, batch_size=batch_size, batch_format="numpy",
                               num_cpus=num_cpus, compute=data.ActorPoolStrategy(min_size=low, max_size=high), **ray_options)


# --- Ray Serve ---


class _Program:
    """The program `tutti serve` on a free port of 127.0.0.1. It is killed if this process dies."""

    def __init__(self, model: str, options: dict[str, Any]):
        arguments = [str(_program.PATH), "serve", model, "--host", "127.0.0.1", "--port", "0", "--grpc-port", "0"]
        for name, value in {"store": "memory", "http_access_log": "off", "pull": "on-demand", **options}.items():
            if value is not None:
                arguments += ["--" + name.replace("_", "-"), option_text(value)]
        self.url = ""
        self._lines: collections.deque[str] = collections.deque(maxlen=20)
        self._begun = threading.Event()
        self.process: Optional[subprocess.Popen[str]] = None
        self._failure: Optional[BaseException] = None
        # A child's death signal comes when the thread ends that started it: this one reads until the program ends.
        threading.Thread(target=self._run, args=(arguments,), name="tutti-serve", daemon=True).start()
        if not self._begun.wait(_START_S) or not self.url:
            self.stop()
            raise errors.UnavailableError(f"tutti serve did not start: {self._failure or ' / '.join(self._lines)}", "model_not_loaded", "model")

    def _run(self, arguments: list[str]) -> None:
        libc, parent = ctypes.CDLL(None), os.getpid()

        def die_with_parent() -> None:
            libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(1)

        try:
            with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  preexec_fn=die_with_parent) as self.process:
                assert self.process.stdout is not None
                for line in self.process.stdout:
                    self._lines.append(line.strip())
                    print(line, end="", file=sys.stderr, flush=True)
                    if not self.url and (found := re.search(r"serving .* at (http://\S+)", line)):
                        self.url = found[1]
                        self._begun.set()
        except OSError as error:
            self._failure = error
        finally:
            self._begun.set()

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Lets running requests end, then kills it."""
        process = self.process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30 + _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


class Replica:
    """What a replica of deployment() does. Its arguments: a model, and options of `tutti serve` with underscores.

    HTTP: the routes of `tutti serve` that keep no state between requests, OpenAI's among them, streams included.
    From other deployments: `await handle.chat.remote({"messages": [...]})`, completions, embeddings, and
    `handle.options(stream=True).stream.remote(body)`, whose items are chunks; "model" may be left out. Errors are TuttiError.
    """

    def __init__(self, model: str = "smollm2-135m-instruct", **options: Any):
        aiohttp = _ray("aiohttp")
        processors = _ray("ray").get_runtime_context().get_assigned_resources().get("CPU", 0)
        self._model = model
        self._program = _Program(model, {"threads": max(1, int(processors)), **options})
        self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False,
                                             connector=aiohttp.TCPConnector(limit=0))
        self._lost = aiohttp.ClientError
        self._responses = _ray("starlette.responses")

    async def __call__(self, request: Any) -> Any:
        path = request.scope["path"]
        root = request.scope.get("root_path", "").rstrip("/")
        if root and path.startswith(root + "/"):
            path = path[len(root):]
        if path not in _ROUTES and not re.fullmatch(r"/v1/models/[\w.:-]+", path):
            return self._refusal(404, "not_found", f"there is no route {path} here")
        headers = [(name, value) for name, value in request.headers.items() if name not in _HOP]
        try:
            answer = await self._client.request(request.method, self._program.url + path, params=request.query_params.multi_items(),
                                                headers=headers, data=await request.body(), allow_redirects=False)
        except self._lost as error:
            return self._refusal(503, "worker_lost", f"the model's process does not answer: {type(error).__name__}")
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        if answer.content_type == "text/event-stream":
            return self._responses.StreamingResponse(self._pieces(answer), answer.status, kept)
        try:
            async with answer:
                return self._responses.Response(await answer.read(), answer.status, kept)
        except self._lost as error:
            return self._refusal(503, "worker_lost", f"the model's process has ended: {type(error).__name__}")

    async def _pieces(self, answer: Any) -> AsyncIterator[bytes]:
        async with answer:  # leaving it early closes the connection, which cancels the request
            try:
                async for piece in answer.content.iter_any():
                    yield piece
            except self._lost:
                error = {"error": {"message": "the model's process has ended", "type": "server_error", "param": None, "code": "worker_lost"}}
                yield f"data: {json.dumps(error)}\n\n".encode()

    def _refusal(self, status: int, code: str, message: str) -> Any:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return self._responses.JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)

    async def chat(self, body: dict[str, Any]) -> Any:
        """The answer of /v1/chat/completions."""
        return await self._post("/v1/chat/completions", body)

    async def completions(self, body: dict[str, Any]) -> Any:
        """The answer of /v1/completions."""
        return await self._post("/v1/completions", body)

    async def embeddings(self, body: dict[str, Any]) -> Any:
        """The answer of /v1/embeddings."""
        return await self._post("/v1/embeddings", body)

    async def stream(self, body: dict[str, Any]) -> AsyncIterator[Any]:
        """The chunks of a chat, or of a completion if `body` has a prompt."""
        route = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
        async with self._client.post(self._program.url + route, json={"model": self._model, **body, "stream": True}) as answer:
            if answer.status != 200:
                raise _error(answer.status, await answer.read())
            async for line in answer.content:
                if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                    chunk = json.loads(line[6:])
                    if "error" in chunk:
                        raise _error(500, line[6:])
                    yield chunk

    async def _post(self, route: str, body: dict[str, Any]) -> Any:
        async with self._client.post(self._program.url + route, json={"model": self._model, **body, "stream": False}) as answer:
            content = await answer.read()
            if answer.status != 200:
                raise _error(answer.status, content)
            return json.loads(content)

    async def check_health(self) -> None:
        """Serve calls this, and replaces the replica if it raises."""
        if not self._program.alive():
            raise errors.UnavailableError("the model's process has ended", "worker_lost")
        async with self._client.get(self._program.url + "/livez") as answer:
            if answer.status != 200:
                raise errors.UnavailableError(f"/livez answers {answer.status}", "worker_lost")

    async def __del__(self) -> None:
        """Serve calls this when the replica's requests have ended."""
        await asyncio.to_thread(self._program.stop)
        await self._client.close()


def _error(status: int, content: bytes) -> errors.TuttiError:
    kinds: dict[int, type[errors.TuttiError]] = {404: errors.NotFoundError, 429: errors.ResourceExhaustedError,
                                                503: errors.UnavailableError}
    kind = kinds.get(status, errors.InvalidArgumentError if status < 500 else errors.InternalError)
    try:
        error = json.loads(content)["error"]
        return kind(error["message"], error.get("code") or "", error.get("param") or "")
    except (ValueError, KeyError, TypeError):
        return kind(f"the server answered {status}")


def deployment(*, name: str = "tutti", min_replicas: int = 1, max_replicas: int = 1, target_ongoing_requests: float = 8, num_cpus: float = 1,
               **options: Any) -> Any:
    """A deployment of Ray Serve: deployment(max_replicas=3, num_cpus=8).bind("smollm2-135m-instruct", max_num_seqs=8).

    Each replica is a `tutti serve` with the model, on `num_cpus` processors. Serve starts and stops replicas so that each has about
    `target_ongoing_requests`, which should be the model's max_num_seqs. A replica that stops ends its requests first.

    Args:
        options: further ones of serve.deployment, such as autoscaling_config, which replaces the three above. `.options(...)` of
            what this returns takes the same.
    """
    serve = _ray("ray.serve")
    given: dict[str, Any] = {
        "name": name, "ray_actor_options": {"num_cpus": num_cpus}, "max_ongoing_requests": max(4 * int(target_ongoing_requests), 8),
        "health_check_period_s": 5, "health_check_timeout_s": 30, "graceful_shutdown_timeout_s": 60,
        "autoscaling_config": {"min_replicas": min_replicas, "max_replicas": max_replicas,
                               "target_ongoing_requests": target_ongoing_requests}, **options}
    if "num_replicas" in options:
        del given["autoscaling_config"]
    return serve.deployment(**given)(Replica)


def app(arguments: dict[str, Any]) -> Any:
    """For `serve run tutti.ray:app model=smollm2-135m-instruct max_replicas=3` and files of `serve deploy`.

    `model`, those of deployment(), and all others are options of `tutti serve`.
    """
    own = {"name": str, "min_replicas": int, "max_replicas": int, "target_ongoing_requests": float, "num_cpus": float}
    given = dict(arguments)
    model = given.pop("model", "smollm2-135m-instruct")
    chosen = {key: kind(given.pop(key)) for key, kind in own.items() if key in given}
    return deployment(**chosen).bind(model, **given)
