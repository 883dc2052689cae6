"""Path of the default model for tests in Python, as test_paths.h is for C++."""
import os
import pathlib

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cached_model(name):
    return pathlib.Path(os.environ.get("TUTTI_CACHE") or pathlib.Path.home() / ".cache" / "tutti") / "models" / name


def default_model():
    """TUTTI_TEST_MODEL, else the default model in TUTTI_CACHE or ~/.cache/tutti. It must be there."""
    path = pathlib.Path(os.environ.get("TUTTI_TEST_MODEL") or cached_model(DEFAULT_MODEL_NAME))
    assert path.exists(), f"no model file {path}: run `make models`"
    return path


def known_model(name):
    """The folder of a known model that is one, in the same cache. It must be there."""
    path = cached_model(name)
    assert path.exists(), f"no model {path}: run `make models NAME={name}`"
    return path
