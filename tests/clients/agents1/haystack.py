"""Haystack's generators and embedders over OpenAI's API."""
from haystack.components.embedders import OpenAIDocumentEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, Document
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from checks import (EMBEDDER, MODEL, PROMPT, QUESTION, REVIEW, TEXTS, TOKENS, V1, Calls, Client, agree, agree_pieces, agree_vectors,
                    judge_review, review_schema, said)

client = Client("haystack-ai", section="frameworks")
KEY = Secret.from_token("none")
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def ask(messages, tokens=TOKENS, callback=None, **options):
    generator = OpenAIChatGenerator(api_key=KEY, model=MODEL, api_base_url=V1, streaming_callback=callback, max_retries=0,
                                    generation_kwargs={"max_tokens": tokens, "temperature": 0, **options.pop("settings", {})})
    return generator.run(messages, **options)["replies"][0]


def asked(text=PROMPT):
    return [ChatMessage.from_user(text)]


@client.check("chat")
def chat():
    agree(ask(asked()).text)


@client.check("stream")
def stream():
    pieces = []
    agree(ask(asked(), callback=lambda chunk: pieces.append(chunk.content)).text)
    agree_pieces(pieces)


def loop(callback=None):
    calls = Calls()
    function = create_tool_from_function(calls.function)
    messages = asked(QUESTION)
    messages.append(ask(messages, 60, callback, tools=[function], settings={"tool_choice": NAMED}))
    messages += [ChatMessage.from_tool(function.invoke(**call.arguments), origin=call) for call in messages[-1].tool_calls]
    calls.judge()
    said(ask(messages, 60, callback, tools=[function], settings={"tool_choice": "none"}).text)


@client.check("tools")
def tools():
    loop()


@client.check("tools_stream")
def tools_stream():
    loop(lambda chunk: None)


@client.check("structured")
def structured():
    form = {"type": "json_schema", "json_schema": {"name": "review", "schema": review_schema(), "strict": True}}
    judge_review(ask(asked(REVIEW), 60, settings={"response_format": form}).text)


@client.check("embeddings")
def embeddings():
    embedder = OpenAIDocumentEmbedder(api_key=KEY, model=EMBEDDER, api_base_url=V1, progress_bar=False)
    agree_vectors(document.embedding for document in embedder.run([Document(content=text) for text in TEXTS])["documents"])
