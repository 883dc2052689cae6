"""Portkey's client without its gateway."""
from portkey_ai import Portkey

from checks import MESSAGES, MODEL, TOKENS, TOOL, V1, Client, agree, agree_pieces, openai_loop

client = Client("portkey-ai", section="apis")
ASKED = {"model": MODEL, "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}


def api():
    return Portkey(base_url=V1, api_key="none", provider="openai")


@client.check("chat")
def chat():
    agree(api().chat.completions.create(**ASKED).choices[0].message.content)


@client.check("stream")
def stream():
    agree_pieces([chunk.choices[0].delta.content for chunk in api().chat.completions.create(**ASKED, stream=True) if chunk.choices])


@client.check("tools")
def tools():
    openai_loop(lambda messages, choice: api().chat.completions.create(
        model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0).choices[0].message)
