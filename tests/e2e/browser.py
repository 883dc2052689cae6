"""Chromium for tests of the page: Debian's headless shell, which draws no window, driven by Playwright.

The browser reaches 127.0.0.1 alone. Each test ends with what must hold for every page: nothing was asked of another host, the
content security policy refused nothing, and no script failed.
"""
import contextlib
import os
import select
import shutil
import socket
import threading
import unittest
import urllib.parse

from playwright.sync_api import expect, sync_playwright

from harness import STEP_S, Relay

# E2E_BROWSER=/usr/bin/chromium is the whole browser, which takes half as long again.
EXECUTABLE = os.environ.get("E2E_BROWSER") or shutil.which("chromium-headless-shell") or "/usr/bin/chromium-headless-shell"
# The page is served to this machine alone, so Chromium's own sandbox, which root cannot use, protects nothing here.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
VIOLATIONS = "addEventListener('securitypolicyviolation', (e) => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI));"

expect.set_options(timeout=STEP_S * 1000)


class BrowserCase(unittest.TestCase):
    """One browser for the tests of a file, a new profile for each test."""
    chromium = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if BrowserCase.chromium is None:
            playwright = sync_playwright().start()
            unittest.addModuleCleanup(playwright.stop)
            BrowserCase.chromium = playwright.chromium.launch(executable_path=EXECUTABLE, args=ARGUMENTS)
            unittest.addModuleCleanup(BrowserCase.close_browser)

    @staticmethod
    def close_browser():
        BrowserCase.chromium.close()
        BrowserCase.chromium = None

    def setUp(self):
        self.requests, self.faults = [], []
        self.expected_faults = ()  # parts of messages that a test brings about

    def tearDown(self):
        hosts = {urllib.parse.urlsplit(url).hostname for url in self.requests if url.startswith(("http", "ws"))}
        self.assertLessEqual(hosts, {"127.0.0.1"}, "the page asks no other host")
        faults = [fault for fault in self.faults if not any(part in fault for part in self.expected_faults)]
        self.assertEqual(faults, [])

    def new_profile(self, **options):
        context = self.chromium.new_context(**options)
        self.addCleanup(context.close)
        context.set_default_timeout(STEP_S * 1000)
        context.add_init_script(VIOLATIONS)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("page", self.watch)
        return context

    def watch(self, page):
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda message: message.type == "error" and self.faults.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def open(self, url, profile=None, **options):
        page = (profile or self.new_profile(**options)).new_page()
        page.goto(url)
        return page


class CuttableProxy(Relay):
    """Passes bytes on to a port of this machine until it is cut: then it closes what is open, and refuses what comes."""

    def __init__(self, port):
        self.target = port
        self.open = True
        self.sockets = set()
        self.lock = threading.Lock()
        super().__init__()

    def serve(self, client):
        with client, contextlib.suppress(OSError):
            if not self.open:
                return
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                with self.lock:
                    self.sockets |= {client, server}
                self.copy(client, server)

    def copy(self, client, server):
        try:
            while True:
                for side in select.select([client, server], [], [])[0]:
                    data = side.recv(1 << 16)
                    if not data:
                        return
                    (server if side is client else client).sendall(data)
        finally:
            with self.lock:
                self.sockets -= {client, server}

    def cut(self):
        self.open = False
        with self.lock:
            for each in self.sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self.open = True

    def close(self):
        super().close()
        self.cut()
