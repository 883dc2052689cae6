#!/usr/bin/env python3
"""Checks the restarts of N67: two `tutti serve` behind a balancer under load are replaced in turn as Kubernetes replaces pods.

    rolling_restarts.py [--tutti build/release/tutti] [--restarts 20] [--clients 6]

The balancer has the semantics of the chart's probes and hook: a server that /readyz answers with 200 (asked every 0.5 s, one failure is
enough) gets new connections. A replacement is made before its predecessor ends (maxSurge 1). Its predecessor then leaves the endpoints,
waits for the hook, gets SIGTERM, and must exit 0 before its grace period is over. Chats and streams of clients must all be answered,
and be right. Two thirds of the clients make a connection for each request, as an ingress does for its endpoints. The others keep theirs,
which the balancer leaves at a server that ends: a request there that is refused with 503 `draining`, or finds the connection closed,
is sent again on a new connection, as the stock clients do, and counted. At the end one server is killed without a hook: what its
clients see is printed and not judged. Everything listens on 127.0.0.1; takes about two minutes on two cores.
"""
import argparse
import http.client
import itertools
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "smollm2-135m-instruct"
HOOK_S, DRAIN_S = 1.5, 30  # the hook must outlast the balancer's next look
GRACE_S = HOOK_S + DRAIN_S + 10
PROBE_S = 0.5
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Name three rivers."}], "max_tokens": 24, "temperature": 0}


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


class Pod:
    """A server and what Kubernetes knows of it."""

    def __init__(self, program):
        command = [program, "serve", MODEL, "--port", "0", "--grpc-port", "0", "--store", "memory", "--threads", "1", "--kv-cache-bytes", "64MiB",
                   "--context", "512", "--http-access-log", "off", "--drain-s", str(DRAIN_S)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        found = next((match for line in self.process.stdout if (match := re.search(r"serving .* at http://127.0.0.1:(\d+)", line))), None)
        if not found:
            raise AssertionError(f"{program} did not start: {self.process.wait()}")
        self.port = int(found[1])
        self.ready = False
        self.terminating = False

    def probe(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Balancer:
    """Sends each connection to one of the ready pods in turn, and probes them."""

    def __init__(self):
        self.pods = []
        self.turn = itertools.count()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.closed = False
        for work in (self.accept, self.watch):
            threading.Thread(target=work, daemon=True).start()

    def watch(self):
        while not self.closed:
            for pod in list(self.pods):
                pod.ready = not pod.terminating and pod.probe()
            time.sleep(PROBE_S)

    def accept(self):
        while not self.closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        ready = [pod for pod in list(self.pods) if pod.ready]
        if not ready:
            client.close()
            return
        try:
            with client, socket.create_connection(("127.0.0.1", ready[next(self.turn) % len(ready)].port)) as server:
                ends = {client: server, server: client}
                while True:
                    for end in select.select(list(ends), [], [])[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)
        except OSError:
            pass

    def close(self):
        self.closed = True
        self.listener.close()


class Client(threading.Thread):
    """Chats, or streams, on a connection for each or on one that is kept."""

    def __init__(self, port, index, stop):
        super().__init__(daemon=True)
        self.port, self.stream, self.keeps, self.stop = port, index % 2 == 1, index % 3 == 2, stop
        self.right, self.failures, self.again = 0, [], 0
        self.expected = None

    def run(self):
        connection = None
        while not self.stop.is_set():
            fresh = connection is None
            connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            try:
                connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "stream": self.stream}),
                                   {"Content-Type": "application/json", "Connection": "keep-alive" if self.keeps else "close"})
                answer = connection.getresponse()
                body, closes = answer.read(), answer.will_close
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                connection.close()
                connection = None
                if fresh:
                    self.failures.append(repr(error))
                else:
                    self.again += 1  # an idle connection was closed, as every client must expect
                continue
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection.close()
                connection = None
                continue
            refused = not fresh and answer.status == 503 and b'"draining"' in body
            if closes or refused or not self.keeps:
                connection.close()
                connection = None
            if refused:
                self.again += 1
                continue
            self.judge(answer.status, body)
        if connection:
            connection.close()

    def judge(self, status, body):
        if status != 200:
            self.failures.append((status, body[:300]))
            return
        if self.stream:
            events = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
            chunks = [json.loads(event) for event in events if event != "[DONE]"]
            text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk.get("choices"))
            whole = events[-1:] == ["[DONE]"]
        else:
            text, whole = json.loads(body)["choices"][0]["message"]["content"], True
        self.expected = self.expected or text
        if whole and text and text == self.expected:
            self.right += 1
        else:
            self.failures.append((status, text, whole))


def wait_ready(pod):
    until = time.monotonic() + 120
    while not pod.ready:
        if time.monotonic() > until or pod.process.poll() is not None:
            raise AssertionError("a server did not become ready")
        time.sleep(0.1)


def end(pod, balancer):
    """As a deleted pod: out of the endpoints, the hook, SIGTERM, the grace period."""
    pod.terminating = True
    time.sleep(HOOK_S)
    begun = time.monotonic()
    pod.process.send_signal(signal.SIGTERM)
    status = pod.process.wait(GRACE_S - HOOK_S)
    balancer.pods.remove(pod)
    if status != 0:
        raise AssertionError(f"a drained server exited with {status}")
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build/release/tutti"), metavar="PROGRAM")
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--clients", type=int, default=6)
    arguments = parser.parse_args()
    if not os.access(arguments.tutti, os.X_OK):
        sys.exit(f"rolling_restarts: {arguments.tutti} is no program; build it (make build) or name it with --tutti")
    balancer, stop = Balancer(), threading.Event()
    clients = [Client(balancer.port, index, stop) for index in range(arguments.clients)]
    try:
        for _ in range(2):
            balancer.pods.append(Pod(arguments.tutti))
            wait_ready(balancer.pods[-1])
        for client in clients:
            client.start()
        drains = []
        for number in range(1, arguments.restarts + 1):
            pod = Pod(arguments.tutti)
            balancer.pods.append(pod)
            wait_ready(pod)
            drains.append(end(balancer.pods[0], balancer))
            if number % 5 == 0:
                say(f"{number} restarts, {sum(client.right for client in clients)} chats, {sum(len(client.failures) for client in clients)} failed")
        failures = [failure for client in clients for failure in client.failures]
        right = sum(client.right for client in clients)
        texts = {client.expected for client in clients if client.expected}
        if failures or len(texts) != 1 or right < arguments.restarts:
            raise AssertionError(f"{len(failures)} of {right + len(failures)} failed, {len(texts)} texts: {failures[:3]}")
        say(f"{arguments.restarts} restarts under {arguments.clients} clients: {right} chats and streams, 0 failed; "
            f"{sum(client.again for client in clients)} requests on kept connections were sent again; longest drain {max(drains):.1f} s")
        balancer.pods[0].process.kill()
        time.sleep(3)
        lost = sum(len(client.failures) for client in clients)
        say(f"a server that was killed without a hook: {lost} requests failed")
    finally:
        stop.set()
        for client in clients:
            if client.ident:
                client.join(30)
        balancer.close()
        for pod in balancer.pods:
            pod.process.kill()
            pod.process.wait()
    say("rolling_restarts: all passed")


if __name__ == "__main__":
    main()
