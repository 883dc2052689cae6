"""The client of Hugging Face's inference: OpenAI's chat, and Text Embeddings Inference."""
import json

import huggingface_hub

from checks import (MESSAGES, MODEL, QUESTION, REVIEW, TEXTS, TOKENS, URL, V1, Calls, Client, agree, agree_pieces,
                    agree_vectors, judge_review, review_schema, said, weather_schema)

client = Client("huggingface_hub", section="apis")
api = huggingface_hub.InferenceClient(base_url=V1, api_key="none", timeout=60)
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city now.",
                                         "parameters": weather_schema()}}

NAMED = {"type": "function", "function": {"name": "get_weather"}}


def ask(messages=MESSAGES, tokens=TOKENS, **options):
    return api.chat_completion(messages, model=MODEL, max_tokens=tokens, temperature=0, **options)


@client.check("chat")
def chat():
    agree(ask().choices[0].message.content)


@client.check("stream")
def stream():
    agree_pieces([chunk.choices[0].delta.content for chunk in ask(stream=True) if chunk.choices])


@client.check("tools")
def tools():
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]
    first = ask(messages, 60, tools=[TOOL], tool_choice=NAMED).choices[0].message
    messages.append({"role": "assistant", "content": None, "tool_calls": [
        {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
        for call in first.tool_calls]})
    messages.extend({"role": "tool", "tool_call_id": call.id, "content": calls.record(**json.loads(call.function.arguments))}
                    for call in first.tool_calls)
    calls.judge()
    said(ask(messages, 60, tools=[TOOL], tool_choice="none").choices[0].message.content)


@client.check("structured", cannot="sends the schema in a form of Text Generation Inference, `response_format` of type `json_object` with "
              "`value`; the server reads the type alone", error="AssertionError: {")
def structured():
    form = {"type": "json_schema", "json_schema": {"name": "review", "schema": review_schema(), "strict": True}}
    judge_review(ask([{"role": "user", "content": REVIEW}], 60, response_format=form).choices[0].message.content)


@client.check("embeddings")
def embeddings():
    agree_vectors(huggingface_hub.InferenceClient(api_key="none").feature_extraction(TEXTS, model=f"{URL}/embed"))
