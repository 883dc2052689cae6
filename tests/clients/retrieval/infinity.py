"""The generated client of Infinity, whose routes of vectors and ranking are these."""
from infinity_client import Client as Infinity
from infinity_client.api.default import embeddings as vectors
from infinity_client.api.default import rerank as ranking
from infinity_client.models import OpenAIEmbeddingInputText, RerankInput

from checks import EMBEDDER, QUERY, RERANKER, TEXTS, V1, Client, agree_scores, agree_vectors

client = Client("infinity-client", section="retrieval")


@client.check("embeddings")
def embeddings():
    with Infinity(base_url=V1) as api:
        answer = vectors.sync(client=api, body=OpenAIEmbeddingInputText.from_dict({"model": EMBEDDER, "input": TEXTS}))
        agree_vectors(item.embedding for item in answer.data)


@client.check("rerank")
def rerank():
    with Infinity(base_url=V1) as api:
        answer = ranking.sync(client=api, body=RerankInput.from_dict({"model": RERANKER, "query": QUERY, "documents": TEXTS}))
        agree_scores({item.index: item.relevance_score for item in answer.results})
