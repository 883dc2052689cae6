"""CAMEL's model backends and its agent."""
from camel.agents import ChatAgent
from camel.models import ModelFactory
from camel.types import ModelPlatformType
from camel.utils import BaseTokenCounter

from checks import (MESSAGES, MODEL, NAMED, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, agree, judge_review, review_type,
                    said)

client = Client("camel-ai", section="frameworks")


class Counter(BaseTokenCounter):
    """Replaces camel's own counter, which downloads the tokenizer of OpenAI's models."""

    def count_tokens_from_messages(self, messages):
        return sum(len(str(message.get("content"))) for message in messages) // 4

    def encode(self, text):
        return list(text.encode())

    def decode(self, token_ids):
        return bytes(token_ids).decode()


def model(tokens=TOKENS, **options):
    return ModelFactory.create(ModelPlatformType.OPENAI_COMPATIBLE_MODEL, MODEL, url=V1, api_key="none", token_counter=Counter(),
                               model_config_dict={"max_tokens": tokens, "temperature": 0, **options})


@client.check("chat")
def chat():
    agree(model().run(MESSAGES).choices[0].message.content)
    agree(ChatAgent(model=model()).step(PROMPT).msgs[0].content)


@client.check("tools")
def tools():
    """The model must call the function until it has been called."""
    calls = Calls()
    forced = model(60, tool_choice=NAMED)

    def get_weather(city: str) -> str:
        """The weather of a city now.

        Args:
            city (str): The name of the city.
        """
        forced.model_config_dict["tool_choice"] = "none"
        return calls.record(city)
    said(ChatAgent(model=forced, tools=[get_weather]).step(QUESTION).msgs[0].content)
    calls.judge()


@client.check("structured")
def structured():
    judge_review(ChatAgent(model=model(60)).step(REVIEW, response_format=review_type()).msgs[0].parsed)
