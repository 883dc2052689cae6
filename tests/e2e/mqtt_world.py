"""`tutti serve` behind a mosquitto with the shipped configuration, and clients of both profiles; tests can kill every part."""
import collections
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from harness import STEP_S, Server, eventually

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "broker"))
from broker import PASSWORDS, Broker, put_in  # noqa: E402

ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


def let_in(broker, projects, *users):
    """The lines for projects in the shipped rules, for these users: as its page says, and one set for each."""
    rules = broker.folder / "tutti.acl"
    text = rules.read_text()
    start = text.index("#user llmserver")
    lines = [line[1:] for line in text[start:].splitlines()]
    anna = lines.index("user anna")
    server, one = lines[1:anna], lines[anna + 1:]

    def of_each(lines):
        return [line.replace("driving/", f"{project}/") for project in projects for line in lines]
    text = put_in(text[:start], "topic readwrite llm/v1/#", "\n".join(["topic readwrite llm/v1/#", *of_each(server)]))
    for user in users:
        text += "\n".join([f"user {user}", *of_each(one), ""])
    rules.write_text(text)


class World:
    """A broker, a server that works through it, and the folder of both."""

    def __init__(self, projects="", users=PASSWORDS, model=None, tls=None, options=(), rules=lambda broker: None):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.users, self.model, self.options = users, model, options
        self.broker = Broker(tls=tls, users=users)
        rules(self.broker)
        self.broker.end()
        self.broker.start()
        password = self.path / "password"
        password.write_text(users["llmserver"] + "\n")
        password.chmod(0o600)
        address = f'"mqtts://127.0.0.1:{self.broker.tls_port}"' if tls else f'"{self.broker.url}"'
        authority = f'ca_file = "{tls}/ca.crt"\n' if tls else ""
        (self.path / "tutti.toml").write_text(
            f'[mqtt]\nurl = {address}\nusername = "llmserver"\npassword_file = "{password}"\n{authority}\n{projects}')
        self.server, self.logs = None, ""
        self.start_server()

    def start_server(self):
        self.server = Server("--config", str(self.path / "tutti.toml"), *self.options, model=self.model,
                             environment={"TUTTI_STORE": str(self.path / "store")})
        eventually(lambda: "mqtt.bridge.connected" in self.server.log(), self.server.log)

    def kill_server(self):
        """SIGKILL; it stays away until start_server()."""
        self.server.process.kill()
        self.server.process.wait()
        self.logs += self.server.log()
        self.server.stop()

    def close(self):
        status = self.server.stop()
        self.broker.close()
        self.folder.cleanup()
        assert status == 0, f"exit status {status} after SIGTERM"


class Collector:
    """A subscriber in a process of its own (mqtt_collector.py), with a session that outlasts it."""

    def __init__(self, world, user, filters, version=paho.MQTTv5):
        self.world, self.user, self.filters, self.version = world, user, filters, version
        self.file = world.path / f"heard-{user}"
        self.file.touch()
        self.at, self.rest, self.ready = 0, b"", 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("mqtt_collector.py")), str(self.file),
             str(self.world.broker.port), str(self.version), self.user, *self.filters], stdin=subprocess.PIPE, text=True)
        self.process.stdin.write(self.world.users[self.user] + "\n")
        self.process.stdin.close()

    def wait_ready(self):
        """Until its first subscription is granted; what it has heard meanwhile is read later."""
        eventually(lambda: b'"ready"' in self.file.read_bytes(), lambda: f"{self.user} is not subscribed")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def heard(self):
        """The messages received since the last call."""
        with open(self.file, "rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line for line in map(json.loads, lines) if "topic" in line]


class Speaker:
    """A publisher that never gives up a message of QoS 1."""

    def __init__(self, world, user, version=paho.MQTTv5, port=None):
        self.version = version
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
        self.client.username_pw_set(user, world.users[user])
        self.client.reconnect_delay_set(1, 1)
        self.client.max_inflight_messages_set(200)
        self.client.connect("127.0.0.1", port or world.broker.port, keepalive=60)
        self.client.loop_start()
        eventually(self.client.is_connected)

    def publish(self, topic, payload, correlation=None):
        properties = None
        if correlation and self.version == paho.MQTTv5:
            properties = Properties(PacketTypes.PUBLISH)
            properties.CorrelationData = correlation.encode()
        return self.client.publish(topic, json.dumps(payload), 1, properties=properties)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Listener:
    """A subscriber in this process, with the given filters; puts received messages into a queue."""

    def __init__(self, world, user, filters, version=paho.MQTTv5):
        self.messages, granted = queue.Queue(), queue.Queue()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
        self.client.username_pw_set(user, world.users[user])
        self.client.on_connect = lambda c, d, flags, reason, p: c.subscribe([(one, 1) for one in filters])
        self.client.on_subscribe = lambda *_: granted.put(True)
        self.client.on_message = lambda c, d, message: self.messages.put(message)
        self.client.connect("127.0.0.1", world.broker.port, keepalive=60)
        self.client.loop_start()
        granted.get(timeout=STEP_S)

    def next(self):
        return self.messages.get(timeout=STEP_S)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


Final = collections.namedtuple("Final", "response turn text dup")


class Ledger:
    """The messages that a user's sessions have sent and received in the native profile. Messages are known by their
    ids, which go out as correlation data too, so that an answer can be matched even if `accepted` was lost."""

    def __init__(self, world, user):
        self.user, self.world = user, world
        self.speaker = Speaker(world, user)
        self.collector = Collector(world, user, [f"llm/v1/{user}/+/out"])
        self.collector.wait_ready()
        self.lock = threading.Lock()
        self.sent = {}       # (session, id) -> (time of the last sending, payload)
        self.resent = set()  # (session, id) that were sent once more
        self.turns = {}      # (session, id) -> {(response, turn)}, of `accepted`
        self.finals = collections.defaultdict(list)  # (session, id) -> finals in the order of hearing
        self.order = collections.defaultdict(list)   # session -> ids in the order of their first finals
        self.errors = collections.Counter()
        self.histories = {}

    def say(self, session, name, text, **fields):
        payload = {"id": name, "type": "message", "input": text, **fields}
        self.sent[session, name] = (time.monotonic(), payload)
        self.speaker.publish(f"llm/v1/{self.user}/{session}/in", payload, correlation=name)

    def ask_again(self, after_s):
        """Sends once more what has no answer for so long."""
        for (session, name), (at, payload) in list(self.sent.items()):
            if (session, name) not in self.finals and time.monotonic() - at > after_s:
                self.resent.add((session, name))
                self.say(session, name, payload["input"], **{k: v for k, v in payload.items() if k not in ("id", "type", "input")})

    def hear(self):
        for line in self.collector.heard():
            session, event = line["topic"].split("/")[3], json.loads(line["payload"])
            key = (session, line["correlation"])
            if event["type"] == "accepted":
                self.turns.setdefault((session, event["id"]), set()).add((event["response_id"], event["turn"]))
            elif event["type"] in ENDS:
                if key not in self.finals:
                    self.order[session].append(key[1])
                output = event["response"]["output"]
                self.finals[key].append(Final(event["response"]["id"], event["type"],
                                              output[0]["content"][0]["text"] if output else "", line["dup"]))
            elif event["type"] == "error":
                self.errors[event["code"]] += 1
            elif event["type"] == "history":
                self.histories[session] = event["items"]

    def unanswered(self):
        return [key for key in self.sent if key not in self.finals]

    def repeats(self):
        return sum(len(finals) - 1 for finals in self.finals.values())

    def history(self, session):
        self.histories.pop(session, None)
        self.speaker.publish(f"llm/v1/{self.user}/{session}/ctl", {"type": "history", "id": "h", "limit": 100})

        def told():
            self.hear()
            return session in self.histories
        eventually(told, lambda: f"no history of {session}; errors {dict(self.errors)}; {self.world.server.log()[-3000:]}")
        return self.histories[session]

    def check(self, case, sessions):
        """Every message was answered by one turn, and the history holds the messages and answers in the order of the
        turns."""
        case.assertEqual(self.unanswered(), [])
        for key, finals in self.finals.items():
            case.assertIn(key, self.sent)
            case.assertEqual(len({final.response for final in finals}), 1, f"{key} was answered twice: {finals}")
            case.assertEqual(len({final.text for final in finals}), 1, key)
            case.assertEqual(len(self.turns.get(key, {0})), 1, f"{key} was two turns: {self.turns.get(key)}")
        for session in sessions:
            names = [name for one, name in self.sent if one == session]
            items = self.history(session)
            said = {payload["input"]: name for (one, name), (_, payload) in self.sent.items() if one == session}
            case.assertEqual([item["role"] for item in items], ["user", "assistant"] * len(names), session)
            case.assertEqual([item["turn"] for item in items[::2]], list(range(1, len(names) + 1)), session)
            order = [said[item["content"]] for item in items[::2]]
            case.assertEqual(sorted(order), sorted(names), session)
            for name, answer in zip(order, items[1::2]):
                case.assertEqual(self.finals[session, name][0].text, answer["content"], (session, name))
            # For answers that were lost with a killed broker and requested again, the order of arrival means nothing.
            first = [name for name in order if (session, name) not in self.resent]
            case.assertEqual([name for name in self.order[session] if name in set(first)], first, session)

    def close(self):
        self.collector.kill()
        self.speaker.close()
