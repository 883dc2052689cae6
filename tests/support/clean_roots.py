"""Clean Debian systems in folders, for checks of what is installed into them.

They are made by debootstrap from the mirror of this machine, once, and copied for each use. Commands run in them by chroot, in mount and process
namespaces of their own: when a command ends or its parent is killed, the kernel ends its processes and unmounts its folders.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

SUITES = {"12": "bookworm", "13": "trixie"}
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive"}
# The mirror of a company may have a certificate of its own, which its programs know and a new system does not.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
# For a container engine: the root is the whole file system of the command, with devices, and control groups of one kind.
MACHINE = """
mount --bind "$root" "$root"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount --rbind /dev "$root/dev"
"""
PIVOT = """
cd "$root"
pivot_root . .
umount -l .
root=.
"""
# Arguments: the root, user and group, pairs of a folder here and one in the root, "--", the command.
ENTER = """
set -e
root=$1 user=$2; shift 2
{machine}
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; mount -o remount,bind,ro "$root$2"; shift 2; done
shift
{pivot}
exec /usr/sbin/chroot --userspec="$user" --groups= "$root" "$@"
"""


def call(*command, **options):
    """Output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command[-4:]))}: exit status {done.returncode}: {done.stdout[-3000:]}")
    return done.stdout


def mirror(suite):
    """Where this machine has its Debian packages from."""
    lines = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN) $(CODENAME)", "Created-By: Packages"], capture_output=True,
                           text=True, check=False).stdout
    sites = re.findall(r"^(\S+) Debian (\w+)$", lines, re.MULTILINE)
    return next((site for site, codename in sites if codename == suite), next((site for site, _ in sites), "http://deb.debian.org/debian"))


def clean_root(cache, suite, packages=()):
    """A minimal system with `packages`, made if the cache has none. It is copied, never used itself."""
    path = cache / "-".join([suite, *packages])
    if not path.exists():
        partial = cache / f".{path.name}"
        shutil.rmtree(partial, ignore_errors=True)
        cache.mkdir(parents=True, exist_ok=True)
        call("debootstrap", "--variant=minbase", suite, partial, mirror(suite))
        if packages:
            with contextlib.closing(Root(partial)) as root:
                root.install(*packages)
        call("chroot", partial, "apt-get", "clean")
        partial.rename(path)
    return path


class Root:
    def __init__(self, path):
        self.path = path
        self.mounts = []  # (folder here, folder in the root), read-only
        self.servers = []
        shutil.copyfile("/etc/resolv.conf", path / "etc/resolv.conf")

    @classmethod
    def copy(cls, source, path):
        call("cp", "-a", "--reflink=auto", source, path)
        return cls(path)

    def mount(self, folder, place):
        (self.path / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.mounts.append((folder, place))

    def command(self, *command, user="0:0", machine=False, **variables):
        environment = ENVIRONMENT | {name: os.environ[name] for name in PROXIES if name in os.environ} | variables
        mounts = [str(part) for pair in self.mounts for part in pair]
        enter = ENTER.replace("{machine}", MACHINE if machine else "").replace("{pivot}", PIVOT if machine else "")
        return ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "unshare", "--mount", "--pid", "--fork", "--kill-child",
                "/bin/sh", "-c", enter, "enter", str(self.path), user, *mounts, "--", *map(str, command)]

    def run(self, *command, check=True, timeout=900, **options):
        done = subprocess.run(self.command(*command, **options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout if check else (done.returncode, done.stdout)

    def take_tree(self, source, place="/src/tutti"):
        """The committed files of a repository and this machine's authorities, in a system that has ca-certificates."""
        tree = self.path / place.lstrip("/")
        shutil.rmtree(tree, ignore_errors=True)
        tree.parent.mkdir(parents=True, exist_ok=True)
        call("git", "clone", "--quiet", "--no-hardlinks", source, tree)
        call("chown", "-R", "0:0", tree)  # git asks who owns it
        shutil.copyfile(AUTHORITIES, self.path / AUTHORITIES.lstrip("/"))
        return tree

    def install(self, *packages):
        self.run("apt-get", "update")
        return self.run("apt-get", "install", "-y", "--no-install-recommends", *packages)

    def start(self, *command, **options):
        server = Server(self.command(*command, **options), self.path.with_suffix(f".{len(self.servers)}.log"))
        self.servers.append(server)
        return server

    def close(self):
        for server in self.servers:
            server.kill()

    def files(self, but=()):
        """Names of all files, links and folders but those below some folders."""
        skipped = re.compile("|".join(["^proc", "^dev", "^tmp", *(f"^{re.escape(name)}" for name in but)]))
        found = set()
        for folder, folders, names in os.walk(self.path):
            below = pathlib.Path(folder).relative_to(self.path)
            folders[:] = [name for name in folders if not skipped.match(str(below / name))]
            found.update(name for name in (str(below / each) for each in [*folders, *names]) if not skipped.match(name))
        return found


class Server:
    """A command in a root that runs until it is stopped."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "w") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def alive(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")

    def pid(self):
        """The command itself, which the namespace's creator waits for."""
        self.alive()
        return int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def inside(self, *command):
        """Runs another command in the namespaces and the root of this one."""
        return call("nsenter", "--target", str(self.pid()), "--mount", "--pid", "--root", "--wd", "env", "-i",
                    *(f"{name}={value}" for name, value in ENVIRONMENT.items()), *command, timeout=120)

    def stop(self):
        os.kill(self.pid(), signal.SIGTERM)
        status = self.process.wait(60)
        if status != 0:
            raise AssertionError(f"the server ended with {status} after SIGTERM: {self.log.read_text()[-2000:]}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def chat(port, model=None, alive=lambda: None, key=None, limit_s=180):
    """The answer to a question, asked until the model is loaded; of the only model, unless one is named."""
    end = time.monotonic() + limit_s
    said = None
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    while time.monotonic() < end:
        alive()
        try:
            if model is None:
                with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers=headers), timeout=60) as answer:
                    model = json.load(answer)["data"][0]["id"]
            body = {"model": model, "messages": [{"role": "user", "content": "What is 2 + 2?"}], "max_tokens": 20, "temperature": 0}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            said = error.read()
            if error.code != 503:  # the model is loading
                raise AssertionError(f"status {error.code}: {said}") from error
        except (OSError, IndexError) as error:
            said = error
        time.sleep(0.2)
    raise AssertionError(f"no answer in {limit_s} s: {said}")
