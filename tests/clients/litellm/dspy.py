"""DSPy's language model and embeddings, through LiteLLM."""
import dspy

from checks import EMBEDDER, MODEL, PROMPT, TEXTS, TOKENS, V1, Client, agree, agree_vectors

client = Client("dspy", section="frameworks")


def model(tokens=TOKENS, **options):
    return dspy.LM("openai/" + MODEL, api_base=V1, api_key="none", max_tokens=tokens, temperature=0, cache=False, num_retries=0,
                   **options)


@client.check("chat")
def chat():
    agree(model()(PROMPT)[0])


@client.check("embeddings")
def embeddings():
    agree_vectors(dspy.Embedder("openai/" + EMBEDDER, api_base=V1, api_key="none", caching=False)(TEXTS))


@client.check("responses")
def responses():
    answer = model(model_type="responses")(PROMPT)[0]
    agree(answer["text"] if isinstance(answer, dict) else answer)
