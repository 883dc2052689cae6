"""any-llm's one interface to providers."""
import any_llm

from checks import EMBEDDER, MESSAGES, MODEL, PROMPT, TEXTS, TOKENS, V1, Client, agree, agree_pieces, agree_vectors

client = Client("any-llm-sdk", section="frameworks")
WHERE = {"provider": "openai", "api_base": V1, "api_key": "none"}


@client.check("chat")
def chat():
    agree(any_llm.completion(MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0, **WHERE).choices[0].message.content)


@client.check("stream")
def stream():
    chunks = any_llm.completion(MODEL, messages=MESSAGES, max_tokens=TOKENS, temperature=0, stream=True, **WHERE)
    agree_pieces([chunk.choices[0].delta.content for chunk in chunks if chunk.choices])


@client.check("embeddings")
def embeddings():
    agree_vectors(item.embedding for item in any_llm.embedding(EMBEDDER, TEXTS, **WHERE).data)


@client.check("responses")
def responses():
    agree(any_llm.responses(MODEL, input_data=PROMPT, max_output_tokens=TOKENS, temperature=0, **WHERE).output_text)
