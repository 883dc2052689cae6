"""aisuite's one interface to providers."""
import aisuite

from checks import MESSAGES, MODEL, TOKENS, TOOL, V1, Client, agree, openai_loop

client = Client("aisuite", section="frameworks")


def api():
    return aisuite.Client({"openai": {"base_url": V1, "api_key": "none"}})


@client.check("chat")
def chat():
    answer = api().chat.completions.create(model="openai:" + MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0)
    agree(answer.choices[0].message.content)


@client.check("tools")
def tools():
    openai_loop(lambda messages, choice: api().chat.completions.create(
        model="openai:" + MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0).choices[0].message)
