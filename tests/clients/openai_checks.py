"""The checks of OpenAI's own client, for each version of it that is installed."""
import io
import json
import time

import openai

from checks import (EMBEDDER, MESSAGES, MODEL, PROMPT, QUESTION, REVIEW, TEXTS, TOKENS, V1, Calls, Client, agree, agree_pieces,
                    agree_vectors, expected_completion, judge_review, review_type, said, weather_schema)

api = openai.OpenAI(base_url=V1, api_key="none", max_retries=0)
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city now.",
                                         "parameters": weather_schema(), "strict": True}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def chat():
    answer = api.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0)
    agree(answer.choices[0].message.content)
    assert answer.usage.completion_tokens <= TOKENS and answer.choices[0].finish_reason in ("stop", "length")


def stream():
    chunks = list(api.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0, stream=True,
                                              stream_options={"include_usage": True}))
    agree_pieces([chunk.choices[0].delta.content for chunk in chunks if chunk.choices])
    assert chunks[-1].usage.completion_tokens <= TOKENS


def loop(ask):
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]
    first = ask(messages, NAMED)
    messages.append(first)
    for call in first.tool_calls:
        assert call.function.name == "get_weather"
        messages.append({"role": "tool", "tool_call_id": call.id,
                         "content": calls.record(**json.loads(call.function.arguments))})
    calls.judge()
    said(ask(messages, "none").content)


def tools():
    loop(lambda messages, choice: api.chat.completions.create(
        model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0).choices[0].message)


def tools_stream():
    def ask(messages, choice):
        with api.chat.completions.stream(model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60,
                                         temperature=0) as events:
            kinds = {event.type for event in events}
            answer = events.get_final_completion().choices[0].message
        assert not answer.tool_calls or "tool_calls.function.arguments.delta" in kinds, kinds
        return answer
    loop(ask)


def structured():
    answer = api.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": REVIEW}], response_format=review_type(),
                                        max_tokens=60, temperature=0)
    judge_review(answer.choices[0].message.parsed)


def completions():
    answer = api.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=8, temperature=0)
    agree(answer.choices[0].text, expected_completion())


def embeddings():
    agree_vectors(item.embedding for item in api.embeddings.create(model=EMBEDDER, input=TEXTS).data)


def responses():
    whole = api.responses.create(model=MODEL, input=PROMPT, max_output_tokens=TOKENS, temperature=0)
    agree(whole.output_text)
    with api.responses.stream(model=MODEL, input=PROMPT, max_output_tokens=TOKENS, temperature=0) as events:
        agree_pieces([event.delta for event in events if event.type == "response.output_text.delta"])
    tool = {"type": "function", "name": "get_weather", "description": "The weather of a city now.", "parameters": weather_schema(),
            "strict": True}
    calls, items = Calls(), [{"role": "user", "content": QUESTION}]
    first = api.responses.create(model=MODEL, input=items, tools=[tool], tool_choice={"type": "function", "name": "get_weather"},
                                 max_output_tokens=60, temperature=0)
    items += first.output
    items += [{"type": "function_call_output", "call_id": item.call_id, "output": calls.record(**json.loads(item.arguments))}
              for item in first.output if item.type == "function_call"]
    calls.judge()
    said(api.responses.create(model=MODEL, input=items, max_output_tokens=TOKENS, temperature=0).output_text)


def batches():
    line = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": MODEL, "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}}
    file = api.files.create(file=("in.jsonl", io.BytesIO(json.dumps(line).encode() + b"\n")), purpose="batch")
    batch = api.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    end = time.monotonic() + 60
    while batch.status not in ("completed", "failed", "expired", "cancelled") and time.monotonic() < end:
        time.sleep(0.05)
        batch = api.batches.retrieve(batch.id)
    assert batch.status == "completed", batch
    answer = json.loads(api.files.content(batch.output_file_id).text)
    agree(answer["response"]["body"]["choices"][0]["message"]["content"])
    assert api.files.delete(file.id).deleted


def declare(name):
    client = Client(name, section="apis", distribution="openai")
    for check in (chat, stream, tools, tools_stream, structured, completions, embeddings, responses, batches):
        client.check(check.__name__)(check)
