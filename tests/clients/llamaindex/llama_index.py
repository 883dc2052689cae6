"""LlamaIndex's models, embeddings and ranking over OpenAI's and Ollama's APIs and over Text Embeddings Inference."""
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference as TeiRerank

from checks import (CALLER, EMBEDDER, MODEL, PROMPT, QUERY, QUESTION, REVIEW, TEXTS, TOKENS, URL, V1, Calls, Client, agree, agree_pieces,
                    agree_scores, agree_vectors, expected_answer, expected_completion, judge_review, review_type, said)

client = Client("llama-index-llms-openai-like", section="frameworks")


def model(tokens=TOKENS, **options):
    return OpenAILike(model=MODEL, api_base=V1, api_key="none", is_chat_model=True, is_function_calling_model=True,
                      context_window=2048, max_tokens=tokens, temperature=0, max_retries=0, **options)


def asked(text=PROMPT):
    return [ChatMessage(role="user", content=text)]


@client.check("chat")
def chat():
    agree(model().chat(asked()).message.content)


@client.check("stream")
def stream():
    agree_pieces([piece.delta for piece in model().stream_chat(asked())])


def loop(ask):
    calls = Calls()
    function = FunctionTool.from_defaults(calls.function)
    messages = asked(QUESTION)
    first = ask(model(60), messages, "required")
    messages.append(first.message)
    for call in model().get_tool_calls_from_response(first):
        messages.append(ChatMessage(role="tool", content=str(function.call(**call.tool_kwargs)),
                                    additional_kwargs={"tool_call_id": call.tool_id}))
    calls.judge()
    said(ask(model(60), messages, "none").message.content)


@client.check("tools")
def tools():
    loop(lambda one, messages, choice: one.chat_with_tools(
        [FunctionTool.from_defaults(Calls().function)], chat_history=messages, tool_choice=choice))


@client.check("tools_stream")
def tools_stream():
    loop(lambda one, messages, choice: list(one.stream_chat_with_tools(
        [FunctionTool.from_defaults(Calls().function)], chat_history=messages, tool_choice=choice))[-1])


@client.check("structured")
def structured():
    judge_review(model(60, should_use_structured_outputs=True).as_structured_llm(review_type()).complete(REVIEW).raw)


@client.check("completions")
def completions():
    answer = OpenAILike(model=MODEL, api_base=V1, api_key="none", is_chat_model=False, context_window=2048, max_tokens=8,
                        temperature=0).complete("The capital of France is")
    agree(answer.text, expected_completion())


responses_client = Client("llama-index-llms-openai", section="frameworks")


@responses_client.check("responses")
def responses():
    one = OpenAIResponses(model=MODEL, api_base=V1, api_key="none", max_output_tokens=TOKENS, temperature=0, context_window=2048)
    agree(one.chat(asked()).message.content)
    agree_pieces([piece.delta for piece in one.stream_chat(asked())])


@Client("llama-index-embeddings-openai-like", section="retrieval").check("embeddings")
def embeddings():
    agree_vectors(OpenAILikeEmbedding(model_name=EMBEDDER, api_base=V1, api_key="none").get_text_embedding_batch(TEXTS))


@Client("llama-index-embeddings-text-embeddings-inference", section="retrieval").check("embeddings")
def tei_embeddings():
    agree_vectors(TextEmbeddingsInference(model_name=EMBEDDER, base_url=URL).get_text_embedding_batch(TEXTS))


@Client("llama-index-postprocessor-tei-rerank", section="retrieval").check("rerank")
def tei_rerank():
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(i))) for i, text in enumerate(TEXTS)]
    ranked = TeiRerank(base_url=URL, top_n=len(TEXTS)).postprocess_nodes(nodes, query_str=QUERY)
    agree_scores({int(node.node.node_id): node.score for node in ranked})


ollama_client = Client("llama-index-llms-ollama", section="frameworks")


def ollama_model(name=MODEL, tokens=TOKENS):
    return Ollama(base_url=URL, model=name, temperature=0, context_window=2048, request_timeout=60,
                  additional_kwargs={"num_predict": tokens})


@ollama_client.check("chat")
def ollama_chat():
    agree(ollama_model().chat(asked()).message.content)


@ollama_client.check("stream")
def ollama_stream():
    agree_pieces([piece.delta for piece in ollama_model().stream_chat(asked())])


def ollama_loop(ask):
    calls = Calls()
    function = FunctionTool.from_defaults(calls.function)
    messages = asked(QUESTION)
    one = ollama_model(CALLER, 60)
    first = ask(one, function, messages)
    messages.append(first.message)
    for call in one.get_tool_calls_from_response(first):
        messages.append(ChatMessage(role="tool", content=str(function.call(**call.tool_kwargs)),
                                    additional_kwargs={"tool_call_id": call.tool_id}))
    calls.judge()
    agree(ask(one, function, messages).message.content, expected_answer())


@ollama_client.check("tools")
def ollama_tools():
    ollama_loop(lambda one, function, messages: one.chat_with_tools([function], chat_history=messages))


@ollama_client.check("tools_stream")
def ollama_tools_stream():
    ollama_loop(lambda one, function, messages: list(one.stream_chat_with_tools([function], chat_history=messages))[-1])


@ollama_client.check("structured")
def ollama_structured():
    judge_review(ollama_model(tokens=60).as_structured_llm(review_type()).complete(REVIEW).raw)


@ollama_client.check("completions")
def ollama_completions():
    """A prompt without a dialog is still written into the chat template by Ollama's API."""
    agree(ollama_model().complete(PROMPT).text)


@Client("llama-index-embeddings-ollama", section="retrieval").check("embeddings")
def ollama_embeddings():
    agree_vectors(OllamaEmbedding(model_name=EMBEDDER, base_url=URL).get_text_embedding_batch(TEXTS))
