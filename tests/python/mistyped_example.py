"""A program with a mistake in each line that says so, which mypy must find."""
from tutti import LLM, Encoder, SamplingParams


def wrong(llm: LLM, encoder: Encoder) -> None:
    llm.generate("x", SamplingParams(max_tokens="three"))  # mistake
    llm.generate("x", temperature=0)  # mistake
    LLM("m", runner="both")  # mistake
    text: int = llm.generate("x")[0].text  # mistake
    print(text, llm.embed("x")[0].outputs.score)  # mistake
    encoder.encode(7)  # mistake
    encoder.rank("query", ["document"])[0].name  # mistake
