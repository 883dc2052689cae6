"""any-llm's one interface to providers."""
import any_llm

from checks import (EMBEDDER, MESSAGES, MODEL, PROMPT, REVIEW, TEXTS, TOKENS, TOOL, V1, Client, agree, agree_pieces, agree_vectors,
                    judge_review, openai_loop, review_type)

client = Client("any-llm-sdk", section="frameworks")
WHERE = {"provider": "openai", "api_base": V1, "api_key": "none"}


@client.check("chat")
def chat():
    agree(any_llm.completion(MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0, **WHERE).choices[0].message.content)


@client.check("stream")
def stream():
    chunks = any_llm.completion(MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0, stream=True, **WHERE)
    agree_pieces([chunk.choices[0].delta.content for chunk in chunks if chunk.choices])


@client.check("tools")
def tools():
    openai_loop(lambda messages, choice: any_llm.completion(
        MODEL, messages=messages, tools=[TOOL], tool_choice=choice, max_tokens=60, temperature=0, **WHERE).choices[0].message)


@client.check("structured")
def structured():
    answer = any_llm.completion(MODEL, messages=[{"role": "user", "content": REVIEW}], response_format=review_type(), max_tokens=60,
                                temperature=0, **WHERE)
    judge_review(answer.choices[0].message.content)


@client.check("embeddings")
def embeddings():
    agree_vectors(item.embedding for item in any_llm.embedding(EMBEDDER, TEXTS, **WHERE).data)


@client.check("responses")
def responses():
    agree(any_llm.responses(MODEL, input_data=PROMPT, max_output_tokens=TOKENS, temperature=0, **WHERE).output_text)
