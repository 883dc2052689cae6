"""The client of Hugging Face's inference: OpenAI's chat, and Text Embeddings Inference."""
import huggingface_hub

from checks import (MESSAGES, MODEL, REVIEW, TEXTS, TOKENS, TOOL, URL, V1, Client, agree, agree_pieces, agree_vectors, judge_review,
                    openai_loop, review_schema)

client = Client("huggingface_hub", section="apis")
api = huggingface_hub.InferenceClient(base_url=V1, api_key="none", timeout=60)


def ask(messages=MESSAGES, tokens=TOKENS, **options):
    return api.chat_completion(messages, model=MODEL, max_tokens=tokens, temperature=0, **options)


@client.check("chat")
def chat():
    agree(ask().choices[0].message.content)


@client.check("stream")
def stream():
    agree_pieces([chunk.choices[0].delta.content for chunk in ask(stream=True) if chunk.choices])


@client.check("tools")
def tools():
    openai_loop(lambda messages, choice: ask(messages, 60, tools=[TOOL], tool_choice=choice).choices[0].message)


@client.check("structured")
def structured():
    form = {"type": "json_schema", "json_schema": {"name": "review", "schema": review_schema(), "strict": True}}
    judge_review(ask([{"role": "user", "content": REVIEW}], 60, response_format=form).choices[0].message.content)


@client.check("embeddings")
def embeddings():
    agree_vectors(huggingface_hub.InferenceClient(api_key="none").feature_extraction(TEXTS, model=f"{URL}/embed"))
