"""AG2's agents over OpenAI's API."""
from ag2 import Agent
from ag2.config import OpenAIConfig

from checks import MODEL, PROMPT, TOKENS, V1, Client, said

client = Client("ag2", section="frameworks")


@client.check("chat")
async def chat():
    config = OpenAIConfig(model=MODEL, base_url=V1, api_key="none", max_tokens=TOKENS, temperature=0)
    said((await Agent("clerk", config=config).ask(PROMPT)).body)
