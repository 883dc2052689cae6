"""smolagents' model over OpenAI's API and its agent that calls tools."""
from smolagents import ChatMessage, MessageRole, OpenAIModel, ToolCallingAgent, tool

from checks import MODEL, PROMPT, QUESTION, TOKENS, V1, Calls, Client, agree, agree_pieces, said

client = Client("smolagents", section="frameworks")


def model(tokens=TOKENS):
    return OpenAIModel(model_id=MODEL, api_base=V1, api_key="none", max_tokens=tokens, temperature=0)


def asked():
    return [ChatMessage(role=MessageRole.USER, content=PROMPT)]


@client.check("chat")
def chat():
    agree(model().generate(asked()).content)


@client.check("stream")
def stream():
    agree_pieces([piece.content for piece in model().generate_stream(asked())])


def run(**options):
    """The agent always demands a call: of the tool or of its own `final_answer`."""
    calls = Calls()
    agent = ToolCallingAgent(tools=[tool(calls.plain)], model=model(100), max_steps=2, verbosity_level=0, **options)
    said(str(agent.run(QUESTION)))
    calls.judge()


@client.check("tools")
def tools():
    run()


@client.check("tools_stream")
def tools_stream():
    run(stream_outputs=True)
