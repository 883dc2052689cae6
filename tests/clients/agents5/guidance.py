"""guidance over a server of OpenAI's API."""
import guidance
from guidance import assistant, gen, user

from checks import MODEL, PROMPT, REVIEW, TOKENS, V1, Client, judge_review, review_type, said

client = Client("guidance", section="frameworks")


def model():
    return guidance.models.OpenAI(MODEL, api_key="none", base_url=V1, echo=False)


@client.check("chat")
def chat():
    """guidance does not send a temperature of 0, so the words differ each time."""
    one = model()
    with user():
        one += PROMPT
    with assistant():
        one += gen("said", max_tokens=TOKENS, temperature=0)
    said(one["said"])


@client.check("structured")
def structured():
    one = model()
    with user():
        one += REVIEW
    with assistant():
        one += guidance.json("review", schema=review_type(), max_tokens=60, temperature=0)
    judge_review(one["review"])
