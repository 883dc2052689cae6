"""sgpt, a command line."""
import os
import pathlib
import subprocess
import sys

from checks import MODEL, PROMPT, V1, Client, said

client = Client("shell-gpt", section="programs")


@client.check("stream")
def stream():
    done = subprocess.run(
        [str(pathlib.Path(sys.executable).with_name("sgpt")), "--no-md", "--no-cache", "--temperature", "0", "--model", MODEL,
         PROMPT + " In five words."], capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL,
        env={**os.environ, "API_BASE_URL": V1, "OPENAI_API_KEY": "none", "USE_LITELLM": "false", "DEFAULT_MODEL": MODEL})
    assert done.returncode == 0, done.stderr[-2000:]
    said(done.stdout)
