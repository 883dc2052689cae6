"""An answer while it is generated."""
import asyncio
import math
import threading
from typing import Any, AsyncIterator, Iterator, Optional

from . import _answer
from ._native import Error, Handle, ffi, lib
from .outputs import Piece, RequestOutput

_WAIT_MS = 200  # after which Ctrl-C is seen


def _text(pointer: Any, size: int) -> str:
    return bytes(ffi.buffer(pointer, size)).decode(errors="replace") if size else ""


class Stream:
    """The pieces of an answer, for `for` or `async for`, once. `result()` is the whole answer, also of a stream that was left.

    Leaving the loop cancels the request, as close() and the end of a `with` do. One thread at a time.
    """

    def __init__(self, model: Handle, request: Any, prompt: Any):
        self._prompt = prompt
        job = ffi.new("tutti_job**")
        error = Error()
        error.check(lib().tutti_submit(model.get(), request.handle, job, error.out))
        self._job = ffi.gc(job[0], lib().tutti_job_free)
        self._model = model  # lives as long
        self._token = ffi.new("tutti_token*")
        self._result: Optional[RequestOutput] = None
        self._failure: Optional[Exception] = None

    def _next(self) -> Optional[Piece]:
        """Blocks. None: the end."""
        while True:
            got = lib().tutti_job_next_for(self._job, _WAIT_MS, self._token)
            if got == 0:
                return None
            if got == 1:
                token = self._token
                return Piece(text=_text(token.text, token.text_bytes), index=token.choice, token_id=None if token.id < 0 else token.id,
                             logprob=None if math.isnan(token.logprob) else token.logprob,
                             reasoning=_text(token.reasoning, token.reasoning_bytes))

    def __iter__(self) -> Iterator[Piece]:
        try:
            while (piece := self._next()) is not None:
                yield piece
            self.result()
        finally:
            self.cancel()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Any] = asyncio.Queue()

        def put(item: Any) -> None:
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, item)
            except RuntimeError:  # the loop has been closed
                self.cancel()

        def read() -> None:
            try:
                while (piece := self._next()) is not None:
                    put(piece)
                self.result()
                put(None)
            except Exception as error:  # pylint: disable=broad-except
                put(error)

        threading.Thread(target=read, name="tutti-stream", daemon=True).start()
        try:
            while (item := await pieces.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Any thread. The answer ends where it is; no further piece comes."""
        lib().tutti_job_cancel(self._job)

    close = cancel

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def result(self) -> RequestOutput:
        """Blocks until the end."""
        if self._result is None and self._failure is None:
            try:
                while lib().tutti_job_wait(self._job, _WAIT_MS) == 0:
                    pass
                completion = ffi.new("tutti_completion**")
                error = Error()
                error.check(lib().tutti_job_join(self._job, completion, error.out))
                self._result = _answer.read(ffi.gc(completion[0], lib().tutti_completion_free), self._prompt)
            except Exception as failure:  # pylint: disable=broad-except
                self._failure = failure
        if self._result is None:
            raise self._failure or AssertionError("neither a result nor a failure")
        return self._result
