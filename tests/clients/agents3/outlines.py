"""Outlines over a server of OpenAI's API, and over vLLM's form of it."""
import openai
import outlines

from checks import MODEL, PROMPT, REVIEW, TOKENS, V1, Client, agree, agree_pieces, judge_review, review_type

client = Client("outlines", section="frameworks")


def models():
    api = openai.OpenAI(base_url=V1, api_key="none")
    return outlines.from_openai(api, MODEL), outlines.from_vllm(api, MODEL)


@client.check("chat")
def chat():
    for model in models():
        agree(model(PROMPT, max_tokens=TOKENS, temperature=0))


@client.check("stream")
def stream():
    for model in models():
        agree_pieces(list(model.stream(PROMPT, max_tokens=TOKENS, temperature=0)))


@client.check("structured")
def structured():
    plain, vllm = models()
    for model in (plain, vllm):
        judge_review(model(REVIEW, review_type(), max_tokens=60, temperature=0))
    assert vllm(REVIEW, outlines.regex("[1-5] stars"), max_tokens=10, temperature=0) in [f"{i} stars" for i in range(1, 6)]
