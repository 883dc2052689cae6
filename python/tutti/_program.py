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
    done = subprocess.run([PATH, "pull", model], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise errors.UnavailableError(f"{model} could not be fetched: the lines above say why", "model_not_found", "model")
