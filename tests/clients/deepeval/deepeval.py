"""deepeval's model of a judge."""
from deepeval.models import LocalModel

from checks import MODEL, PROMPT, TOKENS, V1, Client, agree

client = Client("deepeval", section="measuring")


def judge(tokens):
    return LocalModel(model=MODEL, base_url=V1, api_key="none", temperature=0, generation_kwargs={"max_tokens": tokens})


@client.check("chat")
def chat():
    agree(judge(TOKENS).generate(PROMPT)[0])
