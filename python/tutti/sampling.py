"""How answers are drawn, and how texts become vectors."""
import dataclasses
from typing import Mapping, Optional, Sequence, Union


@dataclasses.dataclass
class SamplingParams:
    """Parameters of one request, by the names of vLLM. Ranges are checked when the request is made.

    The order in which they apply: allowed, banned and minimum tokens, logit_bias, penalties, temperature, top_k, top_p, min_p.
    """

    n: int = 1  # answers to one prompt, 1 to 8
    temperature: float = 1.0  # 0 to 2; 0: always the most probable token
    top_p: float = 1.0  # 0 to 1
    top_k: int = 0  # 0 or -1: all
    min_p: float = 0.0  # 0 to 1, of the most probable token
    repetition_penalty: float = 1.0  # above 0 to 10; of the prompt and the answer
    presence_penalty: float = 0.0  # -2 to 2; of the answer
    frequency_penalty: float = 0.0  # -2 to 2; of the answer
    seed: Optional[int] = None  # the same one gives the same answer; of a batch, prompt i gets seed + i
    max_tokens: Optional[int] = None  # None: until the model ends, or the context is full
    min_tokens: int = 0
    stop: Union[str, Sequence[str], None] = None  # at most 16
    stop_token_ids: Optional[Sequence[int]] = None
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    logprobs: Optional[int] = None  # of the k most probable tokens at each position, 0 to 20
    prompt_logprobs: Optional[int] = None  # the same for the prompt
    logit_bias: Optional[Mapping[int, float]] = None  # by token, -100 to 100; at most 1,024
    allowed_token_ids: Optional[Sequence[int]] = None
    banned_token_ids: Optional[Sequence[int]] = None
    truncate_prompt_tokens: Optional[int] = None  # keep only so many of the prompt's last tokens
    max_reasoning_tokens: Optional[int] = None  # before the answer, of models that reason
    timeout_s: Optional[float] = None  # from the call on; then DeadlineExceededError


@dataclasses.dataclass
class PoolingParams:
    """Parameters of LLM.embed(), score() and classify(), by the names of vLLM."""

    dimensions: Optional[int] = None  # leading components of a vector, of models trained for it; None: all
    use_activation: Optional[bool] = None  # vectors to length 1, scores by sigmoid or softmax; None: as the model's files say
