"""Clients that makers publish for their own services, with the address of this server."""
import cohere
import groq
import mistralai.client
import together
import voyageai
from llama_stack_client import LlamaStackClient

from checks import (EMBEDDER, MESSAGES, MODEL, QUERY, RERANKER, TEXTS, TOKENS, TOOL, URL, V1, Client, agree, agree_pieces,
                    agree_scores, agree_vectors, openai_loop)

ASKED = {"model": MODEL, "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}


def text_of(answer):
    return answer.choices[0].message.content


def pieces_of(stream):
    return [chunk.choices[0].delta.content for chunk in stream if chunk.choices]


def declare(name, make, stream=True):
    client = Client(name, section="apis")
    client.check("chat")(lambda: agree(text_of(make().chat.completions.create(**ASKED))))
    if stream:
        client.check("stream")(lambda: agree_pieces(pieces_of(make().chat.completions.create(**ASKED, stream=True))))
    client.check("tools")(lambda: openai_loop(lambda messages, choice: make().chat.completions.create(
        model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0).choices[0].message))
    return client


together_client = declare("together", lambda: together.Together(base_url=URL, api_key="none"))


@together_client.check("embeddings")
def together_embeddings():
    agree_vectors(item.embedding for item in together.Together(base_url=URL, api_key="none").embeddings.create(
        model=EMBEDDER, input=TEXTS).data)


@Client("llama-stack-client", section="apis").check("chat", cannot="its path is `/v1/openai/v1/chat/completions`, below any address "
                                                    "it is given", error="NotFoundError")
def llama_stack_chat():
    agree(text_of(LlamaStackClient(base_url=URL, api_key="none").chat.completions.create(**ASKED)))


@Client("groq", section="apis").check("chat", cannot="its path is `/openai/v1/chat/completions`, below any address it is given",
                                      error="NotFoundError")
def groq_chat():
    agree(text_of(groq.Groq(base_url=URL, api_key="none").chat.completions.create(**ASKED)))


mistral = Client("mistralai", section="apis")


@mistral.check("chat")
def mistral_chat():
    with mistralai.client.Mistral(server_url=URL, api_key="none") as api:
        agree(text_of(api.chat.complete(**ASKED)))


@mistral.check("stream")
def mistral_stream():
    with mistralai.client.Mistral(server_url=URL, api_key="none") as api:
        agree_pieces([event.data.choices[0].delta.content for event in api.chat.stream(**ASKED)])


@mistral.check("tools")
def mistral_tools():
    with mistralai.client.Mistral(server_url=URL, api_key="none") as api:
        openai_loop(lambda messages, choice: api.chat.complete(
            model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0).choices[0].message)


@mistral.check("embeddings")
def mistral_embeddings():
    with mistralai.client.Mistral(server_url=URL, api_key="none") as api:
        agree_vectors(item.embedding for item in api.embeddings.create(model=EMBEDDER, inputs=TEXTS).data)


@Client("cohere", section="retrieval").check("rerank")
def cohere_rerank():
    for api in (cohere.Client(base_url=URL, api_key="none"), cohere.ClientV2(base_url=URL, api_key="none")):
        answer = api.rerank(model=RERANKER, query=QUERY, documents=TEXTS)
        agree_scores({item.index: item.relevance_score for item in answer.results})


voyage = Client("voyageai", section="retrieval")


@voyage.check("embeddings")
def voyage_embeddings():
    agree_vectors(voyageai.Client(api_key="none", base_url=V1).embed(TEXTS, model=EMBEDDER).embeddings)


@voyage.check("rerank", cannot="reads the answer of Voyage's own API, whose list is `data` and not `results`", error="AttributeError: data")
def voyage_rerank():
    answer = voyageai.Client(api_key="none", base_url=V1).rerank(QUERY, TEXTS, model=RERANKER)
    agree_scores({item.index: item.relevance_score for item in answer.results})
