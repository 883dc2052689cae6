"""Brokers between frontend and workers: Debian's RabbitMQ and Redis on private ports, each in a temporary folder."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import eventually

SBIN = next(iter(pathlib.Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin")), None)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class QueueServer:
    """A server that is started, killed, paused, emptied and started again on the same port, in a process group of its
    own."""
    START_S = 60

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti_queue_"))
        self.port = free_port()
        self.process = None

    def start(self):
        self.log = open(self.folder / "log", "ab")
        self.process = self.launch()
        eventually(self.answers, limit_s=self.START_S)
        return self

    def launch(self):
        raise NotImplementedError

    def answers(self):
        assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")[-2000:]
        return all(listens(port) for port in self.ports())

    def ports(self):
        return [self.port]

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def wipe(self):
        """After kill(): as a machine that was set up anew."""
        for entry in self.folder.iterdir():
            if entry.name in self.KEPT:
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Redis(QueueServer):
    KEPT = ()
    backend = "redis"

    def __init__(self, password=None):
        super().__init__()
        self.password = password

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def launch(self):
        return subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                 "--dir", str(self.folder), *(["--requirepass", self.password] if self.password else [])], stdout=self.log, stderr=self.log, start_new_session=True)


class RabbitMq(QueueServer):
    """RabbitMQ with an Erlang port mapper of its own, so that nothing of it is left when it ends."""
    KEPT = ("home", "rabbitmq.conf")
    backend = "rabbitmq"

    def __init__(self, tls=None, login=None):
        """`tls`: a folder with broker.crt, broker.key and ca.crt; `login`: name and password of the one user."""
        super().__init__()
        assert SBIN is not None, "rabbitmq-server is not installed"
        self.mapper_port, self.node_port, self.tls_port = free_port(), free_port(), None
        (self.folder / "home").mkdir()
        cookie = self.folder / "home" / ".erlang.cookie"
        cookie.write_text("tuttitest")
        cookie.chmod(0o400)
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.console = true", "log.console.level = warning"]
        if tls:
            self.tls_port = free_port()
            lines += [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", f"ssl_options.certfile = {tls}/broker.crt",
                      f"ssl_options.keyfile = {tls}/broker.key", f"ssl_options.cacertfile = {tls}/ca.crt"]
        if login:
            lines += [f"default_user = {login[0]}", f"default_pass = {login[1]}"]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        self.mapper = None

    @property
    def url(self):
        return f"amqp://127.0.0.1:{self.port}"

    def ports(self):
        return [self.port, *([self.tls_port] if self.tls_port else [])]  # one is opened after the other

    def launch(self):
        environment = dict(os.environ, HOME=str(self.folder / "home"), RABBITMQ_NODENAME=f"tutti{self.port}@localhost",
                           RABBITMQ_MNESIA_BASE=str(self.folder / "data"), RABBITMQ_LOG_BASE=str(self.folder / "logs"),
                           RABBITMQ_CONFIG_FILE=str(self.folder / "rabbitmq.conf"), RABBITMQ_ENABLED_PLUGINS="",
                           RABBITMQ_ENABLED_PLUGINS_FILE=str(self.folder / "plugins"), RABBITMQ_DIST_PORT=str(self.node_port),
                           RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}",
                           ERL_EPMD_PORT=str(self.mapper_port), ERL_EPMD_ADDRESS="127.0.0.1")
        if self.mapper is None:
            self.mapper = subprocess.Popen(["epmd", "-port", str(self.mapper_port), "-address", "127.0.0.1"], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
            eventually(lambda: listens(self.mapper_port), limit_s=10)
        return subprocess.Popen([str(SBIN / "rabbitmq-server")], env=environment, stdout=self.log, stderr=self.log, start_new_session=True)

    def close(self):
        super().close()
        if self.mapper is not None:
            self.mapper.kill()
            self.mapper.wait()
            self.mapper = None
