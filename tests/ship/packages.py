#!/usr/bin/env python3
"""Installs each package in clean Debian 12 and 13 systems, as docs/install.md says, and asks it a question there (R42, R40).

    packages.py [--build build/release]                  all of what `make package image wheel` made there
    packages.py --only deb,service                       of: deb, tarball, wheel, image, engine, service, reproducible, extras
    packages.py --debian 13 --only tarball,wheel
    packages.py --reproducible                           also builds the commit in a second folder: equal bytes? (minutes)

deb, tarball, wheel: in each system until a chat over HTTP is answered, `tutti doctor --live` succeeds and SIGTERM ends the server with status 0;
then removed, which must leave nothing but what the page says.
image: unpacked and run by chroot as its own user. engine: loaded and run by podman. service: the .deb in a system with systemd as its first
process: enabled, reloaded, killed, restarted with the system, updated, purged. extras: `tutti[ray]` resolves.

The systems are made by debootstrap from this machine's mirror, once, in build/ship/roots. Everything listens on 127.0.0.1. Needs root.
"""
import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(ROOT / "tools")]
import hub_server  # noqa: E402
import packing  # noqa: E402
from clean_roots import ENVIRONMENT, SUITES, Root, call, chat, clean_root  # noqa: E402
from harness import free_port  # noqa: E402
from test_paths import cached_model, default_model, known_model  # noqa: E402

MODELS = "/srv/models"
MODEL = f"{MODELS}/{default_model().name}"
KINDS = ("deb", "tarball", "wheel", "image", "engine", "service", "extras", "reproducible")
TOOLS = {"debootstrap": "debootstrap", "unshare": "util-linux", "umoci": "umoci", "systemd-nspawn": "systemd-container"}
DYNAMIC_USERS = range(61184, 65520)  # the range of systemd
EXPOSURE = 20  # tenths; systemd calls up to 4.0 "OK"
# What apt, dpkg and ld.so write for any package, and what programs of the system leave behind.
SYSTEM = ("var/lib/apt", "var/lib/dpkg", "var/cache/apt", "var/cache/debconf", "var/cache/ldconfig", "var/log", "run", "etc/ld.so.cache",
          "var/lib/systemd", "etc/.pwd.lock")


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def expect(condition, *words):
    if not condition:
        raise AssertionError(" ".join(map(str, words)))


def one(folder, pattern, target):
    found = sorted(folder.glob(pattern))
    expect(len(found) == 1, f"{len(found)} files {pattern} in {folder}: run `make {target}`")
    return found[0]


def serve_and_ask(root, *program, user="0:0", more=(), **variables):
    """A chat by HTTP, `doctor --live`, a clean end."""
    port = free_port()
    server = root.start(*program, "serve", f"tutti={MODEL}", "--port", port, "--grpc-port", "0", *more, user=user, **variables)
    answer = chat(port, "tutti", server.alive)
    expect("4" in answer, answer)
    root.run(*program, "doctor", "--live", f"http://127.0.0.1:{port}", user=user, **variables)
    server.stop()
    status, said = root.run(*program, "doctor", "--live", f"http://127.0.0.1:{port}", user=user, check=False, **variables)
    expect(status != 0 and "unreachable" in said, "doctor --live of a server that ended:", status, said)


def new_files(root, before):
    return sorted(root.files(SYSTEM) - before)


class Checks:
    def __init__(self, build, work, page, uncached):
        self.build, self.work, self.page, self.uncached = build, work, page, uncached
        self.package = build / "package"
        self.cache = work.parent / "roots"

    @contextlib.contextmanager
    def root(self, suite, name, packages=()):
        """A copy of a clean system, which has the models in /srv/models."""
        source = clean_root(self.cache, suite, packages)
        path = self.work / name
        root = Root.copy(source, path)
        root.mount(default_model().parent, MODELS)
        try:
            yield root
        finally:
            root.close()
            shutil.rmtree(path, ignore_errors=True)

    def deb(self, debian):
        """On another Debian than its own it is installed, or refused for libraries that it names."""
        package = one(self.package, "tutti_*.deb", "package")
        with self.root(SUITES[debian], "deb") as root:
            root.run("apt-get", "update")
            before = root.files(SYSTEM)
            shutil.copy(package, root.path / "root")
            status, said = root.run("apt-get", "install", "-y", f"/root/{package.name}", check=False)
            if status != 0:
                missing = re.findall(r"Depends: (\S+)", said)
                expect(missing and "unmet dependencies" in said, said)
                expect(not (root.path / "usr/bin/tutti").exists(), "apt refused and installed it")
                expect(f"On Debian {debian}, apt refuses" in self.page, "docs/install.md does not say so:", said)
                say(f"Debian {debian}, .deb: apt refuses it, as the page says: it needs {', '.join(missing[:3])} and {max(0, len(missing) - 3)} more")
                return
            count = re.search(r"(\d+) newly installed", said).group(1)
            expect("tutti" in root.run("tutti", "version"), "tutti version")
            root.run("tutti", "doctor")
            serve_and_ask(root, "tutti", more=("--config", "/etc/tutti/tutti.toml"))
            root.run("apt-get", "remove", "-y", "tutti")
            kept = [name for name in new_files(root, before) if "tutti" in name and not name.startswith("root/")]
            expect([name for name in kept if (root.path / name).is_file() and not name.startswith("var/")] ==
                   ["etc/default/tutti", "etc/tutti/tutti.toml"], kept)
            root.run("apt-get", "purge", "-y", "tutti")
            root.run("apt-get", "autoremove", "--purge", "-y")
            left = [name for name in new_files(root, before) if not name.startswith("root/")]
            expect([name for name in left if "tutti" in name] == [], left)
            say(f"Debian {debian}, .deb: apt installed {count} packages; chat, doctor --live, clean end; remove keeps the settings, purge nothing")

    def tarball(self, debian):
        archive = one(self.package, "tutti-*-linux-*.tar.gz", "package")
        with self.root(SUITES[debian], "tarball") as root:
            home = root.path / "home/user"
            home.mkdir(parents=True)
            shutil.copy(archive, home)
            os.chown(home, 1000, 1000)
            before = root.files(SYSTEM)
            user = {"user": "1000:1000", "HOME": "/home/user"}
            root.run("mkdir", "-p", "/home/user/tutti", **user)
            root.run("tar", "xzf", f"/home/user/{archive.name}", "-C", "/home/user/tutti", "--strip-components", "1", **user)
            root.run("ln", "-s", "/home/user/tutti/bin/tutti", "/home/user/link", **user)
            expect(packing.version() in root.run("/home/user/link", "version", **user), "version")
            serve_and_ask(root, "/home/user/link", **user)
            root.run("rm", "-r", "/home/user/tutti", "/home/user/link", **user)
            left = new_files(root, before)
            expect([name for name in left if not re.match(r"home/user/\.local(/state(/tutti(/.*)?)?)?$", name)] == [], left)
            say(f"Debian {debian}, tarball: unpacked by a user without root, called by a link; chat, doctor --live, clean end; removed with its "
                "folder but for the store in ~/.local/state/tutti")

    def wheel(self, debian):
        """The wheel's dependencies are fetched here, for the system's Python: a clean system has no index of its own."""
        wheel = one(self.build.parent / "wheel", "tutti-*.whl", "wheel")
        expect(wheel.stat().st_size < 30e6, "the wheel has", wheel.stat().st_size, "bytes")
        known_model("all-minilm-l6-v2")
        readme = (ROOT / "python/README.md").read_text()
        lines = re.search(r"```python\n(.*?)```", readme, re.DOTALL).group(1)
        expect(len(lines.splitlines()) >= 30, "python/README.md has no 30 lines")
        with self.root(SUITES[debian], "wheel", ("python3", "python3-venv")) as root:
            version = root.run("python3", "-c", "import platform; print(platform.python_version())").strip()
            wheels = self.work.parent / "wheels" / version
            needs = re.findall(r"^Requires-Dist: ([^;\n]+)$", call("unzip", "-p", wheel, "*.dist-info/METADATA"), re.MULTILINE)
            platforms = [word for name in ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")
                         for word in ("--platform", f"{name}_{os.uname().machine}")]
            call(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--python-version", version, *platforms, "--dest",
                 wheels, *needs)
            root.mount(wheels, "/srv/wheels")
            root.mount(wheel.parent, "/srv/wheel")
            root.mount(cached_model("").parent, "/srv/cache")
            root.run("python3", "-m", "venv", "/root/venv")
            packages = root.path / "root/venv/lib" / f"python{version.rpartition('.')[0]}" / "site-packages"
            python = "/root/venv/bin/python"
            root.run(python, "-m", "pip", "install", "--no-index", "--find-links", "/srv/wheels", f"/srv/wheel/{wheel.name}")
            (root.path / "root/lines.py").write_text(lines)
            said = root.run(python, "/root/lines.py", TUTTI_CACHE="/srv/cache", TUTTI_PULL="never")
            expect("The kitten naps" in said and "4" in said, said)
            serve_and_ask(root, "/root/venv/bin/tutti")
            root.run(python, "-m", "pip", "uninstall", "-y", "tutti")
            left = [str(path.relative_to(packages)) for path in packages.rglob("*tutti*")]
            expect(left == [] and not (root.path / "root/venv/bin/tutti").exists(), left)
            say(f"Debian {debian}, wheel: Python {version}, {' and '.join(needs)} installed with it; the {len(lines.splitlines())} lines of "
                f"python/README.md run; chat, doctor --live, clean end; uninstalled whole")

    def image(self):
        archive = one(self.package, "tutti-*.oci.tar", "image")
        layout, bundle = self.work / "layout", self.work / "bundle"
        layout.mkdir()
        call("tar", "xf", archive, "-C", layout)
        (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
        call("umoci", "unpack", "--image", f"{layout}:{entry['annotations']['org.opencontainers.image.ref.name']}", bundle)
        process = json.loads((bundle / "config.json").read_text())["process"]
        user = f"{process['user']['uid']}:{process['user']['gid']}"
        expect(user == "65532:65532", user)
        root = Root(bundle / "rootfs")
        with contextlib.closing(root):
            root.mount(default_model().parent, MODELS)
            variables = dict(line.split("=", 1) for line in process["env"] if not line.startswith("TERM="))
            serve_and_ask(root, process["args"][0], user=user, more=("--store", "/var/lib/tutti/store"), **variables)
            expect((root.path / "var/lib/tutti/store").stat().st_uid == 65532, "the store is not the user's")
            own = [str(path.relative_to(root.path)) for path in root.path.rglob("*") if path.stat(follow_symlinks=False).st_uid == 65532]
            expect([name for name in own if not name.startswith(("var/lib/tutti", "var/cache/tutti"))] == [], own)
        say("image: unpacked by umoci; as user 65532, by chroot: chat, doctor --live, clean end; it wrote to its two folders alone")

    def engine(self):
        """podman in a clean system, with the image's own entry point and user, and a volume for the store."""
        archive = one(self.package, "tutti-*.oci.tar", "image")
        with self.root("bookworm", "engine", ("podman", "crun")) as root:
            root.mount(archive.parent, "/srv/image")
            podman = ["podman", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "crun"]
            name = f"tutti:{packing.version()}"
            port = free_port()
            steps = [[*podman, "load", "-i", f"/srv/image/{archive.name}"], [*podman, "image", "exists", name],
                     [*podman, "pull", "--quiet", f"docker-archive:/srv/image/{archive.name}"],
                     ["exec", *podman, "run", "--rm", "--name", "tutti", "--cgroups=disabled", "--network", "host", "-v",
                      f"{MODELS}:{MODELS}:ro", "-v", "tutti-store:/var/lib/tutti", name, "serve", f"tutti={MODEL}", "--port", str(port),
                      "--grpc-port", "0"]]
            script = "set -e\n" + "\n".join(" ".join(step) for step in steps) + "\n"
            (root.path / "root/run.sh").write_text(script)
            server = root.start("sh", "/root/run.sh", machine=True)
            try:
                answer = chat(port, "tutti", server.alive)
                expect("4" in answer, answer)
                server.inside(*podman, "exec", "tutti", "/usr/bin/tutti", "doctor", "--live", f"http://127.0.0.1:{port}")
                users = server.inside(*podman, "exec", "tutti", "/usr/bin/tutti", "version")
                expect(packing.version() in users, users)
                server.inside(*podman, "stop", "--time", "40", "tutti")
                status = server.process.wait(60)
                expect(status == 0, "podman run ended with", status)
                expect("drain.end" in server.log.read_text(), server.log.read_text())
            finally:
                server.kill()
        say(f"engine: podman loaded the image as {name}; chat, doctor --live by podman exec, drained and ended by podman stop")

    def service(self):
        """The .deb where systemd is the first process. Models come from a hub on this machine, as at a user's first start."""
        package = one(self.package, "tutti_*.deb", "package")
        with self.root("bookworm", "service", ("systemd-sysv", "dbus")) as root:
            root.run("apt-get", "update")
            shutil.copy(package, root.path / "root")
            newer = self.newer(package, root.path / "root")
            model = re.search(r'^MODELS="(.*)"$', (ROOT / "share/tutti/default").read_text(), re.MULTILINE).group(1)
            hub = hub_server.HubServer({model: hub_server.Repository({"model.gguf": default_model().read_bytes()})})
            try:
                with Booted(root) as system:
                    self.installed(system, root, package, hub)
                    self.running(system, root)
                    self.updated(system, root, newer)
                with Booted(root) as system:  # it is enabled
                    self.port_answers("after a start of the system")
                    system.run("apt-get", "purge", "-y", "tutti")
                    status, said = system.run("systemctl", "cat", "tutti", check=False)
                    expect(status != 0, said)
                    left = sorted(name for name in root.files(SYSTEM) if "tutti" in name and not name.startswith(("root/", "srv/")))
                    expect(left == [], "left after the purge:", left)
                say("service: started with the system; purged: stopped, unit, settings, store and models gone")
            finally:
                hub.stop()

    def newer(self, package, folder):
        """The same package with a later version."""
        work = self.work / "newer"
        call("dpkg-deb", "-R", package, work)
        control = work / "DEBIAN/control"
        control.write_text(control.read_text().replace(f"Version: {packing.version()}", f"Version: {packing.version()}+later"))
        made = folder / "later.deb"
        call("dpkg-deb", "--root-owner-group", "-Znone", "-b", work, made)
        shutil.rmtree(work)
        return made

    def port_answers(self, when):
        answer = chat(self.port, key=self.key)
        expect("4" in answer, when, answer)

    def installed(self, system, root, package, hub):
        system.run("apt-get", "install", "-y", f"/root/{package.name}")
        expect(system.run("systemctl", "is-active", "tutti", check=False)[1].strip() == "inactive", "the installation started it")
        expect(system.run("systemctl", "is-enabled", "tutti", check=False)[1].strip() == "disabled", "the installation enabled it")
        said = system.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/tutti.service")
        expect(said.strip() == "", said)
        status, said = system.run("systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE}",
                                  "/usr/lib/systemd/system/tutti.service", check=False)
        level = re.search(r"Overall exposure level for tutti.service: ([\d.]+)", said)
        expect(status == 0 and level, said)
        self.port, self.key = free_port(), None
        settings, defaults = root.path / "etc/tutti/tutti.toml", root.path / "etc/default/tutti"
        settings.write_text(settings.read_text().replace("port = 8080", f"port = {self.port}\ngrpc-port = 0"))
        defaults.write_text(defaults.read_text() + f"HF_ENDPOINT={hub.url}\n")
        system.run("systemctl", "enable", "--now", "tutti")
        self.port_answers("after enable --now")
        system.run("tutti", "doctor", "--live", f"http://127.0.0.1:{self.port}")
        user = int(system.run("stat", "-c", "%u", f"/proc/{self.main_pid(system)}"))
        expect(user in DYNAMIC_USERS, "it runs as", user)
        say(f"service: installed stopped; systemd-analyze verify has no remark, security says {level.group(1)} (at most {EXPOSURE / 10}); "
            f"enabled and started as user {user}, its model fetched from a hub; chat, doctor --live")

    def main_pid(self, system):
        return int(system.run("systemctl", "show", "--value", "-p", "MainPID", "tutti"))

    def wait_new_pid(self, system, old):
        for _ in range(200):
            pid = self.main_pid(system)
            if pid not in (0, old):
                return pid
            time.sleep(0.2)
        raise AssertionError(f"process {old} was not replaced: {system.run('systemctl', 'status', 'tutti', check=False)[1]}")

    def running(self, system, root):
        first = self.main_pid(system)
        said = system.run("tutti", "keys", "create", "alice", "--store", "/var/lib/tutti")
        self.key = re.search(r"^(tutti-\S+)$", said, re.MULTILINE).group(1)
        system.run("systemctl", "reload", "tutti")
        expect(self.main_pid(system) == first, "a reload replaced the process")
        for _ in range(50):
            if "reload" in system.run("journalctl", "-u", "tutti", "--no-pager"):
                break
            time.sleep(0.2)
        else:
            raise AssertionError("the journal has no word of the reload")
        system.run("systemctl", "kill", "--signal=KILL", "tutti")
        second = self.wait_new_pid(system, first)
        self.port_answers("after SIGKILL, with the key that was made")
        say(f"service: keys made while it runs, reloaded in place, replaced by systemd after SIGKILL ({first}, {second})")

    def updated(self, system, root, newer):
        before = self.main_pid(system)
        settings = (root.path / "etc/tutti/tutti.toml").read_text()
        system.run("apt-get", "install", "-y", f"/root/{newer.name}")
        after = self.wait_new_pid(system, before)
        expect((root.path / "etc/tutti/tutti.toml").read_text() == settings, "the update changed the settings")
        shown = dict(line.split("=", 1) for line in system.run("systemctl", "show", "tutti", "-p", "ActiveState", "-p", "Result").split())
        expect(shown == {"ActiveState": "active", "Result": "success"}, shown)
        self.port_answers("after an update")
        expect(self.main_pid(system) == after, "the updated program ended")
        system.run("systemctl", "stop", "tutti")
        shown = dict(line.split("=", 1) for line in system.run("systemctl", "show", "tutti", "-p", "ExecMainStatus", "-p", "Result").split())
        expect(shown == {"ExecMainStatus": "0", "Result": "success"}, shown)
        say("service: an update keeps the settings and restarts it; stop ends it with status 0")

    def extras(self):
        """What pip would install for the wheel with Ray; nothing is installed."""
        wheel = one(self.build.parent / "wheel", "tutti-*.whl", "wheel")
        report = self.work / "report.json"
        call(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", report,
             f"tutti[ray] @ {wheel.as_uri()}")
        found = {entry["metadata"]["name"].lower(): entry["metadata"]["version"] for entry in json.loads(report.read_text())["install"]}
        expect({"tutti", "ray", "numpy", "cffi", "pyarrow"} <= set(found), found)
        say(f"extras: tutti[ray] resolves to {len(found)} packages, with Ray {found['ray']}")

    def reproducible(self):
        """Builds the commit in another folder and compares what is packed from both."""
        changed = call("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no")
        expect(changed == "", "commit first: a second build has the commit alone:", changed)
        revision = call("git", "-C", ROOT, "rev-parse", "HEAD").strip()
        second = self.work / "another-folder"
        call("git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, second)
        call("git", "-C", second, "checkout", "--quiet", revision)
        sums = []
        for source in (ROOT, second):
            environment = dict(os.environ, **({"CCACHE_DISABLE": "1"} if self.uncached and source == second else {}))
            call("tools/build.sh", "release", "tutti", "tutti_shared", "tutti_wheel_program", cwd=source, env=environment)
            out = self.work / f"packed{len(sums)}"
            for tool in ("make_packages", "make_image", "make_wheel"):
                call(sys.executable, source / f"tools/{tool}.py", "--build", source / "build/release", "--out", out / tool, cwd=source)
            sums.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.glob("*/*"))})
        expect(set(sums[0]) == set(sums[1]) and len(sums[0]) == 4, sums)
        different = [name for name in sums[0] if sums[0][name] != sums[1][name]]
        expect(different == [], "two builds differ in", ", ".join(different))
        for name, digest in sums[0].items():
            say(f"reproducible: {name} {digest}")
        say(f"reproducible: two builds of {revision[:12]} in two folders have equal bytes; the second one "
            f"{'compiled all' if self.uncached else 'took objects from the compiler cache where it had them, and linked and packed all'}")


class Booted:
    """A root whose first process is systemd, by systemd-nspawn, on this machine's network."""

    def __init__(self, root):
        self.root = root

    def __enter__(self):
        binds = [f"--bind-ro={folder}:{place}" for folder, place in self.root.mounts]
        log = open(self.root.path.with_suffix(".boot.log"), "a")
        self.nspawn = subprocess.Popen(["systemd-nspawn", "--quiet", "--directory", self.root.path, "--register=no", "--keep-unit", "--boot",
                                        "--link-journal=no", "--console=pipe", *binds], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            for _ in range(300):
                if self.nspawn.poll() is not None:
                    raise AssertionError(f"systemd-nspawn ended: {self.root.path.with_suffix('.boot.log').read_text()}")
                status, said = self.run("systemctl", "is-system-running", check=False) if self.first() else (1, "")
                if said.strip() in ("running", "degraded"):
                    return self
                time.sleep(0.2)
            raise AssertionError(f"the system did not start: {said}")
        except BaseException:
            self.end()
            raise

    def first(self):
        """The process id of systemd, which is a child of systemd-nspawn."""
        children = pathlib.Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def run(self, *command, check=True, **variables):
        environment = [f"{name}={value}" for name, value in (ENVIRONMENT | variables).items()]
        done = subprocess.run(["nsenter", "--target", str(self.first()), "--all", "env", "-i", *environment, *map(str, command)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout if check else (done.returncode, done.stdout)

    def end(self):
        first = self.first() if self.nspawn.poll() is None else None
        if first:
            os.kill(first, signal.SIGKILL)  # the kernel ends the others of its namespace
        try:
            self.nspawn.wait(20)
        except subprocess.TimeoutExpired:
            self.nspawn.kill()
            self.nspawn.wait()

    def __exit__(self, kind, *_):
        if kind is None:
            self.run("systemctl", "poweroff", check=False)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.nspawn.wait(90)
        if self.nspawn.poll() is None:
            self.end()
            if kind is None:
                raise AssertionError("the system did not end in 90 s")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="FOLDER")
    parser.add_argument("--debian", default="12,13", help="versions of clean systems [12,13]")
    parser.add_argument("--only", metavar="KINDS", help="some of: " + ", ".join(KINDS))
    parser.add_argument("--reproducible", action="store_true", help="also builds the commit a second time and compares (minutes)")
    parser.add_argument("--uncached", action="store_true", help="the second build compiles all (CCACHE_DISABLE)")
    arguments = parser.parse_args(argv)
    arguments.kinds = arguments.only.split(",") if arguments.only else [kind for kind in KINDS if kind != "reproducible" or arguments.reproducible]
    arguments.debians = arguments.debian.split(",")
    for given, known in ((arguments.kinds, KINDS), (arguments.debians, SUITES)):
        for word in given:
            if word not in known:
                parser.error(f"{word} is none of {', '.join(known)}")
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("packages: ended"))  # with what must be cleaned up
    if os.geteuid() != 0:
        if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            kept = ",".join(name for name in ("HOME", "PATH", "TUTTI_CACHE", "TUTTI_TEST_MODEL", "CCACHE_DIR") if name in os.environ)
            os.execvp("sudo", ["sudo", "-n", f"--preserve-env={kept}", sys.executable, *sys.argv])
        sys.exit(f"packages: chroot and mounts need root: sudo {' '.join(sys.argv)}")
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if missing:
        sys.exit(f"packages: apt install {' '.join(missing)}")
    work = ROOT / "build" / "ship" / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    checks = Checks(arguments.build.resolve(), work, (ROOT / "docs/install.md").read_text(), arguments.uncached)
    failures = 0
    for kind in arguments.kinds:
        for debian in arguments.debians if kind in ("deb", "tarball", "wheel") else [None]:
            try:
                getattr(checks, kind)(*([debian] if debian else []))
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failures += 1
                say(f"FAILED: {f'Debian {debian}, ' if debian else ''}{kind}: {error}")
    shutil.rmtree(work, ignore_errors=True)
    say(f"packages: {failures} FAILED" if failures else "packages: all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
