"""The client of Anthropic's API."""
import time

import anthropic

from checks import (MESSAGES, MODEL, QUESTION, REVIEW, TOKENS, URL, Calls, Client, agree, agree_pieces, judge_review, review_schema,
                    said, weather_schema)

client = Client("anthropic", section="apis")
api = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
TOOL = {"name": "get_weather", "description": "The weather of a city now.", "input_schema": weather_schema()}
GREEDY = {"temperature": 0}  # for which this version of the client has no argument


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


@client.check("chat")
def chat():
    agree(text_of(api.messages.create(model=MODEL, messages=MESSAGES, max_tokens=TOKENS, extra_body=GREEDY)))
    assert api.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens > 0


@client.check("stream")
def stream():
    with api.messages.stream(model=MODEL, messages=MESSAGES, max_tokens=TOKENS, extra_body=GREEDY) as events:
        agree_pieces(list(events.text_stream))
        agree(text_of(events.get_final_message()))


def loop(ask):
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]
    first = ask(messages, {"type": "tool", "name": "get_weather"})
    assert first.stop_reason == "tool_use", first
    messages.append({"role": "assistant", "content": first.content})
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": block.id, "content": calls.record(**block.input)}
        for block in first.content if block.type == "tool_use"]})
    calls.judge()
    said(text_of(ask(messages, {"type": "none"})))


@client.check("tools")
def tools():
    loop(lambda messages, choice: api.messages.create(
        model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, extra_body=GREEDY))


@client.check("tools_stream")
def tools_stream():
    def ask(messages, choice):
        with api.messages.stream(model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60,
                                 extra_body=GREEDY) as events:
            return events.get_final_message()
    loop(ask)


@client.check("structured")
def structured():
    answer = api.messages.create(model=MODEL, messages=[{"role": "user", "content": REVIEW}], max_tokens=60, extra_body=GREEDY,
                                 output_config={"format": {"type": "json_schema", "schema": review_schema()}})
    judge_review(text_of(answer))


@client.check("batches")
def batches():
    batch = api.messages.batches.create(requests=[{"custom_id": "one", "params": {
        "model": MODEL, "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}}])
    end = time.monotonic() + 60
    while batch.processing_status != "ended" and time.monotonic() < end:
        time.sleep(0.05)
        batch = api.messages.batches.retrieve(batch.id)
    result, = api.messages.batches.results(batch.id)
    assert result.custom_id == "one" and result.result.type == "succeeded", result
    agree(text_of(result.result.message))
