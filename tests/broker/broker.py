"""A mosquitto of the test's own: the shipped configuration and rules, on a free port of 127.0.0.1, in a folder of its own."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "share" / "mosquitto"
PATIENCE_S = 30
PASSWORDS = {"llmserver": "secret of the server", "anna": "secret of anna", "ben": "secret of ben"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def put_in(text, old, new):
    """`text` with `old`, which must stand there, replaced: what we ship is what is run."""
    assert old in text, f"the shipped configuration lacks {old!r}"
    return text.replace(old, new)


class Broker:
    def __init__(self, tls=None, users=PASSWORDS, more=""):
        """`tls`: a folder with broker.crt, broker.key and, where clients need certificates, clients-ca.crt."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="broker-"))
        self.port, self.tls_port = free_port(), free_port() if tls else None
        self.process = None
        (self.folder / "conf.d").mkdir()
        rules = self.folder / "tutti.acl"
        shutil.copy(SHIPPED / "tutti.acl", rules)
        rules.chmod(0o600)
        self.add_users(users)
        shipped = (SHIPPED / "tutti.conf").read_text()
        shipped = put_in(shipped, "listener 1883 127.0.0.1", f"listener {self.port} 127.0.0.1")
        for name in ("tutti.passwd", "tutti.acl"):
            shipped = put_in(shipped, f"/etc/mosquitto/{name}", str(self.folder / name))
        if tls:
            shipped = put_in(shipped, "#listener 8883", f"listener {self.tls_port} 127.0.0.1")
            for word, name in (("certfile", "broker.crt"), ("keyfile", "broker.key"), ("cafile", "clients-ca.crt")):
                path = pathlib.Path(tls, name)
                if path.exists():
                    shipped = put_in(shipped, f"#{word} /etc/mosquitto/certs/{name}", f"{word} {path}")
            shipped = put_in(shipped, "#tls_version", "tls_version")
            if pathlib.Path(tls, "clients-ca.crt").exists():
                shipped = put_in(shipped, "#require_certificate", "require_certificate")
                shipped = put_in(shipped, "#use_identity_as_username", "use_identity_as_username")
        (self.folder / "conf.d" / "tutti.conf").write_text(shipped)
        # Like Debian's mosquitto.conf, which includes the folder.
        (self.folder / "mosquitto.conf").write_text(
            ("user root\n" if os.getuid() == 0 else "") + more +
            f"persistence_location {self.folder}/\nlog_dest file {self.folder}/log\ninclude_dir {self.folder}/conf.d\n")
        self.start()

    def add_users(self, users):
        file = self.folder / "tutti.passwd"
        file.touch(mode=0o600)
        for name, password in users.items():
            subprocess.run(["mosquitto_passwd", "-b", str(file), name, password], check=True)

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self):
        path = os.environ["PATH"] + ":/usr/sbin"
        self.process = subprocess.Popen(["mosquitto", "-c", str(self.folder / "mosquitto.conf")],
                                        env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                status = self.process.poll()
                assert status is None, f"mosquitto ended with {status}: {self.log()}"
                assert time.monotonic() < end, "mosquitto does not listen"
                time.sleep(0.02)

    def log(self):
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def send_signal(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM):
        """Ends it; what it keeps stays in its folder, for start()."""
        if number != signal.SIGKILL:  # which ends a stopped one as it is: it must not acknowledge something first
            self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)

    def close(self):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
