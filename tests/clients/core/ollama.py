"""Ollama's own client."""
import ollama

from checks import (CALLER, EMBEDDER, MESSAGES, MODEL, QUESTION, REVIEW, TEXTS, TOKENS, URL, Calls, Client, agree, agree_pieces,
                    agree_vectors, expected_answer, expected_completion, judge_review, review_schema)

client = Client("ollama", section="apis")
GREEDY = {"temperature": 0, "num_predict": TOKENS}


@client.check("chat")
def chat():
    agree(ollama.Client(host=URL).chat(model=MODEL, messages=MESSAGES, options=GREEDY).message.content)


@client.check("stream")
def stream():
    parts = ollama.Client(host=URL).chat(model=MODEL, messages=MESSAGES, options=GREEDY, stream=True)
    agree_pieces([part.message.content for part in parts])


def loop(ask):
    """`ask(messages, tools)`: (text, calls)."""
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]
    text, called = ask(messages, [calls.function])
    messages.append({"role": "assistant", "content": text, "tool_calls": called})
    messages.extend({"role": "tool", "tool_name": call.function.name, "content": calls.function(**call.function.arguments)}
                    for call in called)
    calls.judge()
    text, called = ask(messages, [calls.function])
    assert not called, called
    agree(text, expected_answer())


@client.check("tools")
def tools():
    def ask(messages, offered):
        message = ollama.Client(host=URL).chat(model=CALLER, messages=messages, tools=offered, options={"temperature": 0}).message
        return message.content, message.tool_calls or []
    loop(ask)


@client.check("tools_stream")
def tools_stream():
    def ask(messages, offered):
        parts = list(ollama.Client(host=URL).chat(model=CALLER, messages=messages, tools=offered, options={"temperature": 0}, stream=True))
        return ("".join(part.message.content or "" for part in parts),
                [call for part in parts for call in part.message.tool_calls or []])
    loop(ask)


@client.check("structured")
def structured():
    answer = ollama.Client(host=URL).chat(model=MODEL, messages=[{"role": "user", "content": REVIEW}], format=review_schema(),
                                          options={**GREEDY, "num_predict": 60})
    judge_review(answer.message.content)


@client.check("completions")
def completions():
    answer = ollama.Client(host=URL).generate(model=MODEL, prompt="The capital of France is", raw=True,
                                              options={**GREEDY, "num_predict": 8})
    agree(answer.response, expected_completion())


@client.check("embeddings")
def embeddings():
    agree_vectors(ollama.Client(host=URL).embed(model=EMBEDDER, input=TEXTS).embeddings)
