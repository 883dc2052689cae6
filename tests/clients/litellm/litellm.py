"""LiteLLM: one call for every provider, here its OpenAI, Anthropic, vLLM and Ollama forms."""
import json

import litellm

from checks import (CALLER, EMBEDDER, MESSAGES, MODEL, PROMPT, QUERY, QUESTION, RERANKER, REVIEW, TEXTS, TOKENS, URL, V1, Calls, Client,
                    agree, agree_pieces, agree_scores, agree_vectors, expected, expected_answer, expected_completion, judge_review,
                    review_type, said, weather_schema)

client = Client("litellm", section="frameworks")
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city now.",
                                         "parameters": weather_schema()}}
# Prefix of the model's name, and the address that this provider takes.
FORMS = (("openai/", V1), ("hosted_vllm/", V1), ("anthropic/", URL))


def ask(form, messages, tokens=TOKENS, **options):
    prefix, address = form
    return litellm.completion(model=prefix + MODEL, api_base=address, api_key="none", messages=messages, max_tokens=tokens,
                              temperature=0, num_retries=0, **options)


@client.check("chat")
def chat():
    for form in FORMS:
        agree(ask(form, MESSAGES).choices[0].message.content)


@client.check("stream")
def stream():
    for form in FORMS:
        agree_pieces([chunk.choices[0].delta.content for chunk in ask(form, MESSAGES, stream=True)])


def loop(form, **options):
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]

    def answer(choice):
        made = ask(form, messages, tokens=60, tools=[TOOL], tool_choice=choice, **options)
        return (litellm.stream_chunk_builder(list(made)) if options else made).choices[0].message
    first = answer({"type": "function", "function": {"name": "get_weather"}})
    messages.append(first.model_dump(exclude_none=True))
    messages.extend({"role": "tool", "tool_call_id": call.id, "content": calls.record(**json.loads(call.function.arguments))}
                    for call in first.tool_calls)
    calls.judge()
    said(answer("none").content)


@client.check("tools")
def tools():
    for form in FORMS:
        loop(form)


@client.check("tools_stream")
def tools_stream():
    for form in FORMS:
        loop(form, stream=True)


@client.check("structured")
def structured():
    for form in FORMS[:2]:
        judge_review(ask(form, [{"role": "user", "content": REVIEW}], tokens=60, response_format=review_type())
                     .choices[0].message.content)


@client.check("completions")
def completions():
    answer = litellm.text_completion(model="text-completion-openai/" + MODEL, api_base=V1, api_key="none",
                                     prompt="The capital of France is", max_tokens=8, temperature=0)
    agree(answer.choices[0].text, expected_completion())


@client.check("embeddings")
def embeddings():
    for prefix in ("openai/", "hosted_vllm/"):
        answer = litellm.embedding(model=prefix + EMBEDDER, api_base=V1, api_key="none", input=TEXTS)
        agree_vectors(item["embedding"] for item in answer.data)


@client.check("responses")
def responses():
    answer = litellm.responses(model="openai/" + MODEL, api_base=V1, api_key="none", input=PROMPT, max_output_tokens=TOKENS,
                               temperature=0)
    agree(answer.output[0].content[0].text)


@client.check("rerank")
def rerank():
    answer = litellm.rerank(model="hosted_vllm/" + RERANKER, api_base=URL, api_key="none", query=QUERY, documents=TEXTS)
    agree_scores({item["index"]: item["relevance_score"] for item in answer.results})


ollama_client = Client("litellm (Ollama)", section="frameworks", distribution="litellm")
# `ollama/` writes the dialog into a prompt of its own for /api/generate; `ollama_chat/` sends it to /api/chat.
PLAIN_PROMPT = f"### User:\n{PROMPT}\n\n"


def ask_ollama(form, messages=MESSAGES, model=MODEL, tokens=TOKENS, **options):
    return litellm.completion(model=form + model, api_base=URL, messages=messages, max_tokens=tokens, temperature=0, num_retries=0,
                              **options)


@ollama_client.check("chat")
def ollama_chat():
    agree(ask_ollama("ollama_chat/").choices[0].message.content)
    agree(ask_ollama("ollama/").choices[0].message.content, expected(PLAIN_PROMPT))


@ollama_client.check("stream")
def ollama_stream():
    agree_pieces([chunk.choices[0].delta.content for chunk in ask_ollama("ollama_chat/", stream=True)])
    agree_pieces([chunk.choices[0].delta.content for chunk in ask_ollama("ollama/", stream=True)], expected(PLAIN_PROMPT))


def ollama_loop(**options):
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]

    def answer():
        made = ask_ollama("ollama_chat/", messages, CALLER, 60, tools=[TOOL], **options)
        return (litellm.stream_chunk_builder(list(made)) if options else made).choices[0].message
    first = answer()
    messages.append(first.model_dump(exclude_none=True))
    messages.extend({"role": "tool", "tool_call_id": call.id, "content": calls.record(**json.loads(call.function.arguments))}
                    for call in first.tool_calls)
    calls.judge()
    agree(answer().content, expected_answer())


@ollama_client.check("tools")
def ollama_tools():
    ollama_loop()


@ollama_client.check("tools_stream")
def ollama_tools_stream():
    ollama_loop(stream=True)


@ollama_client.check("structured")
def ollama_structured():
    for form in ("ollama_chat/", "ollama/"):
        judge_review(ask_ollama(form, [{"role": "user", "content": REVIEW}], tokens=60, response_format=review_type())
                     .choices[0].message.content)


@ollama_client.check("embeddings")
def ollama_embeddings():
    agree_vectors(item["embedding"] for item in litellm.embedding(model="ollama/" + EMBEDDER, api_base=URL, input=TEXTS).data)
