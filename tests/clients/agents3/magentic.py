"""magentic's functions that a model answers."""
from magentic import Chat, FunctionCall, StreamedStr, UserMessage
from magentic.chat_model.openai_chat_model import OpenaiChatModel

from checks import MODEL, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, agree, agree_pieces, judge_review, review_type

client = Client("magentic", section="frameworks")


def model(tokens=TOKENS):
    return OpenaiChatModel(MODEL, api_key="none", base_url=V1, max_tokens=tokens, temperature=0)


@client.check("chat")
def chat():
    agree(model().complete([UserMessage(PROMPT)]).content)


@client.check("stream")
def stream():
    agree_pieces(list(model().complete([UserMessage(PROMPT)], output_types=[StreamedStr]).content))


@client.check("tools")
def tools():
    calls = Calls()
    chat = Chat([UserMessage(QUESTION)], model=model(60), functions=[calls.function], output_types=[FunctionCall])
    chat = chat.submit().exec_function_call()
    calls.judge()
    answer = model(60).complete(chat.messages, functions=[calls.function], output_types=[str, FunctionCall]).content
    assert isinstance(answer, FunctionCall) or answer.strip()


@client.check("structured")
def structured():
    judge_review(model(60).complete([UserMessage(REVIEW)], output_types=[review_type()]).content)
