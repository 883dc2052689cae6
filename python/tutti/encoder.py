"""Encoder: vectors and scores of texts, in this process."""
import asyncio
import concurrent.futures
import dataclasses
from typing import Any, Literal, Optional, Sequence, Union, overload

import numpy
from numpy.typing import ArrayLike, NDArray

from . import errors
from ._loading import Count, Progress, open_model
from ._native import Error, decoded, encoded, ffi, lib, sized

Vectors = NDArray[numpy.float32]

_PROGRESS_STEP = 256  # texts
_QUERIES_AT_ONCE = 8  # of predict(); the model computes their pairs together


@dataclasses.dataclass(frozen=True)
class Ranked:
    """A document and how well it answers the query."""

    corpus_id: int  # its place among the documents
    score: float
    text: str


class Encoder:
    """A model of vectors, of scores of pairs or of classes, shared by all threads of the process.

        vectors = Encoder("all-minilm-l6-v2").encode(["A cat", "A dog"])  # numpy float32 [2, 384]

    Any thread may use it; the GIL is released. close(), the end of a `with` and the last reference free its memory.
    """

    def __init__(self, model: str = "all-minilm-l6-v2", *, threads: Optional[int] = None, dtype: Optional[str] = None,
                 progress: Progress = True, **options: Any):
        """Loads the model; one that is not here is fetched first. Arguments as of LLM; a model that generates gives vectors too."""
        self.model = model
        self._encoder = open_model("encoder", model, progress, {"threads": threads, "dtype": dtype, **options})

    @property
    def dimension(self) -> int:
        """Floats of a vector; 0: the model gives none."""
        return int(lib().tutti_encoder_dimensions(self._encoder.get()))

    @property
    def max_seq_length(self) -> int:
        """Tokens of one text."""
        return int(lib().tutti_encoder_context(self._encoder.get()))

    @property
    def labels(self) -> list[str]:
        """Of a classifier's scores; empty: the model gives none."""
        return _names(self._encoder.get(), lib().tutti_encoder_label)

    @property
    def prompts(self) -> list[str]:
        """The names of what can be put before a text."""
        return _names(self._encoder.get(), lib().tutti_encoder_prompt)

    def get_sentence_embedding_dimension(self) -> int:
        return self.dimension

    def get_max_seq_length(self) -> int:
        return self.max_seq_length

    @overload
    def encode(self, sentences: Union[str, Sequence[str]], *, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
               batch_size: Optional[int] = None, show_progress_bar: Optional[bool] = None, convert_to_numpy: Literal[True] = True,
               normalize_embeddings: Optional[bool] = None, truncate_dim: Optional[int] = None, truncate: bool = True) -> Vectors: ...

    @overload
    def encode(self, sentences: Union[str, Sequence[str]], *, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
               batch_size: Optional[int] = None, show_progress_bar: Optional[bool] = None, convert_to_numpy: bool,
               normalize_embeddings: Optional[bool] = None, truncate_dim: Optional[int] = None,
               truncate: bool = True) -> Union[Vectors, list[Vectors]]: ...

    def encode(self, sentences: Union[str, Sequence[str]], *, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
               batch_size: Optional[int] = None, show_progress_bar: Optional[bool] = None, convert_to_numpy: bool = True,
               normalize_embeddings: Optional[bool] = None, truncate_dim: Optional[int] = None,
               truncate: bool = True) -> Union[Vectors, list[Vectors]]:
        """Vectors of texts: float32 [n, d], or [d] for one text.

        Args:
            prompt_name: one of `prompts`, put before each text; None: the model's default.
            prompt: a text that is put before each text, of models without `prompts`.
            batch_size: texts given to the model in one call, for scripts that pass it; the vectors do not depend on it.
            show_progress_bar: counts texts at standard error.
            convert_to_numpy: False: a list of vectors instead of one array.
            normalize_embeddings: to length 1, or as the model leaves them; None: as the model's files say.
            truncate_dim: keep so many leading components, of a model trained for it.
            truncate: read the beginning of a text that is too long; False: InvalidArgumentError.
        """
        texts, one = ([sentences], True) if isinstance(sentences, str) else (list(sentences), False)
        if batch_size is not None and batch_size < 1:
            raise errors.InvalidArgumentError(f"batch_size must be at least 1, not {batch_size}", "invalid_value", "batch_size")
        vectors, _ = self._embed(self._with_prompt(texts, prompt, prompt_name), prompt_name, normalize_embeddings, truncate_dim, truncate,
                                 batch_size, bool(show_progress_bar))
        if one:
            row: Vectors = vectors[0]
            return row
        return vectors if convert_to_numpy else list(vectors)

    def encode_query(self, sentences: Union[str, Sequence[str]], **named: Any) -> Any:
        """encode() with the prompt "query", if the model has it and no other is named."""
        return self.encode(sentences, **self._named(named, ("query",)))

    def encode_document(self, sentences: Union[str, Sequence[str]], **named: Any) -> Any:
        """encode() with the prompt "document" or "passage", if the model has it and no other is named."""
        return self.encode(sentences, **self._named(named, ("document", "passage")))

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Vectors:
        """The cosine of each vector of one array with each of another: float32 [n, m]."""
        cosines: Vectors = _unit(embeddings1) @ _unit(embeddings2).T
        return cosines

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Vectors:
        """The cosine of each vector of one array with that at the same place of another: float32 [n]."""
        cosines: Vectors = numpy.sum(_unit(embeddings1) * _unit(embeddings2), axis=1)
        return cosines

    def _with_prompt(self, texts: list[str], prompt: Optional[str], prompt_name: Optional[str]) -> list[str]:
        if prompt is None:
            return texts
        if prompt_name is not None:
            raise errors.InvalidArgumentError("prompt and prompt_name cannot be given together", "invalid_value", "prompt")
        if self.prompts:  # one of them may be the default, which would stand before this one
            raise errors.InvalidArgumentError(f"the model has prompts of its own: give prompt_name ({', '.join(self.prompts)})",
                                              "invalid_value", "prompt")
        sized(prompt, "prompt")
        for index, text in enumerate(texts):
            sized(text, f"texts[{index}]")
        return [prompt + text for text in texts]

    def _named(self, named: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        if named.get("prompt") is None and named.get("prompt_name") is None:
            found = next((name for name in names if name in self.prompts), None)
            return {**named, "prompt_name": found}
        return named

    def _embed(self, texts: Sequence[str], prompt_name: Optional[str] = None, normalize: Optional[bool] = None,
               dimensions: Optional[int] = None, truncate: bool = True, batch_size: Optional[int] = None,
               progress: bool = False) -> tuple[Vectors, NDArray[numpy.int32]]:
        """The vectors, and the number of tokens that were read of each text."""
        vectors: Vectors = numpy.empty((len(texts), dimensions or self.dimension), numpy.float32)
        tokens: NDArray[numpy.int32] = numpy.empty(len(texts), numpy.int32)
        options = _options(prompt_name, truncate, normalize, dimensions)
        held, pointers = _texts(texts, "texts")
        count = Count(len(texts), "texts", progress)
        step = batch_size or (_PROGRESS_STEP if progress else max(1, len(texts)))
        for begin in range(0, max(1, len(texts)), step):
            rows = min(step, len(texts) - begin)
            error = Error()
            status = lib().tutti_embed(self._encoder.get(), pointers + begin, rows, options[0],
                                       ffi.from_buffer("float[]", vectors[begin:begin + rows], True),
                                       ffi.from_buffer("int32_t[]", tokens[begin:begin + rows], True), error.out)
            _check(error, status, begin)
            count.add(rows)
        del held
        return vectors, tokens

    def rank(self, query: str, documents: Sequence[str], *, top_k: Optional[int] = None, prompt_name: Optional[str] = None,
             truncate: bool = True) -> list[Ranked]:
        """The documents, the best answer to the query first; of equal ones the earlier.

        A cross-encoder reads the query with each document; of another model the score is the cosine of their vectors.
        """
        documents = list(documents)
        scores = self.scores(query, documents, prompt_name=prompt_name, truncate=truncate)
        order = numpy.argsort(-scores, kind="stable")[:top_k]
        return [Ranked(int(index), float(scores[index]), documents[index]) for index in order]

    def scores(self, query: str, documents: Sequence[str], *, prompt_name: Optional[str] = None, truncate: bool = True,
               raw_scores: bool = False) -> Vectors:
        """How well each document answers the query, in their order: float32 [n]."""
        documents = list(documents)
        options = _options(prompt_name, truncate, raw_scores=raw_scores)
        asked = sized(query, "query")
        scores: Vectors = numpy.empty(len(documents), numpy.float32)
        held, pointers = _texts(documents, "documents")
        error = Error()
        error.check(lib().tutti_rank(self._encoder.get(), asked[0], pointers, len(documents), options[0],
                                     ffi.from_buffer("float[]", scores, True), error.out))
        del held
        return scores

    def predict(self, sentences: Sequence[Sequence[str]], *, truncate: bool = True, raw_scores: bool = False) -> Vectors:
        """The score of each pair of texts, as CrossEncoder.predict() of sentence-transformers: float32 [n]."""
        pairs = [_pair(pair, index) for index, pair in enumerate(sentences)]
        places: dict[str, list[int]] = {}
        for index, (query, _) in enumerate(pairs):
            places.setdefault(query, []).append(index)
        scores: Vectors = numpy.empty(len(pairs), numpy.float32)

        def score(query: str, indices: list[int]) -> None:
            scores[indices] = self.scores(query, [pairs[index][1] for index in indices], truncate=truncate, raw_scores=raw_scores)

        with concurrent.futures.ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
            for done in [pool.submit(score, query, indices) for query, indices in places.items()]:
                done.result()
        return scores

    def classify(self, texts: Union[str, Sequence[str]], *, truncate: bool = True, raw_scores: bool = False) -> Vectors:
        """The score of each label for each text: float32 [n, labels], or [labels] for one text."""
        given, one = ([texts], True) if isinstance(texts, str) else (list(texts), False)
        options = _options(None, truncate, raw_scores=raw_scores)
        scores: Vectors = numpy.empty((len(given), max(1, lib().tutti_encoder_labels(self._encoder.get()))), numpy.float32)
        held, pointers = _texts(given, "texts")
        error = Error()
        error.check(lib().tutti_classify(self._encoder.get(), pointers, len(given), options[0], ffi.from_buffer("float[]", scores, True),
                                         error.out))
        del held
        if one:
            row: Vectors = scores[0]
            return row
        return scores

    async def encode_async(self, sentences: Union[str, Sequence[str]], **named: Any) -> Any:
        """encode() for asyncio."""
        return await asyncio.to_thread(lambda: self.encode(sentences, **named))

    def close(self) -> None:
        self._encoder.close()

    def __enter__(self) -> "Encoder":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Encoder({self.model!r})"


def _names(encoder: Any, at: Any) -> list[str]:
    names: list[str] = []
    while (name := at(encoder, len(names))) != ffi.NULL:
        names.append(decoded(name))
    return names


def _unit(vectors: ArrayLike) -> Vectors:
    """As rows of length 1; a row of zeros stays."""
    rows: Vectors = numpy.atleast_2d(numpy.asarray(vectors, numpy.float32))
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / numpy.maximum(lengths, 1e-12)).astype(numpy.float32, copy=False)
    return unit


def _pair(pair: Sequence[str], index: int) -> tuple[str, str]:
    if isinstance(pair, str) or len(pair) != 2:
        raise errors.InvalidArgumentError(f"pairs[{index}] must be two texts", "invalid_value", f"pairs[{index}]")
    return pair[0], pair[1]


def _check(error: Error, status: int, begin: int) -> None:
    """As error.check(), with positions among all texts and not among those of one call."""
    try:
        error.check(status)
    except errors.TuttiError as found:
        if begin and found.param.startswith("texts["):
            place = f"texts[{begin + int(found.param[6:-1])}]"
            raise type(found)(found.message.replace(found.param, place), found.code, place) from None
        raise


def _texts(texts: Sequence[str], what: str) -> tuple[Any, Any]:
    """What must live as long, and an array of tutti_text."""
    held = [sized(text, f"{what}[{index}]") for index, text in enumerate(texts)]
    return held, ffi.new("tutti_text[]", [text for text, _ in held])


def _options(prompt_name: Optional[str], truncate: bool, normalize: Optional[bool] = None, dimensions: Optional[int] = None,
             raw_scores: bool = False) -> tuple[Any, Any]:
    """The options, and what must live as long."""
    name = ffi.NULL if prompt_name is None else ffi.from_buffer("char[]", encoded(prompt_name, "prompt_name") + b"\0")
    options = ffi.new("tutti_encode_options*", {
        "normalize": 0 if normalize is None else 1 if normalize else -1, "dimensions": dimensions or 0, "prompt_name": name,
        "truncate": int(truncate), "raw_scores": int(raw_scores)})
    return options, name
