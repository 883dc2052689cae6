"""A real redis-server for one test: on a port of its own of 127.0.0.1, without persistence; stopped by its pid."""
import os
import signal
import socket
import subprocess
import tempfile

from harness import eventually, free_port


class RedisServer:
    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-redis-")
        self.options = options
        self.port = free_port()
        self.process = None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        """Starts it again at the same port, without earlier data."""
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
             self.folder.name, "--logfile", os.path.join(self.folder.name, "log"), *self.options], stdout=subprocess.DEVNULL)
        eventually(self.answers, lambda: "redis-server does not start")

    def answers(self):
        try:
            return self.call("PING") == b"+PONG" or self.process.poll() is not None
        except OSError:
            return False

    def call(self, *words):
        """The answer: a line, the bytes of a text, or a list of such; nothing there: None."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            with connection.makefile("rb") as file:
                def reply():
                    line = file.readline().rstrip(b"\r\n")
                    if line.startswith(b"$"):
                        size = int(line[1:])
                        return None if size < 0 else file.read(size + 2)[:-2]
                    if line.startswith(b"*"):
                        return [reply() for _ in range(int(line[1:]))]
                    return line
                return reply()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.kill()
        self.folder.cleanup()
