#!/usr/bin/env python3
"""Checks R41: Ray Data and Ray Serve with the wheel, on a local cluster of a head and two worker nodes.

    ray_cluster.py [--build build/release]          builds the wheel first
    ray_cluster.py --wheel build/wheel/tutti-*.whl  [--prompts 10000] [--only data|serve]

data: so many prompts, a seed each, while one actor's process is killed and later a whole node: each row must end exactly once, and a
sample must have the texts that one process gives without Ray.
serve: a deployment of 1 to 3 replicas under chats must grow to 3 and shrink to 1 without a failed request; streams, calls by a handle, a
typed error, and a killed model process are checked as well.

Ray comes from PyPI into build/ray-venv. Everything listens on 127.0.0.1. Takes about ten minutes on two cores.
"""
import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODEL = "smollm2-135m-instruct"
SAMPLE = 200
OPTIONS = {"kv_cache_bytes": "64MiB", "max_model_len": 512, "max_num_seqs": 16, "progress": False}
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Name three rivers."}], "max_tokens": 24, "temperature": 0}


def say(*words):
    print(f"{time.strftime('%H:%M:%S')}", *words, flush=True)


def expect(condition, words):
    if not condition:
        raise AssertionError(words)


def processes(title, parents=None):
    """Process ids whose command line begins with `title`, of `parents` alone if given."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if command.startswith(title) and (parents is None or parent in parents):
            found.append(int(folder.name))
    return found


def raylet(node):
    return next(info.process.pid for kind, infos in node.all_processes.items() if kind == "raylet" for info in infos)


def start_cluster():
    from ray.cluster_utils import Cluster
    local = {"node_ip_address": "127.0.0.1", "object_store_memory": 200 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, **local})
    nodes = [cluster.add_node(num_cpus=2, resources={"model": 2}, **local) for _ in range(2)]
    cluster.wait_for_nodes(60)
    cluster.connect()
    return cluster, nodes


def check_data(count):
    import ray
    import tutti
    import tutti.ray
    prompts = [f"The number {i} is" for i in range(count)]
    params = tutti.SamplingParams(max_tokens=4, temperature=1.0, ignore_eos=True)
    cluster, nodes = start_cluster()
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        rows = ray.data.from_items([{"id": i, "prompt": prompt} for i, prompt in enumerate(prompts)], override_num_blocks=max(4, count // 250))
        answers = tutti.ray.map_batches(rows, MODEL, prompts="prompt", sampling_params=params, seed=1000, seed_column="id",
                                        model_options=OPTIONS, concurrency=2, batch_size=50, num_cpus=1, resources={"model": 1})
        found, begun, killed = {}, time.monotonic(), []
        for batch in answers.iter_batches(batch_size=50, prefetch_batches=0):
            for identity, text in zip(batch["id"].tolist(), batch["answer"].tolist()):
                expect(identity not in found, f"row {identity} came twice")
                found[identity] = text
            if not killed and len(found) >= 0.15 * count:
                victim = processes("ray::MapWorker", [raylet(node) for node in nodes])[0]
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
                say(f"data: killed the process {victim} of an actor after {len(found)} rows")
            if len(killed) == 1 and len(found) >= 0.4 * count:
                node = max(nodes, key=lambda one: len(processes("ray::MapWorker", [raylet(one)])))
                held = len(processes("ray::MapWorker", [raylet(node)]))
                expect(held > 0, "no node has an actor")
                cluster.remove_node(node, allow_graceful=False)
                killed.append(node)
                say(f"data: killed a node with {held} of 2 actors after {len(found)} rows")
        took = time.monotonic() - begun
        expect(len(killed) == 2, "the rows ended before the kills")
        expect(sorted(found) == list(range(count)), f"{count - len(found)} rows are missing")
    finally:
        ray.shutdown()
        cluster.shutdown()
    sample = [i * count // SAMPLE for i in range(SAMPLE)]
    with tutti.LLM(MODEL, **OPTIONS) as llm:
        import dataclasses
        alone = llm.generate([prompts[i] for i in sample], [dataclasses.replace(params, seed=1000 + i) for i in sample])
    same = sum(found[i] == out.text for i, out in zip(sample, alone))
    expect(same == SAMPLE, f"{SAMPLE - same} of {SAMPLE} texts differ from those of one process")
    say(f"data: {count} rows ended once each in {took:.0f} s; {SAMPLE} of {SAMPLE} sampled texts are those of one process")


def ask(port, path, body, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
    try:
        connection.request("POST" if body is not None else "GET", path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def running(serve, name="tutti"):
    states = serve.status().applications["default"].deployments[name].replica_states
    return next((number for state, number in states.items() if getattr(state, "value", state) == "RUNNING"), 0)


def wait_for(what, condition, limit):
    begun = time.monotonic()
    while not condition():
        expect(time.monotonic() - begun < limit, f"{what} did not come in {limit} s")
        time.sleep(0.5)
    return time.monotonic() - begun


def check_serve():
    import ray
    from ray import serve
    import tutti
    import tutti.ray
    cluster, nodes = start_cluster()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        scaling = {"min_replicas": 1, "max_replicas": 3, "target_ongoing_requests": 2, "upscale_delay_s": 3, "downscale_delay_s": 5,
                   "metrics_interval_s": 1, "look_back_period_s": 4}
        deployment = tutti.ray.deployment(num_cpus=1, autoscaling_config=scaling).options(max_ongoing_requests=16)
        handle = serve.run(deployment.bind(MODEL, kv_cache_bytes="64MiB", context=512, max_num_seqs=4))
        status, body = ask(port, "/v1/chat/completions", CHAT)
        expect(status == 200, body)
        expected = json.loads(body)["choices"][0]["message"]["content"]
        status, body = ask(port, "/v1/chat/completions", {**CHAT, "stream": True})
        events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
        text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])
        expect((status, text) == (200, expected) and len(events) > 5, (status, text, expected, len(events)))
        expect(handle.chat.remote(CHAT).result()["choices"][0]["message"]["content"] == expected, "a call by the handle")
        pieces = list(handle.options(stream=True).stream.remote(CHAT))
        expect("".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces if piece["choices"]) == expected, pieces)
        try:
            handle.chat.remote({**CHAT, "temperature": 9}).result()
            raise AssertionError("an invalid temperature was taken")
        except tutti.InvalidArgumentError as error:
            expect(error.param == "temperature", error)
        for path, wanted in (("/admin/state", 404), ("/metrics", 404), ("/v1/models", 200), ("/readyz", 200)):
            expect(ask(port, path, None)[0] == wanted, path)
        say("serve: chats, streams, calls by a handle and typed errors are right; routes of operators are hidden")

        stop, answers, failures = threading.Event(), [], []

        def load():
            while not stop.is_set():
                try:
                    status, body = ask(port, "/v1/chat/completions", CHAT)
                    right = status == 200 and json.loads(body)["choices"][0]["message"]["content"] == expected
                    (answers if right else failures).append((status, body[:200]))
                except (OSError, http.client.HTTPException) as error:
                    failures.append(repr(error))

        clients = [threading.Thread(target=load) for _ in range(9)]
        for client in clients:
            client.start()
        try:
            grown = wait_for("3 replicas", lambda: running(serve) == 3, 150)
            time.sleep(5)
        finally:
            stop.set()
            for client in clients:
                client.join()
        shrunk = wait_for("1 replica", lambda: running(serve) == 1, 150)
        expect(not failures, failures[:3])
        say(f"serve: 1 to 3 replicas after {grown:.0f} s of 9 clients, back to 1 after {shrunk:.0f} s; {len(answers)} chats, 0 failed")

        wait_for("the end of other replicas", lambda: len(processes("ray::ServeReplica")) == 1, 90)
        programs = processes(str(tutti._program.PATH), processes("ray::ServeReplica"))
        expect(len(programs) == 1, f"{len(programs)} programs of one replica")
        os.kill(programs[0], signal.SIGKILL)
        status, body = ask(port, "/v1/chat/completions", CHAT)
        expect(status in (200, 503), (status, body))
        back = wait_for("a new replica", lambda: ask(port, "/v1/chat/completions", CHAT)[0] == 200, 120)
        say(f"serve: the killed model process was answered with {status} and replaced after {back:.0f} s")
        serve.shutdown()
        left = wait_for("the end of the programs", lambda: not processes(str(tutti._program.PATH)), 60)
        say(f"serve: no program was left {left:.0f} s after the shutdown")
    finally:
        ray.shutdown()
        cluster.shutdown()


def prepare(arguments):
    """The python of an environment with Ray and the wheel."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from virtual_environment import make_venv
    if arguments.wheel is None:
        folder = arguments.build / "wheel"
        subprocess.run([sys.executable, ROOT / "tools" / "make_wheel.py", "--build", arguments.build, "--out", folder], check=True)
        (arguments.wheel,) = folder.glob("*.whl")
    python = make_venv(arguments.venv, HERE / "ray-requirements.txt")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--force-reinstall",
                    arguments.wheel], check=True)
    return python.absolute()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="FOLDER")
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "ray-venv")
    parser.add_argument("--prompts", type=int, default=10_000)
    parser.add_argument("--only", choices=("data", "serve"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        python = prepare(arguments)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("RAY_", "TUTTI_", "PYTHON")) or name == "TUTTI_CACHE"}
        command = [python, __file__, "--inside", "--prompts", str(arguments.prompts), *(["--only", arguments.only] if arguments.only else [])]
        # Ray takes 127.0.0.1 for an address only where it thinks that a cluster of several machines is not supported.
        environment.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    if arguments.only != "serve":
        check_data(arguments.prompts)
    if arguments.only != "data":
        check_serve()
    say("ray_cluster: all passed")


if __name__ == "__main__":
    main()
