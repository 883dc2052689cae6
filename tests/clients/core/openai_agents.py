"""OpenAI's agents, over chat completions and over Responses."""
import agents
from openai import AsyncOpenAI

from checks import (MODEL, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, agree, agree_pieces, expected, judge_review,
                    review_type, said)

client = Client("openai-agents", section="frameworks")


def agent(kind=agents.OpenAIChatCompletionsModel, tokens=TOKENS, **options):
    settings = agents.ModelSettings(max_tokens=tokens, temperature=0, tool_choice="required" if "tools" in options else None,
                                    parallel_tool_calls=False if "tools" in options else None)
    return agents.Agent(name="clerk", model=kind(model=MODEL, openai_client=AsyncOpenAI(base_url=V1, api_key="none")),
                        model_settings=settings, **options)


def deltas(event):
    return event.data.delta if event.type == "raw_response_event" and event.data.type == "response.output_text.delta" else ""


async def streamed(one, question):
    run = agents.Runner.run_streamed(one, question, max_turns=4)
    pieces = [deltas(event) async for event in run.stream_events()]
    return run, pieces


@client.check("chat")
async def chat():
    agree((await agents.Runner.run(agent(), PROMPT)).final_output)


@client.check("stream")
async def stream():
    run, pieces = await streamed(agent(), PROMPT)
    agree_pieces(pieces)
    agree(run.final_output)


@client.check("tools")
async def tools():
    calls = Calls()
    run = await agents.Runner.run(agent(tokens=60, tools=[agents.function_tool(calls.function)]), QUESTION, max_turns=4)
    calls.judge()
    said(run.final_output)


@client.check("tools_stream")
async def tools_stream():
    calls = Calls()
    run, _ = await streamed(agent(tokens=60, tools=[agents.function_tool(calls.function)]), QUESTION)
    calls.judge()
    said(run.final_output)


@client.check("structured")
async def structured():
    judge_review((await agents.Runner.run(agent(tokens=60, output_type=review_type()), REVIEW)).final_output)


@client.check("responses")
async def responses():
    # The client treats a streamed answer that the limit cuts as an error, so this one ends by itself.
    kind, whole = agents.OpenAIResponsesModel, expected(tokens=400)
    agree((await agents.Runner.run(agent(kind, tokens=400), PROMPT)).final_output, whole)
    _, pieces = await streamed(agent(kind, tokens=400), PROMPT)
    agree_pieces(pieces, whole)
    calls = Calls()
    run, _ = await streamed(agent(kind, tokens=400, tools=[agents.function_tool(calls.function)]), QUESTION)
    calls.judge()
    said(run.final_output)
