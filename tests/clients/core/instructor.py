"""instructor: objects of pydantic types in each of its modes."""
import instructor
import openai

from checks import MODEL, REVIEW, V1, Client, judge_review, review_type

client = Client("instructor", section="frameworks")
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": REVIEW}], "max_tokens": 60, "temperature": 0, "max_retries": 1}


def patched(mode):
    return instructor.from_openai(openai.OpenAI(base_url=V1, api_key="none"), mode=mode)


@client.check("structured")
def structured():
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        judge_review(patched(mode).chat.completions.create(response_model=review_type(), **ASKED))


@client.check("stream")
def stream():
    """Objects that grow as the answer comes."""
    made = list(patched(instructor.Mode.JSON_SCHEMA).chat.completions.create_partial(response_model=review_type(), **ASKED))
    assert len(made) > 1, made
    judge_review(made[-1])


@client.check("responses")
def responses():
    asked = {name: value for name, value in ASKED.items() if name not in ("messages", "max_tokens")}
    judge_review(patched(instructor.Mode.RESPONSES_TOOLS).responses.create(
        response_model=review_type(), input=ASKED["messages"], max_output_tokens=60, **asked))
