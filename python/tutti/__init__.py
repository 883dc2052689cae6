"""Tutti in Python: language and embedding models in this process, computed for many callers at once.

    from tutti import LLM, Encoder, SamplingParams
"""
from .encoder import Encoder, Ranked
from .errors import (CancelledError, DataLossError, DeadlineExceededError, FailedPreconditionError, InternalError, InvalidArgumentError,
                     NotFoundError, ResourceExhaustedError, TuttiError, UnavailableError, UnimplementedError)
from .llm import LLM
from .outputs import CompletionOutput, Logprob, Piece, RequestOutput, ToolCall
from .sampling import SamplingParams
from ._stream import Stream

__version__ = "0.1.0"
__all__ = ["CancelledError", "CompletionOutput", "DataLossError", "DeadlineExceededError", "Encoder", "FailedPreconditionError",
           "InternalError", "InvalidArgumentError", "LLM", "Logprob", "NotFoundError", "Piece", "Ranked", "RequestOutput",
           "ResourceExhaustedError", "SamplingParams", "Stream", "ToolCall", "TuttiError", "UnavailableError", "UnimplementedError"]
