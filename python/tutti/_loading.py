"""Loading: names of models, progress, and the options that models share."""
import sys
import time
from typing import Any, Callable, Optional, Union

from . import _program, errors
from ._native import Handle, load

Progress = Union[bool, Callable[[int, int], None]]


def _bar() -> Callable[[int, int], None]:
    """Shows a load that takes longer than a second at a terminal."""
    begun = time.monotonic()
    shown = False

    def show(done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - begun < 1 or total == 0:
            return
        shown = shown or done < total
        if shown:
            print(f"\rtutti: loading {100 * done // total} %", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show


class Count:
    """Shows at standard error how many of `total` are done, at most ten times a second. Without `shown` it does nothing."""

    def __init__(self, total: int, what: str, shown: bool):
        self._total, self._what, self._shown = total, what, shown and total > 0
        self._done = 0
        self._written = 0.0

    def add(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if not self._shown or (self._done < self._total and now - self._written < 0.1):
            return
        self._written = now
        end = "\n" if self._done == self._total else ""
        print(f"\rtutti: {self._done}/{self._total} {self._what}", end=end, file=sys.stderr, flush=True)


def open_model(kind: str, model: str, progress: Progress, options: dict[str, Any]) -> Handle:
    """Loads a model, which is fetched first where it is a known one or one of a hub that is not in the cache."""
    call: Optional[Callable[[int, int], None]] = None
    if callable(progress):
        call = progress
    elif progress and sys.stderr.isatty():
        call = _bar()
    try:
        return load(kind, model, options, call)
    except errors.NotFoundError:
        if not _program.may_be_pulled(model):
            raise
    _program.pull(model)
    return load(kind, model, options, call)
