"""Runs the checks of one script in its environment: worker.py SCRIPT RESULTS, a file of a JSON object a line.

run.py reads them. The first lines name the clients and their columns, so that a check which ends the process is missed.
"""
import asyncio
import importlib.metadata
import importlib.util
import inspect
import json
import os
import pathlib
import re
import signal
import sys
import time
import traceback

import checks

LIMIT_S = 120  # of one check


def expire(*_):
    raise TimeoutError(f"no end within {LIMIT_S} s")


def version_of(client):
    return client.version or importlib.metadata.version(client.distribution)


def causes(error):
    """The texts of an error and of those behind it, which frameworks wrap; of groups each member's."""
    seen, todo = [], [error]
    while todo:
        one = todo.pop(0)
        if one is None or one in seen:
            continue
        seen.append(one)
        todo += [*getattr(one, "exceptions", ()), one.__cause__, one.__context__]
    return "\n".join(f"{type(one).__name__}: {one}" for one in seen)


def judge(client, check):
    begin = time.monotonic()
    result = {"client": client.name, "column": check.column, "state": "yes", "text": ""}
    signal.alarm(LIMIT_S)
    try:
        if inspect.iscoroutinefunction(check.function):
            asyncio.run(check.function())
        else:
            check.function()
        if check.cannot:
            result.update(state="failed", text=f"passes now; it is declared to fail: {check.cannot}")
    except (Exception, SystemExit) as error:
        words = causes(error)
        if check.cannot and re.search(check.error, words):
            result.update(state="cannot", text=check.cannot)
        else:
            told = f"; declared is {check.error!r}" if check.cannot else ""
            result.update(state="failed", text=words[:1500] + told, trace=traceback.format_exc(limit=-4)[-2500:])
    finally:
        signal.alarm(0)
    result["seconds"] = round(time.monotonic() - begin, 2)
    return result


def main():
    script, results = map(pathlib.Path, sys.argv[1:3])
    signal.signal(signal.SIGALRM, expire)
    with open(results, "w", buffering=1) as out:
        def tell(line):
            out.write(json.dumps(line) + "\n")
        spec = importlib.util.spec_from_file_location("clients_script_" + script.stem, script)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where decorators look names up
        spec.loader.exec_module(module)
        for client in checks.CLIENTS:
            tell({"client": client.name, "version": version_of(client), "section": client.section,
                  "columns": [check.column for check in client.checks]})
        for client in checks.CLIENTS:
            for check in client.checks:
                tell(judge(client, check))
        tell({"end": True})


if __name__ == "__main__":
    try:
        main()
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that clients leave behind would keep the process
