"""aider: one message without a terminal, in a folder of its own."""
import os
import pathlib
import subprocess
import sys

from checks import MODEL, V1, Client

client = Client("aider-chat", section="programs")


def run(*options):
    pathlib.Path("hello.py").write_text("print('hello')\n")
    pathlib.Path("model.yml").write_text(
        f"- name: openai/{MODEL}\n  edit_format: whole\n  use_repo_map: false\n  extra_params: {{max_tokens: 60, temperature: 0}}\n")
    done = subprocess.run(
        [str(pathlib.Path(sys.executable).with_name("aider")), "--model", "openai/" + MODEL, "--openai-api-base", V1,
         "--openai-api-key", "none", "--model-settings-file", "model.yml", "--no-git", "--yes-always", "--no-show-model-warnings",
         "--no-check-update", "--analytics-disable", "--no-pretty", "--no-suggest-shell-commands", "--no-auto-lint",
         "--chat-mode", "ask", "--message", "What does this file print?", *options, "hello.py"],
        capture_output=True, text=True, timeout=115, env=dict(os.environ), stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    assert "Tokens:" in done.stdout and "received" in done.stdout, done.stdout[-2000:]


@client.check("chat")
def chat():
    run("--no-stream")


@client.check("stream")
def stream():
    run("--stream")
