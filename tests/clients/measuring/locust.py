"""Locust: four users that send requests for five seconds."""
import json
import pathlib
import subprocess
import sys

from checks import MESSAGES, MODEL, URL, Client

client = Client("locust", section="measuring")
FILE = f"""
from locust import HttpUser, task
class Asking(HttpUser):
    @task
    def ask(self):
        with self.client.post("/v1/chat/completions", catch_response=True, json={{
                "model": {MODEL!r}, "messages": {MESSAGES!r}, "max_tokens": 8, "temperature": 0}}) as answer:
            if not answer.json()["choices"][0]["message"]["content"]:
                answer.failure("nothing said")
"""


@client.check("chat")
def chat():
    pathlib.Path("users.py").write_text(FILE)
    done = subprocess.run([sys.executable, "-m", "locust", "-f", "users.py", "--headless", "-u", "4", "-r", "4", "-t", "5s",
                           "--host", URL, "--json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    asked, = json.loads(done.stdout[done.stdout.index("["):])
    assert asked["num_requests"] > 4 and asked["num_failures"] == 0, asked
