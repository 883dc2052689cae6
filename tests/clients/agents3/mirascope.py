"""Mirascope's calls over OpenAI's API."""
from mirascope import llm

from checks import MODEL, PROMPT, REVIEW, TOKENS, V1, Client, judge_review, review_type, said

client = Client("mirascope", section="frameworks")
llm.register_provider("openai:completions", scope="tutti/", base_url=V1, api_key="none")


def model(tokens=TOKENS):
    return llm.model("tutti/" + MODEL, max_tokens=tokens, seed=1)


# mirascope takes an unknown model for a reasoning model and sends it no temperature.
@client.check("chat")
def chat():
    said(model().call(PROMPT).text())


@client.check("stream")
def stream():
    pieces = [piece for piece in model().stream(PROMPT).text_stream() if piece]
    assert len(pieces) > 2, pieces


@client.check("structured")
def structured():
    judge_review(model(400).call(REVIEW, format=review_type()).parse())
