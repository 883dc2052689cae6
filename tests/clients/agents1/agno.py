"""Agno's agents over an OpenAI-like model."""
from agno.agent import Agent
from agno.models.openai.like import OpenAILike

from checks import MODEL, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, agree, agree_pieces, judge_review, review_type, said

client = Client("agno", section="frameworks")


def agent(tokens=TOKENS, **options):
    return Agent(model=OpenAILike(id=MODEL, base_url=V1, api_key="none", max_tokens=tokens, temperature=0), telemetry=False, **options)


@client.check("chat")
def chat():
    agree(agent().run(PROMPT).content)


@client.check("stream")
def stream():
    agree_pieces([event.content for event in agent().run(PROMPT, stream=True) if event.event == "RunContent"])


def weather(calls):
    """The function, and the agent that must call it in its first step and may not in later ones."""
    def get_weather(city: str) -> str:
        """The weather of a city now."""
        one.model.request_params = {"tool_choice": "none"}
        return calls.record(city)
    one = agent(60, tools=[get_weather])
    one.model.request_params = {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    return one


@client.check("tools")
def tools():
    calls = Calls()
    said(weather(calls).run(QUESTION).content)
    calls.judge()


@client.check("tools_stream")
def tools_stream():
    calls = Calls()
    said("".join(event.content for event in weather(calls).run(QUESTION, stream=True) if event.event == "RunContent"))
    calls.judge()


@client.check("structured")
def structured():
    judge_review(agent(60, output_schema=review_type()).run(REVIEW).content)
