"""A user's program, which is read by mypy and never run: the types of the package are those that users of vLLM and sentence-transformers expect."""
from typing import Any, Optional, assert_type

import numpy
from numpy.typing import NDArray

import tutti
from tutti import LLM, Encoder, PoolingParams, SamplingParams


def generate(llm: LLM) -> list[str]:
    outputs = llm.generate(["a", "b"], SamplingParams(max_tokens=3, seed=1), use_tqdm=True)
    assert_type(outputs, list[tutti.RequestOutput])
    assert_type(outputs[0].outputs[0].logprobs, Optional[list[dict[int, tutti.Logprob]]])
    llm.chat([{"role": "user", "content": "x"}], [SamplingParams()], tools=[], chat_template_kwargs={"enable_thinking": False})
    for piece in llm.stream([1, 2, 3]):
        assert_type(piece, tutti.Piece)
    return [out.outputs[0].text for out in outputs]


async def stream(llm: LLM) -> str:
    return "".join([piece.text async for piece in llm.stream("x")])


def pool(model: str) -> tuple[list[float], float]:
    with LLM(model, runner="pooling") as llm:
        embedded = llm.embed(["a"], pooling_params=PoolingParams(dimensions=64))
        scored = llm.score("a", ["b", "c"])
        assert_type(embedded[0].outputs.embedding, list[float])
        assert_type(llm.classify("a")[0].outputs.probs, list[float])
        return embedded[0].outputs.embedding, scored[0].outputs.score


def encode(encoder: Encoder) -> NDArray[numpy.float32]:
    vectors = encoder.encode(["a", "b"], normalize_embeddings=True, batch_size=32, show_progress_bar=False)
    assert_type(vectors, NDArray[numpy.float32])
    hits: list[tutti.Ranked] = encoder.rank("a", ["b"], top_k=1)
    assert_type(hits[0].score, float)
    return encoder.similarity(vectors, vectors)


def fails(llm: LLM) -> Any:
    try:
        return llm.generate("x")
    except tutti.TuttiError as error:
        return error.code + error.param
