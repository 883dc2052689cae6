"""Tutti in Python: language and embedding models in this process, computed for many callers at once.

    from tutti import LLM, Encoder, SamplingParams
"""
from .encoder import Encoder, Ranked
from .errors import (CancelledError, DataLossError, DeadlineExceededError, FailedPreconditionError, InternalError, InvalidArgumentError,
                     NotFoundError, ResourceExhaustedError, TuttiError, UnavailableError, UnimplementedError)
from .llm import LLM
from .outputs import (ClassificationOutput, ClassificationRequestOutput, CompletionOutput, EmbeddingOutput, EmbeddingRequestOutput,
                      Logprob, Piece, RequestOutput, ScoringOutput, ScoringRequestOutput, ToolCall)
from .sampling import PoolingParams, SamplingParams
from ._stream import Stream

__version__ = "0.1.0"
__all__ = ["CancelledError", "ClassificationOutput", "ClassificationRequestOutput", "CompletionOutput", "DataLossError",
           "DeadlineExceededError", "EmbeddingOutput", "EmbeddingRequestOutput", "Encoder", "FailedPreconditionError", "InternalError",
           "InvalidArgumentError", "LLM", "Logprob", "NotFoundError", "Piece", "PoolingParams", "Ranked", "RequestOutput",
           "ResourceExhaustedError", "SamplingParams", "ScoringOutput", "ScoringRequestOutput", "Stream", "ToolCall", "TuttiError",
           "UnavailableError", "UnimplementedError"]
