"""Requests with Ray Serve: replicas that run the program."""
import asyncio
import collections
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from typing import Any, AsyncIterator, Optional

from .. import _program, errors
from .._native import option_text
from ._modules import module

_START_S = 1800  # a model may be fetched first
_STOP_S = 10  # more than the program's own --drain-s
# Routes without state: requests of one client go to any replica. No route of operators, as clients of a replica count as local.
_ROUTES = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/messages/count_tokens", "/v1/rerank", "/v2/rerank",
           "/rerank", "/v1/score", "/score", "/v1/decisions", "/v1/models", "/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize",
           "/livez", "/readyz", "/health", "/version"}
_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host",
        "content-length"}


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
        aiohttp = module("aiohttp")
        processors = module("ray").get_runtime_context().get_assigned_resources().get("CPU", 0)
        self._program = _Program(model, {"threads": max(1, int(processors)), **options})
        # For calls of other deployments, which bring no key; a client of HTTP has one.
        self._headers = {"Authorization": f"Bearer {_key(options['api_key_file'])}"} if options.get("api_key_file") else {}
        with urllib.request.urlopen(urllib.request.Request(self._program.url + "/v1/models", headers=self._headers)) as answer:
            self._model = json.load(answer)["data"][0]["id"]
        self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False,
                                             connector=aiohttp.TCPConnector(limit=0))
        self._lost = aiohttp.ClientError
        self._responses = module("starlette.responses")

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
        async with self._client.post(self._program.url + route, headers=self._headers,
                                     json={"model": self._model, **body, "stream": True}) as answer:
            if answer.status != 200:
                raise _error(answer.status, await answer.read())
            async for line in answer.content:
                if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                    chunk = json.loads(line[6:])
                    if "error" in chunk:
                        raise _error(500, line[6:])
                    yield chunk

    async def _post(self, route: str, body: dict[str, Any]) -> Any:
        async with self._client.post(self._program.url + route, headers=self._headers,
                                     json={"model": self._model, **body, "stream": False}) as answer:
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


def _key(file: Any) -> str:
    return pathlib.Path(file).read_text().split()[0]


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
    serve = module("ray.serve")
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
