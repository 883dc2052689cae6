"""llm, the command line and its library: a model that its settings name as one of OpenAI's API."""
import json
import os
import pathlib
import subprocess
import sys

from checks import MODEL, PROMPT, REVIEW, TOKENS, V1, Client, agree, agree_pieces, judge_review, review_schema

client = Client("llm", section="programs")
FOLDER = pathlib.Path(os.environ["HOME"], "llm")
FOLDER.mkdir()
(FOLDER / "extra-openai-models.yaml").write_text(
    f"- model_id: local\n  model_name: {MODEL}\n  api_base: {V1}\n  api_key_name: local\n  supports_schema: true\n")
(FOLDER / "keys.json").write_text('{"local": "none"}')
os.environ["LLM_USER_PATH"] = str(FOLDER)  # read when the library is imported


def run(*command):
    done = subprocess.run([str(pathlib.Path(sys.executable).with_name("llm")), *command], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@client.check("chat")
def chat():
    agree(run("prompt", PROMPT, "-m", "local", "-o", "temperature", "0", "-o", "max_tokens", str(TOKENS)))


@client.check("stream")
def stream():
    import llm
    agree_pieces(list(llm.get_model("local").prompt(PROMPT, temperature=0, max_tokens=TOKENS)))


@client.check("structured")
def structured():
    judge_review(run("prompt", REVIEW, "-m", "local", "-o", "temperature", "0", "-o", "max_tokens", "60",
                     "--schema", json.dumps(review_schema())))
