"""Inspect, with a task of its own kind over any server of OpenAI's API."""
import os

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

from checks import MODEL, PROMPT, TOKENS, V1, Client, agree, expected

client = Client("inspect-ai", section="measuring", distribution="inspect_ai")


@client.check("chat")
def chat():
    os.environ.update(LOCAL_BASE_URL=V1, LOCAL_API_KEY="none")
    task = Task(dataset=[Sample(input=PROMPT, target=expected().split()[0])], solver=generate(), scorer=includes())
    log, = eval(task, model="openai-api/local/" + MODEL, max_tokens=TOKENS, temperature=0.0, display="none", log_dir="logs")
    assert log.status == "success", log.error
    agree(log.samples[0].output.completion)
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
