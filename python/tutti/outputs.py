"""Answers, in the shapes of vLLM."""
import dataclasses
from typing import Any, Optional, Union


@dataclasses.dataclass(frozen=True)
class Logprob:
    """A token at a position and the natural logarithm of its probability, before bias, penalties and temperature."""

    token_id: int
    logprob: float
    decoded_token: str
    rank: Optional[int] = None  # 1: the most probable; None: not among those that were asked for


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """A call that the model wants to be made. Answer it with a message of the role "tool" with its id."""

    id: str
    name: str
    arguments: str  # a JSON object


@dataclasses.dataclass(frozen=True)
class CompletionOutput:
    """One of the answers to a prompt."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str  # "stop", "length", "tool_calls", "cancelled"
    stop_reason: Union[int, str, None] = None  # the stop token or stop string; None: the model's end of text
    logprobs: Optional[list[dict[int, Logprob]]] = None  # by token for each position
    cumulative_logprob: Optional[float] = None
    reasoning: str = ""  # what the model thought before its answer, if that is separated
    tool_calls: list[ToolCall] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class RequestOutput:
    """The answers to a prompt. `text` and the like are those of the first one."""

    prompt: Union[str, list[int], list[dict[str, Any]]]
    outputs: list[CompletionOutput]
    prompt_tokens: int
    completion_tokens: int  # of all answers
    num_cached_tokens: int = 0  # of the prompt's, found in the prefix cache
    prompt_logprobs: Optional[list[Optional[dict[int, Logprob]]]] = None  # None for the first token

    @property
    def text(self) -> str:
        return self.outputs[0].text

    @property
    def token_ids(self) -> list[int]:
        return self.outputs[0].token_ids

    @property
    def finish_reason(self) -> str:
        return self.outputs[0].finish_reason

    @property
    def reasoning(self) -> str:
        return self.outputs[0].reasoning

    @property
    def tool_calls(self) -> list[ToolCall]:
        return self.outputs[0].tool_calls


@dataclasses.dataclass(frozen=True)
class EmbeddingOutput:
    """The vector of a text."""

    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclasses.dataclass(frozen=True)
class EmbeddingRequestOutput:
    """The answer of LLM.embed() to a text."""

    prompt: str
    outputs: EmbeddingOutput
    prompt_tokens: int  # that were read, special ones included


@dataclasses.dataclass(frozen=True)
class ScoringOutput:
    """How well two texts fit; more is better."""

    score: float


@dataclasses.dataclass(frozen=True)
class ScoringRequestOutput:
    """The answer of LLM.score() to a pair of texts."""

    prompt: tuple[str, str]
    outputs: ScoringOutput


@dataclasses.dataclass(frozen=True)
class ClassificationOutput:
    """A probability for each of the model's classes, in the order of LLM.labels."""

    probs: list[float]

    @property
    def num_classes(self) -> int:
        return len(self.probs)


@dataclasses.dataclass(frozen=True)
class ClassificationRequestOutput:
    """The answer of LLM.classify() to a text."""

    prompt: str
    outputs: ClassificationOutput


@dataclasses.dataclass(frozen=True)
class Piece:
    """What a stream brings next: whole characters, and the token that completed them."""

    text: str
    index: int = 0  # of the answer
    token_id: Optional[int] = None  # None: text that was held back until the end
    logprob: Optional[float] = None
    reasoning: str = ""

    def __str__(self) -> str:
        return self.text
