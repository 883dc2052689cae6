"""LangChain's chat models of other makers, each with the address of this server."""
from langchain_anthropic import ChatAnthropic
from langchain_community.embeddings import InfinityEmbeddings
from langchain_community.llms import VLLMOpenAI
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_deepseek import ChatDeepSeek
from langchain_huggingface import ChatHuggingFace, HuggingFaceEndpoint, HuggingFaceEndpointEmbeddings
from langchain_nvidia_ai_endpoints import ChatNVIDIA, NVIDIAEmbeddings
from langchain_together import ChatTogether, TogetherEmbeddings
from langchain_xai import ChatXAI

from checks import (EMBEDDER, MODEL, PROMPT, QUESTION, REVIEW, TEXTS, TOKENS, URL, V1, Calls, Client, agree, agree_pieces,
                    agree_vectors, expected_completion, judge_review, review_type, said)


def loop(make, ask):
    calls = Calls()
    function = tool(calls.function)
    messages = [HumanMessage(QUESTION)]
    first = ask(make(60).bind_tools([function], tool_choice="get_weather"), messages)
    assert first.tool_calls and not first.invalid_tool_calls, first
    messages += [first, *(function.invoke(call) for call in first.tool_calls)]
    calls.judge()
    said(ask(make(60), messages).text)


def stream_whole(bound, messages):
    whole = None
    for piece in bound.stream(messages):
        whole = piece if whole is None else whole + piece
    return whole


def declare(name, make, structured="json_schema", tools=True):
    """The checks of one chat model; `make(tokens)` makes it."""
    client = Client(name, section="frameworks")
    client.check("chat")(lambda: agree(make(TOKENS).invoke(PROMPT).text))
    client.check("stream")(lambda: agree_pieces([piece.text for piece in make(TOKENS).stream(PROMPT)]))
    if tools:
        client.check("tools")(lambda: loop(make, lambda bound, messages: bound.invoke(messages)))
        client.check("tools_stream")(lambda: loop(make, stream_whole))
    if structured:
        client.check("structured")(lambda: judge_review(
            make(60).with_structured_output(review_type(), method=structured).invoke(REVIEW)))
    return client


declare("langchain-anthropic", lambda tokens: ChatAnthropic(
    base_url=URL, api_key="none", model=MODEL, max_tokens=tokens, temperature=0, max_retries=0))
declare("langchain-deepseek", lambda tokens: ChatDeepSeek(
    api_base=V1, api_key="none", model=MODEL, max_tokens=tokens, temperature=0, max_retries=0), structured="function_calling")
declare("langchain-xai", lambda tokens: ChatXAI(
    base_url=V1, api_key="none", model=MODEL, max_tokens=tokens, temperature=0, max_retries=0))
together = declare("langchain-together", lambda tokens: ChatTogether(
    base_url=V1, api_key="none", model=MODEL, max_tokens=tokens, temperature=0, max_retries=0))
nvidia = declare("langchain-nvidia-ai-endpoints", lambda tokens: ChatNVIDIA(
    base_url=V1, api_key="none", model=MODEL, max_tokens=tokens, temperature=0), structured="json_schema")


@together.check("embeddings")
def together_embeddings():
    agree_vectors(TogetherEmbeddings(base_url=V1, api_key="none", model=EMBEDDER).embed_documents(TEXTS))


@nvidia.check("embeddings", cannot="always sends NVIDIA's own `input_type`, which the server refuses by name",
              error="input_type is not supported")
def nvidia_embeddings():
    agree_vectors(NVIDIAEmbeddings(base_url=V1, api_key="none", model=EMBEDDER).embed_documents(TEXTS))


huggingface = Client("langchain-huggingface", section="frameworks")


@huggingface.check("chat", cannot="asks for a model called `dummy`, whatever it is given; that needs `--any-model-name on`",
                   error='model .?"dummy.?" is not served here')
def huggingface_chat():
    endpoint = HuggingFaceEndpoint(endpoint_url=V1, huggingfacehub_api_token="none", task="text-generation")
    agree(ChatHuggingFace(llm=endpoint, model_id=MODEL, max_tokens=TOKENS, temperature=0).invoke(PROMPT).text)


@huggingface.check("embeddings", cannot="takes the name of a repository of the hub and no address", error="must be a HuggingFace repo ID")
def huggingface_embeddings():
    agree_vectors(HuggingFaceEndpointEmbeddings(model=URL + "/embed", huggingfacehub_api_token="none").embed_documents(TEXTS))


community = Client("langchain-community", section="frameworks")


@community.check("completions")
def community_completions():
    model = VLLMOpenAI(openai_api_key="none", openai_api_base=V1, model_name=MODEL, max_tokens=8, temperature=0)
    agree(model.invoke("The capital of France is"), expected_completion())


@community.check("embeddings")
def community_embeddings():
    agree_vectors(InfinityEmbeddings(model=EMBEDDER, infinity_api_url=V1).embed_documents(TEXTS))
