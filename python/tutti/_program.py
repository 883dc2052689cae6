"""The program `tutti` that the package brings."""
import os
import pathlib
import re
import subprocess
import sys

from . import errors

PATH = pathlib.Path(__file__).resolve().parent / "bin" / "tutti"


def main() -> None:
    """Becomes the program, so that signals, standard streams and the exit code are its own."""
    os.execv(PATH, ["tutti", *sys.argv[1:]])


def may_be_pulled(model: str) -> bool:
    """Whether the name may be that of a known model or of one on a hub, and not of a file."""
    return not os.path.exists(model) and re.fullmatch(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?", model) is not None and not model.endswith(".gguf")


def pull(model: str) -> None:
    """Fetches a model into the cache, once. Progress goes to standard error."""
    # A terminal shows the progress and what failed. Elsewhere, as in a notebook or a worker, nobody may see it: the error has the last line.
    terminal = os.isatty(2)
    with subprocess.Popen([PATH, "pull", model], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=None if terminal else subprocess.PIPE) as process:
        last = b""
        while process.stderr is not None and (piece := os.read(process.stderr.fileno(), 4096)):
            last = (last + piece)[-2000:]
            sys.stderr.write(piece.decode(errors="replace"))
            sys.stderr.flush()
    if process.returncode != 0:
        why = last.decode(errors="replace").strip().splitlines() or ["the lines above say why"]
        raise errors.UnavailableError(f"{model} could not be fetched: {why[-1].removeprefix('tutti: ')}", "model_not_found", "model")
