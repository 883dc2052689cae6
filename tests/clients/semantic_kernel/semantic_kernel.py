"""Semantic Kernel's chat service and its functions."""
from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (OpenAIChatCompletion, OpenAIChatPromptExecutionSettings, OpenAITextEmbedding)
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function

from checks import (EMBEDDER, MODEL, PROMPT, QUESTION, REVIEW, TEXTS, TOKENS, V1, Calls, Client, agree, agree_pieces, agree_vectors,
                    judge_review, review_type, said)

client = Client("semantic-kernel", section="frameworks")


def service():
    return OpenAIChatCompletion(ai_model_id=MODEL, async_client=AsyncOpenAI(base_url=V1, api_key="none"))


def settings(tokens=TOKENS, **options):
    return OpenAIChatPromptExecutionSettings(max_tokens=tokens, temperature=0, **options)


def history(text=PROMPT):
    made = ChatHistory()
    made.add_user_message(text)
    return made


@client.check("chat")
async def chat():
    agree(str(await service().get_chat_message_content(history(), settings())))


@client.check("stream")
async def stream():
    agree_pieces([str(piece) async for piece in service().get_streaming_chat_message_content(history(), settings())])


def weather(calls):
    class Plugin:
        @kernel_function(name="get_weather", description="The weather of a city now.")
        def get_weather(self, city: str) -> str:
            return calls.record(city)
    kernel = Kernel()
    kernel.add_plugin(Plugin(), plugin_name="city")
    return kernel


@client.check("tools")
async def tools():
    calls = Calls()
    options = settings(60, function_choice_behavior=FunctionChoiceBehavior.Required(), parallel_tool_calls=False)
    said(str(await service().get_chat_message_content(history(QUESTION), options, kernel=weather(calls))))
    calls.judge()


@client.check("structured")
async def structured():
    judge_review(str(await service().get_chat_message_content(history(REVIEW), settings(60, response_format=review_type()))))


@client.check("embeddings")
async def embeddings():
    agree_vectors(await OpenAITextEmbedding(ai_model_id=EMBEDDER, async_client=AsyncOpenAI(base_url=V1, api_key="none"))
                  .generate_embeddings(TEXTS))
