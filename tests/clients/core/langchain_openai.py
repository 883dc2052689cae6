"""LangChain's chat models and embeddings over OpenAI's API, with langgraph's agent loop."""
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from checks import (EMBEDDER, MODEL, PROMPT, QUESTION, REVIEW, TEXTS, TOKENS, V1, Calls, Client, agree, agree_pieces, agree_vectors,
                    expected_completion, judge_review, review_type, said)

client = Client("langchain-openai", section="frameworks")


def model(tokens=TOKENS, **options):
    return ChatOpenAI(base_url=V1, api_key="none", model=MODEL, max_tokens=tokens, temperature=0, max_retries=0, **options)


@client.check("chat")
def chat():
    agree(model().invoke(PROMPT).content)


@client.check("stream")
def stream():
    agree_pieces([piece.content for piece in model().stream(PROMPT)])


def loop(ask):
    calls = Calls()
    function = tool(calls.function)
    messages = [HumanMessage(QUESTION)]
    first = ask(model(60).bind_tools([function], tool_choice="get_weather"), messages)
    assert first.tool_calls and not first.invalid_tool_calls, first
    messages += [first, *(function.invoke(call) for call in first.tool_calls)]
    assert isinstance(messages[-1], ToolMessage)
    calls.judge()
    said(ask(model(60).bind_tools([function], tool_choice="none"), messages).content)


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
    for method in ("json_schema", "function_calling"):
        judge_review(model(60).with_structured_output(review_type(), method=method).invoke(REVIEW))


@client.check("completions")
def completions():
    agree(OpenAI(base_url=V1, api_key="none", model=MODEL, max_tokens=8, temperature=0).invoke("The capital of France is"),
          expected_completion())


@client.check("embeddings")
def embeddings():
    # Without its own tokenizer, which is that of OpenAI's models and is fetched from their maker.
    agree_vectors(OpenAIEmbeddings(base_url=V1, api_key="none", model=EMBEDDER, check_embedding_ctx_length=False)
                  .embed_documents(TEXTS))


@client.check("responses")
def responses():
    answering = model(use_responses_api=True)
    agree(answering.invoke(PROMPT).text)
    agree_pieces([piece.text for piece in answering.stream(PROMPT)])


graph = Client("langgraph", section="frameworks")


@graph.check("chat")
def graph_chat():
    agree(create_agent(model(), tools=[]).invoke({"messages": [HumanMessage(PROMPT)]})["messages"][-1].content)


@graph.check("stream")
def graph_stream():
    pieces = create_agent(model(), tools=[]).stream({"messages": [HumanMessage(PROMPT)]}, stream_mode="messages")
    agree_pieces([piece.content for piece, _ in pieces])


@graph.check("tools")
def graph_tools():
    """A graph whose model must call the function until it has been called."""
    calls = Calls()
    function = tool(calls.function)

    def ask(state):
        choice = "none" if calls.cities else "get_weather"
        return {"messages": [model(60).bind_tools([function], tool_choice=choice).invoke(state["messages"])]}
    built = StateGraph(MessagesState)
    built.add_node("model", ask)
    built.add_node("tools", ToolNode([function]))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition)
    built.add_edge("tools", "model")
    messages = built.compile().invoke({"messages": [HumanMessage(QUESTION)]}, {"recursion_limit": 8})["messages"]
    calls.judge()
    said(messages[-1].text)


@graph.check("structured")
def graph_structured():
    agent = create_agent(model(60), tools=[], response_format=review_type())
    judge_review(agent.invoke({"messages": [HumanMessage(REVIEW)]}, {"recursion_limit": 8})["structured_response"])
