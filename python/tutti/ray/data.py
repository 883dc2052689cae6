"""Batches with Ray Data: actors that hold a model each."""
import collections
import dataclasses
import hashlib
import json
from typing import Any, Optional, Union

import numpy

from .. import errors
from ..encoder import Encoder
from ..llm import LLM
from ..sampling import SamplingParams
from ._modules import module

Batch = dict[str, Any]
Concurrency = Union[int, tuple[int, int]]


class Batches:
    """What an actor of map_batches() does with a batch: columns in, the same columns and the answers out. It holds one model.

    It needs no Ray: Batches("smollm2-135m-instruct", prompts="prompt")({"prompt": numpy.array(["A", "B"])}).
    """

    def __init__(self, model: str, *, prompts: Optional[str] = None, messages: Optional[str] = None, texts: Optional[str] = None,
                 output: Optional[str] = None, sampling_params: Optional[SamplingParams] = None, seed: Optional[int] = 0,
                 seed_column: Optional[str] = None, on_error: str = "raise", call_options: Optional[dict[str, Any]] = None,
                 model_options: Optional[dict[str, Any]] = None):
        given = [name for name, column in (("prompts", prompts), ("messages", messages), ("texts", texts)) if column is not None]
        if len(given) != 1:
            raise errors.InvalidArgumentError(f"give one of prompts, messages and texts, not {' and '.join(given) or 'none'}",
                                              "invalid_value", given[0] if given else "prompts")
        if on_error not in ("raise", "keep"):
            raise errors.InvalidArgumentError(f"on_error must be raise or keep, not {on_error!r}", "invalid_value", "on_error")
        if seed_column is not None and sampling_params is not None and sampling_params.seed is not None:
            raise errors.InvalidArgumentError("give seed_column or a seed in sampling_params, which is that of every row", "invalid_value",
                                              "seed_column")
        self._kind = given[0]
        self._column: str = prompts or messages or texts or ""
        self._output = output or ("embedding" if texts is not None else "answer")
        self._params = sampling_params or SamplingParams()
        self._seed, self._seed_column = seed, seed_column
        self._keep = on_error == "keep"
        self._call_options = call_options or {}
        options = {"progress": False, **(model_options or {})}
        self._encoder = Encoder(model, **options) if texts is not None else None
        self._llm = LLM(model, runner="generate", **options) if texts is None else None

    def __call__(self, batch: Batch) -> Batch:
        if self._column not in batch:
            raise errors.InvalidArgumentError(f"there is no column {self._column}; there are {', '.join(batch) or 'none'}", "invalid_value",
                                              self._kind)
        inputs = [_plain(value) for value in batch[self._column]]
        return {**batch, **(self._embed(inputs) if self._llm is None else self._answer(inputs, batch))}

    def _embed(self, inputs: list[Any]) -> Batch:
        assert self._encoder is not None
        return {self._output: self._encoder.encode(inputs, **self._call_options)}

    def _answer(self, inputs: list[Any], batch: Batch) -> Batch:
        assert self._llm is not None
        call = self._llm.generate if self._kind == "prompts" else self._llm.chat
        params = [self._seeded(value, batch, index) for index, value in enumerate(inputs)]
        columns: dict[str, list[Any]] = collections.defaultdict(list)

        def add(out: Any, failure: str) -> None:
            columns[self._output].append(out.text if out else "")
            columns[f"{self._output}_finish_reason"].append(out.finish_reason if out else "error")
            columns[f"{self._output}_prompt_tokens"].append(out.prompt_tokens if out else 0)
            columns[f"{self._output}_completion_tokens"].append(out.completion_tokens if out else 0)
            if self._keep:
                columns[f"{self._output}_error"].append(failure)

        try:
            for out in call(inputs, params, **self._call_options) if inputs else []:
                add(out, "")
        except errors.InvalidArgumentError:
            if not self._keep:
                raise
            columns.clear()
            for value, param in zip(inputs, params):  # one row at fault: the others are computed again, alone, and say the same
                try:
                    add(call([value], [param], **self._call_options)[0], "")
                except errors.InvalidArgumentError as error:
                    add(None, str(error))
        return {name: numpy.array(values, dtype=object if isinstance(values[0], str) else numpy.int64) for name, values in columns.items()}

    def _seeded(self, value: Any, batch: Batch, index: int) -> SamplingParams:
        """The parameters of a row. Its seed depends on the row alone, so that a block that is computed again gives the same texts."""
        if self._params.seed is not None or self._seed is None:
            return self._params
        if self._seed_column is not None:
            if self._seed_column not in batch:
                raise errors.InvalidArgumentError(f"there is no column {self._seed_column}", "invalid_value", "seed_column")
            row = int(batch[self._seed_column][index])
        else:
            row = int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:6], "big")
        return dataclasses.replace(self._params, seed=self._seed + row)

    def close(self) -> None:
        for held in (self._llm, self._encoder):
            if held is not None:
                held.close()


def _plain(value: Any) -> Any:
    """A cell as texts, lists and dicts: Ray gives arrays of numpy for lists, and None for what other rows' dicts have."""
    if isinstance(value, numpy.ndarray):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return value


def map_batches(dataset: Any, model: str, *, prompts: Optional[str] = None, messages: Optional[str] = None, texts: Optional[str] = None,
                output: Optional[str] = None, sampling_params: Optional[SamplingParams] = None, seed: Optional[int] = 0,
                seed_column: Optional[str] = None, on_error: str = "raise", call_options: Optional[dict[str, Any]] = None,
                model_options: Optional[dict[str, Any]] = None, concurrency: Concurrency = 1, batch_size: int = 64, num_cpus: float = 1,
                **ray_options: Any) -> Any:
    """Answers, or vectors, for the rows of a Ray dataset. Returns the dataset with more columns; Ray computes it when it is read.

    Each of `concurrency` actors holds one model. Ray starts an actor that dies again and repeats its blocks.

    Args:
        dataset: a ray.data.Dataset.
        prompts, messages, texts: the column that is read, one of these: texts or token ids to continue; conversations in OpenAI's form;
            texts that become vectors.
        output: the column that is added, "answer" or "embedding" by default. Of answers also OUTPUT_finish_reason, OUTPUT_prompt_tokens
            and OUTPUT_completion_tokens.
        seed, seed_column: a row's seed is `seed` plus its number in `seed_column`, or plus a hash of its input: equal inputs then have
            equal answers. It does not depend on blocks, so repeated rows say the same. None: none. A seed in
            sampling_params is that of every row.
        on_error: "raise", or "keep": a row that is refused has an empty answer, and the error in OUTPUT_error.
        call_options: further arguments of LLM.generate, LLM.chat or Encoder.encode, such as json_schema.
        model_options: further arguments of LLM or Encoder, such as kv_cache_bytes; `threads` is num_cpus if it is not given.
        concurrency: actors, or (min, max).
        batch_size: rows of one call; several times the model's max_num_seqs.
        num_cpus: that Ray reserves for an actor. Leave it one processor of each machine for reading and writing.
        ray_options: further arguments of Dataset.map_batches.
    """
    data = module("ray.data")
    low, high = (concurrency, concurrency) if isinstance(concurrency, int) else concurrency
    options = {"threads": max(1, int(num_cpus)), **(model_options or {})}
    arguments = {"model": model, "prompts": prompts, "messages": messages, "texts": texts, "output": output,
                 "sampling_params": sampling_params, "seed": seed, "seed_column": seed_column, "on_error": on_error,
                 "call_options": call_options, "model_options": options}
    return dataset.map_batches(Batches, fn_constructor_kwargs=arguments, batch_size=batch_size, batch_format="numpy",
                               num_cpus=num_cpus, compute=data.ActorPoolStrategy(min_size=low, max_size=high), **ray_options)
