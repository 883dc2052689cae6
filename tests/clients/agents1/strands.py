"""Strands' agents over OpenAI's API."""
from strands import Agent, tool
from strands.models.openai import OpenAIModel

from checks import MODEL, PROMPT, QUESTION, REVIEW, V1, Calls, Client, agree, agree_pieces, expected, judge_review, review_type, said

client = Client("strands-agents", section="frameworks")


LONG = 400  # it takes an answer that the limit cuts for an error, so these end by themselves


def model(tokens=LONG, **settings):
    return OpenAIModel(client_args={"base_url": V1, "api_key": "none"}, model_id=MODEL,
                       params={"max_tokens": tokens, "temperature": 0, **settings})


@client.check("chat")
def chat():
    agree(str(Agent(model=model(), callback_handler=None)(PROMPT)), expected(tokens=LONG))


@client.check("stream")
async def stream():
    agent = Agent(model=model(), callback_handler=None)
    agree_pieces([event["data"] async for event in agent.stream_async(PROMPT) if "data" in event], expected(tokens=LONG))


@client.check("tools_stream")
def tools_stream():
    """strands always streams; the request demands the call until the function is called."""
    calls = Calls()
    forced = model(tool_choice={"type": "function", "function": {"name": "get_weather"}})

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city now."""
        forced.update_config(params={"max_tokens": LONG, "temperature": 0, "stop": ["."]})
        return calls.record(city)
    said(str(Agent(model=forced, tools=[get_weather], callback_handler=None)(QUESTION)))
    calls.judge()


@client.check("structured")
def structured():
    judge_review(Agent(model=model(), callback_handler=None).structured_output(review_type(), REVIEW))
