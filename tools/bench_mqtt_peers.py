#!/usr/bin/env python3
"""Compares Tutti with llama-server behind a bridge (mqtt_bridge.py) for the same clients of an MQTT broker.

The broker is Debian's mosquitto. Rounds alternate, with the same model file, threads, concurrent sequences and broker. Every
client has its own connection and sends one message after the other, each in a session of its own. Both times begin when the
message is sent: "first" ends with the first piece of text, "reply" with the last event.

Writes the table into docs/benchmarks.md. It has no gate; it fails if an answer is missing, refused or empty.
"""
import datetime
import json
import os
import pathlib
import queue
import statistics
import sys
import threading
import time

from bench_peers import ROOT, install_environment, install_llama, peer_options, run, say, write_page
from peer_process import PATIENCE_S, Process, llama_server

BEGIN, END = "<!-- bench-mqtt-peers: begin -->", "<!-- bench-mqtt-peers: end -->"
TUTTI, LLAMA = "Tutti, built-in broker client", "llama-server behind a bridge"
PAHO = "paho-mqtt==2.1.0"


def start_tutti(args, broker_port, folder, port):
    (folder / "tutti.toml").write_text(f'[mqtt]\nurl = "mqtt://127.0.0.1:{broker_port}"\n')
    return [Process([args.tutti, "serve", args.model, "--config", folder / "tutti.toml", "--port", port, "--grpc-port", 0,
                     "--threads", args.threads, "--max-num-seqs", args.max_num_seqs, "--store", "memory"],
                    lambda p: "mqtt.bridge.connected" in p.printed() and "serving" in p.printed(), folder / "tutti.log")]


def start_llama(args, broker_port, folder, port, binaries, python):
    server = llama_server(binaries, args.model, port, args.max_num_seqs, args.threads, folder / "llama-server.log")
    try:
        bridge = Process([python, ROOT / "tools" / "mqtt_bridge.py", broker_port, f"http://127.0.0.1:{port}", args.clients, args.model.stem],
                         lambda p: "ready" in p.printed(), folder / "bridge.log")
    except SystemExit:
        server.stop()
        raise
    return [bridge, server]


class Client:
    """One user with a connection; sends one message after the other."""

    def __init__(self, port, user):
        import paho.mqtt.client as mqtt
        self.user, self.events, granted = user, queue.Queue(), queue.Queue()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.username_pw_set(user)
        self.client.on_connect = lambda c, *rest: c.subscribe(f"llm/v1/{user}/+/out", 1)
        self.client.on_subscribe = lambda *rest: granted.put(True)
        self.client.on_message = lambda c, u, message: self.events.put((time.perf_counter(), message.payload))
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        granted.get(timeout=PATIENCE_S)

    def say(self, number, text, tokens):
        """(seconds to the first piece, to the end)"""
        sent = time.perf_counter()
        self.client.publish(f"llm/v1/{self.user}/s{number}/in", json.dumps({
            "id": f"m{number}", "type": "message", "input": text, "max_output_tokens": tokens, "ignore_eos": True,
            "temperature": 0}), 1)
        first = None
        while True:
            at, payload = self.events.get(timeout=PATIENCE_S)
            event = json.loads(payload)
            if event["type"] == "response.output_text.delta":
                first = first or at - sent
            elif event["type"] in ("response.completed", "response.incomplete"):
                if first is None:
                    raise RuntimeError(f"an empty answer: {event}")
                return first, at - sent
            elif event["type"] in ("error", "response.failed"):
                raise RuntimeError(f"refused: {event}")

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def measure(broker_port, args, round_number):
    clients = [Client(broker_port, f"user{i}") for i in range(args.clients)]
    samples = [[] for _ in clients]

    def talk(i, count, offset):
        for n in range(count):
            text = f"Client {i}, round {round_number}, message {n + offset}: name a colour and say where it is seen."
            samples[i].append(clients[i].say(1000 * round_number + n + offset, text, args.tokens))

    def together(count, offset):
        threads = [threading.Thread(target=talk, args=(i, count, offset)) for i in range(args.clients)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - begin

    together(1, 900)  # warm
    for of in samples:
        of.clear()
    seconds = together(args.messages, 0)
    for client in clients:
        client.close()
    every = [sample for of in samples for sample in of]
    if len(every) != args.clients * args.messages:
        sys.exit(f"bench-mqtt-peers: {len(every)} of {args.clients * args.messages} answers")
    return {"tok_s": len(every) * args.tokens / seconds, "first_s": [s[0] for s in every], "reply_s": [s[1] for s in every]}


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def row(name, rounds):
    first, reply = ([s for one in rounds for s in one[key]] for key in ("first_s", "reply_s"))
    rate = statistics.median(one["tok_s"] for one in rounds)
    return rate, (f"| {name} | {rate:,.0f} | {1e3 * quantile(first, 0.5):,.0f} / {1e3 * quantile(first, 0.99):,.0f} | "
                  f"{1e3 * quantile(reply, 0.5):,.0f} / {1e3 * quantile(reply, 0.99):,.0f} |")


def main():
    parser = peer_options(__doc__)
    parser.add_argument("--max-num-seqs", type=int, default=8, help="concurrent sequences of Tutti, slots of llama-server")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--messages", type=int, default=10, help="messages of each client in each round")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of each answer")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = install_environment(folder)
    if pathlib.Path(sys.prefix).resolve() != (folder / "venv").resolve():  # again, with the clients' library
        run([python, "-m", "pip", "install", "--quiet", PAHO])
        os.execv(python, [str(python), str(pathlib.Path(__file__).resolve()), *sys.argv[1:]])
    binaries = install_llama(folder, python, args.jobs, ("llama-server",))
    sys.path.insert(0, str(ROOT / "tests" / "broker"))
    from broker import free_port
    broker_port = free_port()
    (folder / "mosquitto.conf").write_text(f"listener {broker_port} 127.0.0.1\nallow_anonymous true\n")
    os.environ["PATH"] += ":/usr/sbin"
    rounds = {TUTTI: [], LLAMA: []}
    for number in range(args.rounds):
        for name in rounds:
            port = free_port()
            # Each server has its own broker: a shared one would queue the messages sent to one server for the other.
            served = [Process(["mosquitto", "-v", "-c", folder / "mosquitto.conf"], lambda p: "running" in p.printed(),
                              folder / "mosquitto.log")]
            try:
                served += (start_tutti(args, broker_port, folder, port) if name == TUTTI
                           else start_llama(args, broker_port, folder, port, binaries, python))
                one = measure(broker_port, args, number)
            finally:
                for process in reversed(served):
                    process.stop()
            rounds[name].append(one)
            say(f"round {number + 1}/{args.rounds} {name}: {one['tok_s']:,.0f} tokens/s, first text "
                f"{1e3 * quantile(one['first_s'], 0.5):,.0f} ms")
    rows = {name: row(name, of) for name, of in rounds.items()}
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    text = "\n".join([
        f"Measured on {datetime.date.today():%Y-%m-%d}: {cpu}, {args.threads} threads. Model file: `{args.model.name}`. {args.clients} clients, at "
        f"most {args.max_num_seqs} concurrent sequences, {args.messages} messages of each client in each round, {args.tokens} tokens in each answer, "
        f"{args.rounds} alternating rounds. Clients and broker run on the same cores. Tutti stores the dialogs; the bridge stores nothing.", "",
        "| | tokens/s, median | first text, p50 / p99 ms | reply, p50 / p99 ms |", "|---|---|---|---|",
        *(line for _, line in rows.values()), "", f"Tutti / llama-server: {rows[TUTTI][0] / rows[LLAMA][0]:.2f} x in tokens/s."])
    print(text)
    if not args.no_write:
        write_page(text, BEGIN, END)
        say("written to docs/benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
