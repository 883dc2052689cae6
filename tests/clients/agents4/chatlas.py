"""chatlas over OpenAI's API and Anthropic's."""
from chatlas import ChatAnthropic, ChatOpenAICompletions

from checks import (MODEL, NAMED, PROMPT, QUESTION, REVIEW, TOKENS, URL, V1, Calls, Client, agree, agree_pieces, judge_review, review_type,
                    said)

client = Client("chatlas", section="frameworks")


def chats(tokens=TOKENS):
    yield ChatOpenAICompletions(model=MODEL, base_url=V1, api_key="none"), {"max_tokens": tokens, "temperature": 0}
    yield ChatAnthropic(model=MODEL, max_tokens=tokens, api_key="none", kwargs={"base_url": URL}), {
        "extra_body": {"temperature": 0}}


@client.check("chat")
def chat():
    for one, options in chats():
        agree(str(one.chat(PROMPT, echo="none", stream=False, kwargs=options)))


@client.check("stream")
def stream():
    for one, options in chats():
        agree_pieces(list(one.stream(PROMPT, echo="none", kwargs=options)))


@client.check("tools")
def tools():
    """Over OpenAI's API; the model must call the function until it has been called."""
    calls = Calls()
    one, options = next(chats(60))

    def get_weather(city: str) -> str:
        """The weather of a city now."""
        options["tool_choice"] = "none"
        return calls.record(city)
    one.register_tool(get_weather)
    options["tool_choice"] = NAMED
    said(str(one.chat(QUESTION, echo="none", stream=False, kwargs=options)))
    calls.judge()


@client.check("structured")
def structured():
    # Over OpenAI's API alone: for Anthropic's API, chatlas declares the required object as optional in the tool's
    # schema.
    one, options = next(chats(60))
    judge_review(one.chat_structured(REVIEW, data_model=review_type(), kwargs=options))
