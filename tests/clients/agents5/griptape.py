"""Griptape's drivers and agent."""
from griptape.common import PromptStack
from griptape.drivers.embedding.openai import OpenAiEmbeddingDriver
from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent
from griptape.tokenizers import SimpleTokenizer
from griptape.utils import Stream

from checks import EMBEDDER, MODEL, PROMPT, TEXTS, TOKENS, V1, Client, agree, agree_vectors, said

client = Client("griptape", section="frameworks")


def driver(**options):
    return OpenAiChatPromptDriver(model=MODEL, base_url=V1, api_key="none", max_tokens=TOKENS, temperature=0, max_attempts=1, **options)


@client.check("chat")
def chat():
    stack = PromptStack()
    stack.add_user_message(PROMPT)
    agree(driver().run(stack).to_text())
    said(Agent(prompt_driver=driver()).run(PROMPT).output.value)


@client.check("stream")
def stream():
    pieces = [piece.value for piece in Stream(Agent(prompt_driver=driver(stream=True))).run(PROMPT)]
    assert len([piece for piece in pieces if piece]) > 2, pieces


@client.check("embeddings")
def embeddings():
    # griptape's own tokenizer, that of OpenAI's models, is downloaded from OpenAI.
    tokenizer = SimpleTokenizer(max_input_tokens=256, max_output_tokens=1, characters_per_token=4)
    embedder = OpenAiEmbeddingDriver(model=EMBEDDER, base_url=V1, api_key="none", tokenizer=tokenizer)
    agree_vectors(embedder.embed(text) for text in TEXTS)
