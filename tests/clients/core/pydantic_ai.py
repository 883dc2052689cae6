"""Pydantic AI over chat completions and over Responses."""
from pydantic_ai import Agent, NativeOutput, Tool, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from checks import MODEL, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, agree, agree_pieces, judge_review, review_type, said

client = Client("pydantic-ai", section="frameworks", distribution="pydantic-ai-slim")


def agent(kind=OpenAIChatModel, tokens=TOKENS, **options):
    return Agent(kind(MODEL, provider=OpenAIProvider(base_url=V1, api_key="none")),
                 model_settings={"max_tokens": tokens, "temperature": 0}, **options)


async def pieces_of(one, question):
    async with one.run_stream(question) as run:
        return [piece async for piece in run.stream_text(delta=True, debounce_by=None)]


@client.check("chat")
async def chat():
    agree((await agent().run(PROMPT)).output)


@client.check("stream")
async def stream():
    agree_pieces(await pieces_of(agent(), PROMPT))


def with_weather(calls, kind=OpenAIChatModel):
    """An agent whose first step must call the function, and whose later ones may not."""
    def settings(context):
        return {"max_tokens": 60, "temperature": 0, "tool_choice": "none" if calls.cities else "required"}
    return Agent(kind(MODEL, provider=OpenAIProvider(base_url=V1, api_key="none")), model_settings=settings,
                 tools=[Tool(calls.function, takes_ctx=False)])


@client.check("tools")
async def tools():
    calls = Calls()
    result = await with_weather(calls).run(QUESTION)
    calls.judge()
    said(result.output)


@client.check("tools_stream")
async def tools_stream():
    calls = Calls()
    pieces = await pieces_of(with_weather(calls), QUESTION)
    calls.judge()
    said("".join(pieces))


@client.check("structured")
async def structured():
    for output in (NativeOutput, ToolOutput):
        judge_review((await agent(tokens=60, output_type=output(review_type())).run(REVIEW)).output)


@client.check("responses")
async def responses():
    agree((await agent(OpenAIResponsesModel).run(PROMPT)).output)
    agree_pieces(await pieces_of(agent(OpenAIResponsesModel), PROMPT))
    judge_review((await agent(OpenAIResponsesModel, tokens=60, output_type=review_type()).run(REVIEW)).output)
    calls = Calls()
    result = await with_weather(calls, OpenAIResponsesModel).run(QUESTION)
    calls.judge()
    said(result.output)
