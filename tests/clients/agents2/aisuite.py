"""aisuite's one interface to providers."""
import aisuite

from checks import MESSAGES, MODEL, TOKENS, V1, Client, agree

client = Client("aisuite", section="frameworks")


@client.check("chat")
def chat():
    api = aisuite.Client({"openai": {"base_url": V1, "api_key": "none"}})
    answer = api.chat.completions.create(model="openai:" + MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0)
    agree(answer.choices[0].message.content)
