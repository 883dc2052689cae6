"""Where tests written in Python find the default model: test_paths.h for the others."""
import os
import pathlib

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def default_model():
    """TUTTI_TEST_MODEL, else the default model in TUTTI_CACHE or ~/.cache/tutti. It must be there."""
    cache = pathlib.Path(os.environ.get("TUTTI_CACHE") or pathlib.Path.home() / ".cache" / "tutti")
    path = pathlib.Path(os.environ.get("TUTTI_TEST_MODEL") or cache / "models" / DEFAULT_MODEL_NAME)
    assert path.exists(), f"no model file {path}: run `make models`"
    return path
