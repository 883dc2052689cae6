#!/usr/bin/env python3
"""Runs the stock clients of docs/clients.md against a built `tutti`, and writes that page.

    run.py --tutti build/release/tutti                            all clients; the page must say what came out
    run.py --tutti build/release/tutti --write docs/clients.md    writes the page, if every cell is as declared
    run.py --tutti build/release/tutti --sample                   the folder `core`: 14 clients, and their rows of the page
    run.py --tutti build/release/tutti openai litellm             scripts by name; prints the error of each cell that fails

One folder here is one virtual environment, made once in --venvs for each content of its requirements.txt; that needs
pip's package index. One script of a folder declares one or more clients and their checks (checks.py). All of them talk to
one server with two generating models, an embedder and a cross-encoder. A cell of the page is `yes`, or the number of a
reason, which the script declares with the error that proves it. Everything else fails the run: a check that fails, a
declared failure that no longer occurs, a script that does not load, an answer of status 5xx.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

import page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "support")]
import run as e2e  # noqa: E402
from virtual_environment import make_venv  # noqa: E402

SAMPLE = "core"
SCRIPT_LIMIT_S = 600
# No client may report to its maker, ask a hub, or read the settings of the person who runs this.
QUIET = {
    "OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_AGENTS_DISABLE_TRACING": "1", "OTEL_SDK_DISABLED": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false", "AGNO_TELEMETRY": "false", "ANONYMIZED_TELEMETRY": "False",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true", "HAYSTACK_TELEMETRY_ENABLED": "False", "MEM0_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false", "LANGFUSE_TRACING_ENABLED": "false", "AUTOGEN_USE_TELEMETRY": "0",
    "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "TERM": "dumb"}



def find_scripts(args):
    scripts = sorted(path for path in HERE.glob("*/*.py"))
    if args.sample:
        return [path for path in scripts if path.parent.name == SAMPLE]
    unknown = set(args.names) - {name for path in scripts for name in (path.stem, path.parent.name)}
    if unknown:
        sys.exit(f"clients: no script or folder {', '.join(sorted(unknown))}")
    return [path for path in scripts if not args.names or path.stem in args.names or path.parent.name in args.names]


class Served:
    """The server that all clients talk to."""

    def __init__(self, binary, sanitizer, reports):
        for name in list(os.environ):
            if name.lower().startswith(e2e.DROPPED) and name not in e2e.KEPT:
                del os.environ[name]
        os.environ.update(e2e.GIVEN, E2E_BINARY=str(binary.resolve()), E2E_SANITIZER=sanitizer, E2E_REPORTS=reports)
        e2e.watch(os.environ, sanitizer, reports)
        # After the environment, which it reads when it is imported.
        import calling_model
        import encoder_models
        import harness
        self.folder = tempfile.TemporaryDirectory()
        reranker = pathlib.Path(self.folder.name, "reranker")
        reranker.mkdir()
        encoder_models.write_cross_encoder(reranker)
        caller = pathlib.Path(self.folder.name, "caller")
        calling_model.write(caller)
        self.mqtt_port, self.grpc_port = harness.free_port(), harness.free_port()
        self.server = harness.Server(encoder_models.EMBEDDER, f"reranker={reranker}", f"caller={caller}", "--mqtt-port", str(self.mqtt_port),
                                     "--grpc-port", str(self.grpc_port), "--store", os.path.join(self.folder.name, "store"))
        try:
            self.server.wait_models(4)
            self.server.expect_log(r"grpc\.listening")
        except BaseException:
            self.server.stop()  # the caller has no object yet to stop it by
            raise

    def environment(self):
        return {"CLIENTS_PORT": str(self.server.port), "CLIENTS_GRPC_PORT": str(self.grpc_port),
                "CLIENTS_MQTT_PORT": str(self.mqtt_port), "OPENAI_BASE_URL": self.server.url + "/v1",
                "OPENAI_API_BASE": self.server.url + "/v1", "ANTHROPIC_BASE_URL": self.server.url}

    def stop(self):
        """Faults of the server's own that no client may have seen."""
        log = self.server.log()
        faults = [line for line in log.splitlines() if re.search(r"http\.request .*status=5\d\d", line)]
        try:
            status = self.server.stop()
            if status != 0:
                faults.append(f"the server ended with status {status}")
        except AssertionError as error:
            faults.append(f"the server: {error}")
        self.folder.cleanup()
        return faults


def run_script(script, python, environment):
    """(lines of results, seconds, what it printed)."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        results = pathlib.Path(home, "results.jsonl")
        env = {name: value for name, value in os.environ.items() if not name.startswith("E2E_")}
        env.update(QUIET, **environment)
        env.update(HOME=home, XDG_CONFIG_HOME=home + "/.config", XDG_CACHE_HOME=home + "/.cache", XDG_DATA_HOME=home + "/.share",
                   PATH=f"{python.parent}:{env.get('PATH', '')}")
        with open(os.path.join(home, "output"), "w+", errors="replace") as output:
            process = subprocess.Popen([str(python), str(HERE / "worker.py"), str(script), str(results)], env=env, cwd=home,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                process.wait(SCRIPT_LIMIT_S)
            except subprocess.TimeoutExpired:
                output.write(f"no end within {SCRIPT_LIMIT_S} s\n")
            finally:
                end_group(process)
            output.flush()
            output.seek(0)
            printed = output.read()
        written = results.read_text() if results.exists() else ""
        if written and not written.endswith("\n"):  # the script died while it wrote
            printed += "\nthe last result is cut"
            written = written[:written.rfind("\n") + 1]
        lines = [json.loads(line) for line in written.splitlines()]
    return lines, time.monotonic() - begin, printed


def end_group(process):
    """The script's process and what it started."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def gather(script, lines, printed):
    """(rows of the clients of a script, faults)."""
    rows, faults = {}, []
    for line in lines:
        if "columns" in line:
            rows[line["client"]] = {**line, "cells": {}, "script": f"{script.parent.name}/{script.name}"}
        elif "state" in line:
            rows[line["client"]]["cells"][line["column"]] = line
            if line["state"] == "failed":
                faults.append(f"{line['client']}, {line['column']}: {line['text']}\n{line.get('trace', '')}")
    if not rows or lines[-1:] != [{"end": True}]:
        faults.append(f"{script.parent.name}/{script.name} did not end as it should:\n{printed[-4000:]}")
    for row in rows.values():
        if not row["columns"]:
            faults.append(f"{row['client']} has no checks")
        for column in row["columns"]:
            if column not in row["cells"]:
                faults.append(f"{row['client']}, {column}: no result")
    return rows, faults


def run_all(scripts, pythons, environment, jobs):
    """All rows by name, all faults."""
    rows, faults, lock = {}, [], threading.Lock()

    def one(script):
        lines, seconds, printed = run_script(script, pythons[script.parent.name], environment)
        made, found = gather(script, lines, printed)
        with lock:
            for name, row in made.items():
                if name in rows:
                    found.append(f"two clients are called {name}")
                rows[name] = row
                cells = [row["cells"].get(column, {"state": "none"}) for column in row["columns"]]
                shown = ", ".join(f"{column} {cell['state']}" for column, cell in zip(row["columns"], cells))
                print(f"clients: {name} {row['version']}: {shown}", flush=True)
            print(f"clients: {script.parent.name}/{script.stem} took {seconds:.1f} s", flush=True)
            for fault in found:
                print(f"clients: FAILED {fault}", flush=True)
            faults.extend(found)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(one, script) for script in scripts]:
            done.result()
    return rows, faults


# --- packages that are too large to install ---

def not_installed():
    """[(name, version, reason)], each proved by the requirements that the package's own metadata names."""
    entries, faults = [], []
    for name, entry in tomllib.loads((HERE / "not_installed.toml").read_text()).items():
        report = subprocess.run([sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet",
                                 "--disable-pip-version-check", "--report", "-", f"{name}=={entry['version']}"],
                                capture_output=True, text=True)
        if report.returncode != 0:
            faults.append(f"{name}: {report.stderr[-500:]}")
            continue
        needed = json.loads(report.stdout)["install"][0]["metadata"].get("requires_dist", [])
        if not any(re.match(re.escape(entry["requires"]) + r"\b", line) and "extra ==" not in line for line in needed):
            faults.append(f"{name} {entry['version']} no longer requires {entry['requires']}; install it")
        entries.append((name, entry["version"], entry["reason"]))
    return entries, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--venvs", type=pathlib.Path, default=ROOT / "build" / "client-venvs", help="folder of the environments")
    parser.add_argument("--sample", action="store_true", help="the folder `core` alone")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="write the page there")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "clients.md", help="the page to compare with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="scripts that run at once")
    parser.add_argument("names", nargs="*", help="scripts or folders")
    args = parser.parse_args()
    whole = not args.sample and not args.names
    if args.write and not whole:
        parser.error("--write needs a run of all clients")
    scripts = find_scripts(args)
    begin = time.monotonic()
    folders = sorted({script.parent.name for script in scripts})
    pythons = {name: make_venv(args.venvs.resolve() / name, HERE / name / "requirements.txt") for name in folders}
    missing, faults = not_installed() if whole else ([], [])
    installed = time.monotonic()
    with tempfile.TemporaryDirectory() as reports:
        served = Served(args.tutti, e2e.sanitizer_of(args.tutti), reports)
        try:
            rows, found = run_all(scripts, pythons, served.environment(), args.jobs)
        finally:
            wrong = served.stop()
        if e2e.print_reports(reports, "clients"):
            wrong.append("a sanitizer reported")
    for fault in wrong:
        print(f"clients: FAILED {fault}")
    faults += found + wrong
    if args.write and not faults:
        args.write.write_text(page.make(rows, missing))
    elif not args.names and not faults:
        faults = page.compare(rows, args.page)
        for fault in faults:
            print(f"clients: FAILED {fault}")
    states = [cell["state"] for row in rows.values() for cell in row["cells"].values()]
    print(f"clients: {len(rows)} clients, {states.count('yes')} cells pass, {states.count('cannot')} have a reason, "
          f"{len(faults)} faults; environments {installed - begin:.0f} s, checks {time.monotonic() - installed:.0f} s")
    return 1 if faults or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
