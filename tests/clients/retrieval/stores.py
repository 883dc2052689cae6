"""Vector stores that get their vectors from a server."""
import tempfile

import chromadb
from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction

from checks import EMBEDDER, TEXTS, V1, Client, agree_vectors


@Client("chromadb", section="retrieval").check("embeddings")
def chroma():
    function = OpenAIEmbeddingFunction(api_key="none", api_base=V1, model_name=EMBEDDER)
    agree_vectors(function(TEXTS))
    with tempfile.TemporaryDirectory() as folder:
        collection = chromadb.PersistentClient(folder).create_collection("texts", embedding_function=function)
        collection.add(ids=["0", "1", "2"], documents=TEXTS)
        assert collection.query(query_texts=["A dog barks."], n_results=1)["ids"] == [["1"]]
