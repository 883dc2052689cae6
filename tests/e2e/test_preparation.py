"""Row U23: more requests in preparation than run at once, and that settings, pages and running threads agree."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from harness import LONGER, MODEL, STAND_IN, Server, eventually, figure, free_port, judged
from test_mqtt import Chat, text_of
from test_mqtt_projects import ProjectClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_NUM_SEQS, BEYOND = 8, 12
SETTINGS = "[mqtt]\nport = {port}\n" + "".join(
    f'[[mqtt.project]]\nname = "{name}"\nreply_format = "json"\nrate = "off"\n' for name in ("driving", "general"))
# Beyond what a server's own thread prepares (4 KiB), and the same for all, so that its tokens are computed once.
LONG = "The river runs by the mill. " * 160


def printed(*options, environment=None):
    """{key: (value, source)} of --print-config, where nothing else is set; the value of what is unset is None."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_") or name == "TUTTI_CACHE"}
    text = subprocess.run([os.environ["E2E_BINARY"], "serve", "--print-config", *options], check=True, capture_output=True, text=True,
                          env={**clean, **(environment or {})}).stdout
    settings = {}
    for line in text.splitlines():
        unset, key, value, source = re.match(r"(# )?(\S+) += (.*?) +# (.*)$", line).groups()
        settings[key] = (None if unset else value.strip('"'), source)
    return settings


def documented():
    """{key: default} of docs/configuration.md; None where the table shows none."""
    rows = re.findall(r"^\| `--[^|]*\| `([^`]+)`[^|]*\| `TUTTI_[^|]*\| (?:`([^`]*)` )?\|", (ROOT / "docs/configuration.md").read_text(), re.M)
    return {key: default or None for key, default in rows}


def table_of_threads():
    """{name: how many} of ARCHITECTURE.md."""
    rows = re.findall(r"^\| [^|]+ \| `(tutti[a-z-]*)` \| ([^|]+) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.M)
    return dict(rows)


def expected(count, settings):
    """How many threads a count of that table means under these settings."""
    cores = len(os.sched_getaffinity(0))
    given = {"threads": cores, **{key: value for key, (value, _) in settings.items() if value is not None}}
    if condition := re.match(r"1 if `([a-z_.-]+)`( is a folder)?", count):
        value = given.get(condition[1], "folder" if condition[2] else "0")
        return int(value not in ("0", "memory"))
    if setting := re.match(r"`([a-z_.-]+)`( - 1)?", count):
        return int(given[setting[1]]) - (1 if setting[2] else 0)
    if "half of the cores" in count:
        least, most = map(int, re.match(r"(\d+)-(\d+)", count).groups())
        return min(max(cores // 2, least), most)
    return int(re.match(r"\d+", count)[0])


def threads(server):
    """[(name, niceness)] of a process's threads."""
    found = []
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            # proc(5): the name is in the second field and may have parentheses itself; nice is the 19th field.
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile, as the loader does
            continue
        found.append((name, int(rest.split()[19 - 3])))
    return found


def running(server):
    """{name: how many} of a process's threads."""
    return dict(collections.Counter(name for name, _ in threads(server)))


def niceness(server, name):
    """The niceness of each thread of that name."""
    return [nice for found, nice in threads(server) if found == name]


class Agreement(unittest.TestCase):
    def start(self, *options, **environment):
        server = Server(*options, environment=environment)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def check_threads(self, server, settings):
        """The names of those that are not in the table."""
        if not judged("names and numbers of threads", "ThreadSanitizer has one of its own", by=("thread",)):
            return set()
        table = table_of_threads()
        wanted = {name: number for name, count in table.items() if (number := expected(count, settings)) > 0}
        # The loader ends, and the library of gRPC makes some as it needs them.
        eventually(lambda: {name: count for name, count in running(server).items() if name in table} == wanted,
                   lambda: f"running: {running(server)}, by the table: {wanted}", 10)
        return {name for name in running(server) if name not in table}

    def test_each_default_is_printed_as_the_page_has_it(self):
        page, shown = documented(), printed()
        self.assertGreater(len(page), 80)
        self.assertEqual({key: value for key, (value, _) in shown.items()}, page)
        self.assertEqual({source for _, source in shown.values()}, {"default"})

    def test_the_threads_of_a_server_are_those_of_the_table(self):
        settings = printed(environment={"TUTTI_STORE": "memory"})
        server = self.start(TUTTI_GRPC_PORT=str(free_port()))
        others = self.check_threads(server, settings)
        self.assertFalse([name for name in others if name.startswith("tutti")], others)
        self.assertEqual(server.load()["max_num_seqs"], int(settings["max-num-seqs"][0]))

    def test_the_grammar_compiler_leaves_the_cores_to_the_engine(self):
        server = self.start()
        eventually(lambda: niceness(server, "tutti-compile") == [10], lambda: str(niceness(server, "tutti-compile")))
        self.assertEqual(set(niceness(server, "tutti-prep")), {os.nice(0)}, "that of the test")

    def test_threads_follow_the_settings_that_name_them(self):
        with tempfile.TemporaryDirectory() as folder:
            chosen = ["--threads", "2", "--http-io-threads", "3", "--prep-threads", "5", "--mqtt-port", str(free_port()),
                      "--mqtt-url", f"mqtt://127.0.0.1:{free_port()}", "--store", os.path.join(folder, "store"),
                      "--debug-conversations", os.path.join(folder, "said"), "--debug-session", "ada/s1"]
            server = self.start(*chosen, TUTTI_GRPC_PORT=str(free_port()))
            self.check_threads(server, printed(*chosen))
            self.assertEqual(server.stop(), 0)
        few = self.start("--prep", "4", "--prep-threads", "12")
        eventually(lambda: running(few)["tutti-prep"] == 4, lambda: str(running(few)))  # never more than may prepare at once


class Prepared(unittest.TestCase):
    """The same server with one and with twelve threads that prepare, on the real model; every message is long enough for them."""
    AMOUNTS = (1, 12)

    def serve(self, prep):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.port = free_port()
        file = pathlib.Path(folder.name, "tutti.toml")
        file.write_text(SETTINGS.replace("{port}", str(self.port)))
        server = Server("--config", str(file), "--prep", str(prep), "--prep-threads", str(prep),
                        "--sched-queue-age-s", "0")  # a slow machine is not to refuse what waits
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        self.assertEqual(running(server)["tutti-prep"], prep)
        return server

    def sequences_a_step(self, server, ask, max_tokens):
        """The mean while more requests wait than run at once: then each step can have them all."""
        rounds = 3
        with concurrent.futures.ThreadPoolExecutor(MAX_NUM_SEQS + BEYOND) as clients:
            answers = [clients.submit(ask, number) for number in range(1, rounds * (MAX_NUM_SEQS + BEYOND) + 1)]
            eventually(lambda: server.load()["running"] == MAX_NUM_SEQS)
            first = last = [server.metric("tutti_step_sequences_" + kind) for kind in ("sum", "count")]
            while sum(answer.done() for answer in answers) < len(answers) - MAX_NUM_SEQS - BEYOND:
                last = [server.metric("tutti_step_sequences_" + kind) for kind in ("sum", "count")]
                time.sleep(0.05)
            for answer in answers:
                self.assertEqual(answer.result()["usage"]["completion_tokens"], max_tokens)
        self.assertGreater(last[1] - first[1], 20)
        return (last[0] - first[0]) / (last[1] - first[1])

    def test_the_steps_stay_full_with_twelve_more(self):
        for prep in self.AMOUNTS:
            with self.subTest(prep):
                server = self.serve(prep)
                body = {"model": MODEL, "max_tokens": 16 if not STAND_IN else 400, "ignore_eos": True, "temperature": 0}

                def ask(number):
                    message = f"{LONG} Tell me about the number {number}."
                    return server.post_json("/v1/chat/completions", {**body, "messages": [{"role": "user", "content": message}]})
                ask(0)  # what all have in common is in the cache then
                mean = self.sequences_a_step(server, ask, body["max_tokens"])
                # Another program may hold the clients up: a second and a third measurement show that.
                for _ in range(2):
                    if mean <= 0.95 * MAX_NUM_SEQS:
                        mean = max(mean, self.sequences_a_step(server, ask, body["max_tokens"]))
                figure(f"{prep} threads prepare: {mean:.2f} sequences a step")
                self.assertEqual(server.metric("tutti_step_sequences_count") - server.metric("tutti_step_sequences_bucket", le="8"), 0)
                if judged("full steps", "a client is slow to come back"):
                    self.assertGreater(mean, 0.95 * MAX_NUM_SEQS)
                self.assertEqual(server.stop(), 0)

    def test_what_is_said_over_mqtt_is_answered_as_ever(self):
        """MQTT tests 1 to 3 (U24, U26, U28)."""
        texts = []
        for prep in self.AMOUNTS:
            with self.subTest(prep):
                server = self.serve(prep)
                texts.append([self.two_projects_together(server), self.three_messages_in_order(), self.ten_clients(server)])
                self.assertEqual(server.stop(), 0)
        self.assertEqual(texts[0], texts[1], "the same answers with one and with twelve")

    def two_projects_together(self, server):
        clients = {name: ProjectClient(self.port, name) for name in ("driving", "general")}

        def seconds(repeat, *names):
            begin, took = time.monotonic(), {}
            for name in names:
                clients[name].say(f"{LONG} Tell me a story about it.", f"pair{repeat}", maxTokens=48 * LONGER * LONGER)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                def wait(name):
                    said[name] = json.loads(clients[name].reply().payload)["text"]
                    took[name] = time.monotonic() - begin
                list(pool.map(wait, names))
            return took
        said = {}
        seconds(0, "driving", "general")  # the long beginnings are cached then

        def shared_steps():
            return server.metric("tutti_step_sequences_count") - server.metric("tutti_step_sequences_bucket", le="1")
        alone = {**seconds(1, "driving"), **seconds(1, "general")}
        before = shared_steps()
        ratio = max(seconds(2, "driving", "general").values()) / sum(alone.values())
        figure(f"two together: {ratio:.2f} x one after the other")
        # Time depends on what else the machine does; that most tokens of the two come of the same steps does not.
        self.assertGreaterEqual(shared_steps() - before, 16, "not one after the other")
        for client in clients.values():
            client.close()
        return said

    def three_messages_in_order(self):
        chat = Chat(self.port, "ada", "rapid")
        for i in range(3):
            chat.say(f"{LONG} Message {i}", f"m-{i}")
        finals, accepted = [], []
        while len(finals) < 3:
            event = chat.out.get(timeout=60)
            if event["type"] == "accepted":
                accepted.append((event["id"], event["turn"]))
            elif event["type"] in ("response.completed", "response.incomplete"):
                finals.append(text_of(event))
        self.assertEqual(accepted, [("m-0", 1), ("m-1", 2), ("m-2", 3)])
        chat.control(type="history", id="h")
        history = chat.out.get(timeout=60)
        self.assertEqual([(i["role"], i["turn"]) for i in history["items"]], [(r, t) for t in (1, 2, 3) for r in ("user", "assistant")])
        self.assertEqual([i["content"] for i in history["items"] if i["role"] == "assistant"], finals)
        chat.close()
        return finals

    def ten_clients(self, server):
        """Ten answers, at most eight at a time, of which eight run together and two come a service time later."""
        clients = [Chat(self.port, f"user{i}", f"test-session-{i}") for i in range(10)]
        tokens, most = 64 if not STAND_IN else 800, 0
        before = server.metric("tutti_queue_wait_seconds_count")
        for client in clients:
            client.say(f"{LONG} Hello!", "m-1", max_output_tokens=tokens, ignore_eos=True)
        finals, begun_at, ended_at = {}, {}, {}
        while len(finals) < len(clients):
            most = max(most, server.load()["running"])
            for i, client in enumerate(clients):
                while not client.out.empty():
                    event = client.out.get()
                    self.assertNotEqual(event["type"], "error", event)
                    if event["type"] == "response.output_text.delta":
                        begun_at.setdefault(i, time.monotonic())
                    elif event["type"] in ("response.completed", "response.incomplete"):
                        finals[i], ended_at[i] = text_of(event), time.monotonic()
            time.sleep(0.005)
        self.assertEqual(most, MAX_NUM_SEQS, "eight together, never more")
        first = min(ended_at.values())
        waited = [i for i in finals if begun_at[i] >= first - 0.1]
        self.assertEqual(len(waited), len(clients) - MAX_NUM_SEQS, f"begun {begun_at}, ended {ended_at}")
        self.assertEqual(server.metric("tutti_queue_wait_seconds_count") - before, len(clients))
        for client in clients:
            client.close()
        return [finals[i] for i in range(len(clients))]


if __name__ == "__main__":
    unittest.main()
