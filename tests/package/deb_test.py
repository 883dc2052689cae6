#!/usr/bin/env python3
"""The Debian package (R42): built from the build folder, unpacked, and served from as the service does."""
import argparse
import gzip
import http.client
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
from harness import default_model, free_port  # noqa: E402

# Where files may lie, and nowhere else.
PLACES = re.compile(r"^(etc/default/tutti|etc/tutti/tutti\.toml|usr/bin/tutti|usr/include/tutti/\w+\.h|usr/lib/libtutti\.so[.\d]*|"
                    r"usr/lib/(cmake/tutti|pkgconfig)/[\w.-]+|usr/lib/systemd/system/tutti\.service|usr/share/doc/tutti/[\w.]+|"
                    r"usr/share/man/man1/tutti(-\w+)?\.1\.gz|usr/share/tutti/mosquitto/tutti\.\w+)$")


def call(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def unit_settings(root):
    """The lines of the unit's [Service] by their keys."""
    text = (root / "usr/lib/systemd/system/tutti.service").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def check_files(package, root):
    files = [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if not path.is_dir()]
    assert [name for name in files if not PLACES.match(name)] == [], files
    control = package.parent / "control"
    call("dpkg-deb", "-e", package, control)
    conffiles = (control / "conffiles").read_text().split()
    assert conffiles == [f"/{name}" for name in files if name.startswith("etc/")], conffiles
    for script in ("postinst", "prerm", "postrm"):
        call("sh", "-n", control / script)
    depends = re.search(r"^Depends: (.*)$", (control / "control").read_text(), re.MULTILINE).group(1)
    for needed in ("libc6", "libgrpc", "libssl", "ca-certificates"):
        assert needed in depends, depends


def check_pages(root):
    program = root / "usr/bin/tutti"
    listed = call(program, "--help").split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
    for command in re.findall(r"^  (\S+)  ", listed, re.MULTILINE):
        page = gzip.decompress((root / f"usr/share/man/man1/tutti-{command}.1.gz").read_bytes()).decode()
        assert f"tutti-{command} \\-" in page and ".SH SYNOPSIS" in page, command
    serve = gzip.decompress((root / "usr/share/man/man1/tutti-serve.1.gz").read_bytes()).decode()
    assert "max\\-num\\-seqs" in serve, "all options"


def check_service(root, folder):
    """The command of the unit, with its variables, on other folders and a free port."""
    settings, port = unit_settings(root), free_port()
    environment = dict(os.environ, **dict(re.findall(r'^(\w+)="(.*)"$', (root / "etc/default/tutti").read_text(), re.MULTILINE)))
    for name, value in (item.split("=", 1) for item in settings["Environment"].split()):
        environment[name] = str(folder / value.lstrip("/"))
    environment.pop("TUTTI_CACHE")  # the default model is in the one of these tests
    config = (root / "etc/tutti/tutti.toml").read_text().replace("port = 8080", f"port = {port}\ngrpc-port = 0")
    (folder / "tutti.toml").write_text(config)
    words = [os.path.expandvars(word) for word in shlex.split(settings["ExecStart"].replace("$MODELS", environment.pop("MODELS")))]
    moved = {"/usr/bin/tutti": root / "usr/bin/tutti", "/etc/tutti/tutti.toml": folder / "tutti.toml"}
    words = [str(moved.get(word, word)) for word in words]
    assert default_model(), "the model of the service"
    server = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        body = json.dumps({"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "What is 2 + 2?"}], "max_tokens": 20,
                           "temperature": 0})
        for _ in range(600):
            time.sleep(0.1)
            assert server.poll() is None, server.stderr.read()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
            except OSError:
                continue
            answer = json.loads(response.read())
            if response.status != 503:  # the model is loading
                break
        assert response.status == 200, answer
        assert "4" in answer["choices"][0]["message"]["content"], answer
        assert (folder / "var/lib/tutti").is_dir(), "the store"
        call(root / "usr/bin/tutti", "doctor", "--live", f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        assert server.wait(60) == 0
    for url, why in ((f"http://127.0.0.1:{port}", "unreachable"), ("https://x", "--live: https")):
        dead = subprocess.run([root / "usr/bin/tutti", "doctor", "--live", url], capture_output=True, text=True, check=False, timeout=60)
        assert dead.returncode != 0 and why in dead.stderr, dead


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    call(sys.executable, SOURCE / "tools/make_man.py", "--tutti", args.build / "tutti", "--out", args.build / "man")
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        call("cpack", "-G", "DEB", "-B", folder / "package", cwd=args.build)
        (package,) = (folder / "package").glob("tutti_*.deb")
        root = folder / "root"
        call("dpkg-deb", "-x", package, root)
        check_files(package, root)
        check_pages(root)
        for folder_of_service in ("var/lib", "var/cache"):
            (folder / folder_of_service).mkdir(parents=True)
        check_service(root, folder)
    print("deb_test: all passed")


if __name__ == "__main__":
    main()
