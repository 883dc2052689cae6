"""AutoGen's client of models and its assistant."""
import json

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from checks import (MODEL, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, agree, agree_pieces, judge_review, review_type, said)

client = Client("autogen-ext", section="frameworks")
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def model(tokens=TOKENS, **options):
    return OpenAIChatCompletionClient(model=MODEL, base_url=V1, api_key="none", model_info=INFO, max_tokens=tokens, temperature=0,
                                      max_retries=0, **options)


def asked(text=PROMPT):
    return [UserMessage(content=text, source="user")]


@client.check("chat")
async def chat():
    agree((await model().create(asked())).content)
    result = await AssistantAgent("clerk", model_client=model(), system_message=None).run(task=PROMPT)
    agree(result.messages[-1].content)


@client.check("stream")
async def stream():
    agree_pieces([piece async for piece in model().create_stream(asked()) if isinstance(piece, str)])


async def loop(ask):
    calls = Calls()
    function = FunctionTool(calls.function, description="The weather of a city now.")
    messages = asked(QUESTION)
    first = await ask(messages, tools=[function], tool_choice=function)
    results = [FunctionExecutionResult(call_id=call.id, name=call.name, is_error=False, content=await function.run_json(
        json.loads(call.arguments), CancellationToken())) for call in first.content]
    messages += [AssistantMessage(content=first.content, source="clerk"), FunctionExecutionResultMessage(content=results)]
    calls.judge()
    said((await ask(messages, tools=[function], tool_choice="none")).content)


@client.check("tools")
async def tools():
    await loop(model(60).create)


@client.check("tools_stream")
async def tools_stream():
    async def ask(messages, **options):
        return [piece async for piece in model(60).create_stream(messages, **options)][-1]
    await loop(ask)


@client.check("structured")
async def structured():
    judge_review((await model(60).create(asked(REVIEW), json_output=review_type())).content)
