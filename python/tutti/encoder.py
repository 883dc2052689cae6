"""Encoder: vectors and scores of texts, in this process."""
import asyncio
import dataclasses
from typing import Any, Optional, Sequence, Union

import numpy

from ._loading import Progress, open_model
from ._native import Error, decoded, encoded, ffi, lib, sized


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
        return lib().tutti_encoder_dimensions(self._encoder.get())

    @property
    def max_seq_length(self) -> int:
        """Tokens of one text."""
        return lib().tutti_encoder_context(self._encoder.get())

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

    def encode(self, sentences: Union[str, Sequence[str]], *, prompt_name: Optional[str] = None, normalize_embeddings: Optional[bool] = None,
               truncate_dim: Optional[int] = None, truncate: bool = True) -> "numpy.ndarray":
        """Vectors of texts: float32 [n, d], or [d] for one text.

        Args:
            prompt_name: one of `prompts`, put before each text; None: the model's default.
            normalize_embeddings: to length 1, or as the model leaves them; None: as the model's files say.
            truncate_dim: keep so many leading components, of a model trained for it.
            truncate: read the beginning of a text that is too long; False: InvalidArgumentError.
        """
        texts, one = ([sentences], True) if isinstance(sentences, str) else (list(sentences), False)
        options = _options(prompt_name, truncate, normalize_embeddings, truncate_dim)
        vectors = numpy.empty((len(texts), truncate_dim or self.dimension), numpy.float32)
        held, pointers = _texts(texts, "texts")
        error = Error()
        error.check(lib().tutti_embed(self._encoder.get(), pointers, len(texts), options[0], ffi.from_buffer("float[]", vectors, True),
                                      ffi.NULL, error.out))
        del held
        return vectors[0] if one else vectors

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
               raw_scores: bool = False) -> "numpy.ndarray":
        """How well each document answers the query, in their order: float32 [n]."""
        documents = list(documents)
        options = _options(prompt_name, truncate, raw_scores=raw_scores)
        asked = sized(query, "query")
        scores = numpy.empty(len(documents), numpy.float32)
        held, pointers = _texts(documents, "documents")
        error = Error()
        error.check(lib().tutti_rank(self._encoder.get(), asked[0], pointers, len(documents), options[0],
                                     ffi.from_buffer("float[]", scores, True), error.out))
        del held
        return scores

    def classify(self, texts: Union[str, Sequence[str]], *, truncate: bool = True, raw_scores: bool = False) -> "numpy.ndarray":
        """The score of each label for each text: float32 [n, labels], or [labels] for one text."""
        texts, one = ([texts], True) if isinstance(texts, str) else (list(texts), False)
        options = _options(None, truncate, raw_scores=raw_scores)
        scores = numpy.empty((len(texts), max(1, lib().tutti_encoder_labels(self._encoder.get()))), numpy.float32)
        held, pointers = _texts(texts, "texts")
        error = Error()
        error.check(lib().tutti_classify(self._encoder.get(), pointers, len(texts), options[0], ffi.from_buffer("float[]", scores, True),
                                         error.out))
        del held
        return scores[0] if one else scores

    async def encode_async(self, *arguments: Any, **named: Any) -> "numpy.ndarray":
        """encode() for asyncio."""
        return await asyncio.to_thread(self.encode, *arguments, **named)

    def close(self) -> None:
        self._encoder.close()

    def __enter__(self) -> "Encoder":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Encoder({self.model!r})"


def _names(encoder, at) -> list[str]:
    names: list[str] = []
    while (name := at(encoder, len(names))) != ffi.NULL:
        names.append(decoded(name))
    return names


def _texts(texts: Sequence[str], what: str):
    """What must live as long, and an array of tutti_text."""
    held = [sized(text, f"{what}[{index}]") for index, text in enumerate(texts)]
    return held, ffi.new("tutti_text[]", [text for text, _ in held])


def _options(prompt_name: Optional[str], truncate: bool, normalize: Optional[bool] = None, dimensions: Optional[int] = None,
             raw_scores: bool = False):
    """The options, and what must live as long."""
    name = ffi.NULL if prompt_name is None else ffi.from_buffer("char[]", encoded(prompt_name, "prompt_name") + b"\0")
    options = ffi.new("tutti_encode_options*", {
        "normalize": 0 if normalize is None else 1 if normalize else -1, "dimensions": dimensions or 0, "prompt_name": name,
        "truncate": int(truncate), "raw_scores": int(raw_scores)})
    return options, name
