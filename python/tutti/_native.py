"""libtutti by cffi, from the declarations of its own header. Calls release the GIL."""
import functools
import os
import pathlib
import re
from typing import Any, Callable, Optional

import cffi

from . import errors

_FOLDER = pathlib.Path(__file__).resolve().parent


def declarations(header: str) -> str:
    """The part of tutti/c_api.h that cffi reads: without directives of the preprocessor and what they define."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus\n(.*?)#endif", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\bTUTTI_(API|ENUM_TYPE)\b", "", text)


ffi: Any = cffi.FFI()
ffi.cdef(declarations((_FOLDER / "c_api.h").read_text()))


@functools.cache
def lib() -> Any:
    """The library, loaded when it is first used."""
    return ffi.dlopen(str(_FOLDER / "libtutti.so"))


def encoded(text: str, param: str) -> bytes:
    """The text for functions that take one up to its zero. InvalidArgumentError: it holds one, or is no text of UTF-8."""
    data = utf8(text, param)
    if b"\0" in data:
        raise errors.InvalidArgumentError(f"{param} holds the character U+0000 at {text.index(chr(0))}", "invalid_value", param)
    return data


def sized(text: str, param: str) -> tuple[dict[str, Any], Any]:
    """The text as a tutti_text, and the bytes that must live as long."""
    data = utf8(text, param)
    held = ffi.from_buffer("char[]", data)
    return {"bytes": held, "size": len(data)}, held


def utf8(text: str, param: str) -> bytes:
    """InvalidArgumentError: it is no text, or holds half of a surrogate pair."""
    if not isinstance(text, str):
        raise errors.InvalidArgumentError(f"{param} must be a string, not {type(text).__name__}", "invalid_type", param)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgumentError(f"{param} holds half of a surrogate pair at {error.start}", "invalid_value", param) from None


def decoded(pointer: Any) -> str:
    return str(ffi.string(pointer).decode(errors="replace"))


class Error:
    """The place for the error of one call: `check(call(..., error.out))` raises it."""

    def __init__(self) -> None:
        self.out = ffi.new("tutti_error**")

    def check(self, status: int) -> None:
        if status == 0:
            return
        error = self.out[0]
        if error == ffi.NULL:
            raise errors.of_status(status)("out of memory" if status == 8 else "the call was refused")
        error = ffi.gc(error, lib().tutti_error_free)
        raise errors.of_status(status)(decoded(lib().tutti_error_message(error)), decoded(lib().tutti_error_reason(error)),
                                       decoded(lib().tutti_error_param(error)))


class Handle:
    """A handle of the library that is freed with its last user, or by close(). Any thread.

    A process that was forked has none of the model's threads, so the handle refuses to work there.
    """

    def __init__(self, pointer: Any, free: Any, what: str):
        self._pointer = ffi.gc(pointer, free)
        self._pid = os.getpid()
        self._what = what

    def get(self) -> Any:
        if self._pointer is None:
            raise errors.FailedPreconditionError(f"the {self._what} is closed", "closed")
        if self._pid != os.getpid():
            raise errors.FailedPreconditionError(
                f"the {self._what} was loaded before this process was forked: load it in the process that uses it", "forked")
        return self._pointer

    def close(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None and self._pid == os.getpid():
            ffi.release(pointer)


def option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def make_options(model: str, options: dict[str, Any], progress: Optional[Callable[[int, int], None]]) -> tuple[Any, Any]:
    """The options of a load, and what must live as long. Names are those of the program, with underscores."""
    handle = ffi.gc(lib().tutti_options_new(encoded(model, "model")), lib().tutti_options_free)
    for name, value in options.items():
        if value is not None:
            lib().tutti_options_set(handle, encoded(name.replace("_", "-"), "option"), encoded(option_text(value), name))
    if progress is None:
        return handle, None
    raised: list[BaseException] = []

    def report(_: Any, done: int, total: int) -> int:
        progress(done, total)
        return 0

    call = ffi.callback("int(void*, size_t, size_t)", report, error=1, onerror=lambda kind, value, trace: raised.append(value))
    lib().tutti_options_progress(handle, call, ffi.NULL)
    return handle, (call, raised)


def load(kind: str, model: str, options: dict[str, Any], progress: Optional[Callable[[int, int], None]]) -> Handle:
    """Loads a model ("model") or an encoder ("encoder")."""
    handle, callback = make_options(model, options, progress)
    out = ffi.new(f"tutti_{kind}**")
    error = Error()
    status = getattr(lib(), f"tutti_{kind}_load")(handle, out, error.out)
    if callback is not None and callback[1]:
        raise callback[1][0]
    error.check(status)
    return Handle(out[0], getattr(lib(), f"tutti_{kind}_free"), "model" if kind == "model" else kind)
