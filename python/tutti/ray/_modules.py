"""Ray's modules, imported when they are used."""
import importlib
from typing import Any


def module(part: str) -> Any:
    try:
        return importlib.import_module(part)
    except ImportError as error:
        raise ImportError(f"{part} is missing ({error}): pip install 'tutti[ray]'") from error
