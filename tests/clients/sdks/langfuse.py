"""Langfuse's drop-in for OpenAI's client; nothing is traced here."""
from langfuse.openai import OpenAI

from checks import MESSAGES, MODEL, TOKENS, TOOL, V1, Client, agree, agree_pieces, openai_loop

client = Client("langfuse", section="apis")
ASKED = {"model": MODEL, "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}


@client.check("chat")
def chat():
    agree(OpenAI(base_url=V1, api_key="none").chat.completions.create(**ASKED).choices[0].message.content)


@client.check("stream")
def stream():
    answer = OpenAI(base_url=V1, api_key="none").chat.completions.create(**ASKED, stream=True)
    agree_pieces([chunk.choices[0].delta.content for chunk in answer if chunk.choices])


@client.check("tools")
def tools():
    openai_loop(lambda messages, choice: OpenAI(base_url=V1, api_key="none").chat.completions.create(
        model=MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0).choices[0].message)
