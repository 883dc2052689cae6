"""LangChain's chat model and embeddings over Ollama's API."""
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM

from checks import (CALLER, EMBEDDER, MODEL, PROMPT, QUESTION, REVIEW, TEXTS, TOKENS, URL, Calls, Client, agree, agree_pieces, agree_vectors,
                    expected_answer, judge_review, review_type)

client = Client("langchain-ollama", section="frameworks")


def model(name=MODEL, tokens=TOKENS):
    return ChatOllama(base_url=URL, model=name, num_predict=tokens, temperature=0)


@client.check("chat")
def chat():
    # The last one asks for the model with /api/show or /api/tags first.
    for one in (model(), ChatOllama(base_url=URL, model=MODEL, num_predict=TOKENS, temperature=0, validate_model_on_init=True)):
        agree(one.invoke(PROMPT).content)


@client.check("stream")
def stream():
    agree_pieces([piece.content for piece in model().stream(PROMPT)])


def loop(ask):
    calls = Calls()
    function = tool(calls.function)
    bound = model(CALLER, 60).bind_tools([function])
    messages = [HumanMessage(QUESTION)]
    first = ask(bound, messages)
    assert first.tool_calls and not first.invalid_tool_calls, first
    messages += [first, *(function.invoke(call) for call in first.tool_calls)]
    calls.judge()
    agree(ask(bound, messages).content, expected_answer())


@client.check("tools")
def tools():
    loop(lambda bound, messages: bound.invoke(messages))


@client.check("tools_stream")
def tools_stream():
    def ask(bound, messages):
        whole = None
        for piece in bound.stream(messages):
            whole = piece if whole is None else whole + piece
        return whole
    loop(ask)


@client.check("structured")
def structured():
    judge_review(model(tokens=60).with_structured_output(review_type(), method="json_schema").invoke(REVIEW))


@client.check("completions")
def completions():
    """A prompt without a dialog is still written into the chat template by Ollama's API."""
    agree(OllamaLLM(base_url=URL, model=MODEL, num_predict=TOKENS, temperature=0).invoke(PROMPT))


@client.check("embeddings")
def embeddings():
    agree_vectors(OllamaEmbeddings(base_url=URL, model=EMBEDDER).embed_documents(TEXTS))
