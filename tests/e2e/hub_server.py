"""A hub of models on this machine, as huggingface_hub and `tutti pull` ask one: two servers, the hub and the CDN it redirects to.

Files in `lfs` are redirected to the CDN, which knows SHA-256; others are answered by the hub itself, with git's hash. `faults` makes
it lie or break: see Faults. Every request is written to `requests`.
"""
import collections
import hashlib
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

Request = collections.namedtuple("Request", "server method path headers")
CHUNK = 16 << 10


class Faults:
    def __init__(self):
        self.statuses = []           # (status, headers) of the next answers of files, in order
        self.listing_statuses = []   # the same of the API
        self.cut_every = 0           # bytes of a body after which the connection is closed
        self.announced = None        # Content-Length, if it is not that of the body
        self.cuts_left = None        # None: each time
        self.ignore_range = False
        self.html = False            # a page instead of each file
        self.loop = False            # files redirect to themselves, without end
        self.plain_redirect = False  # files redirect to http
        self.content_encoding = None
        self.other_bytes = False     # right length, other content
        self.short = 0               # bytes that files lack; the length that is announced lacks them too
        self.extra = b""             # behind each body, without a length
        self.listing = None          # changes the list of files: called with it
        self.listing_body = None     # instead of it
        self.pause_s = 0             # between chunks
        self.stall_at = None         # nothing more is sent behind so many bytes of a body
        self.refuse_range = False    # 416 to each range


class Repository:
    def __init__(self, files, lfs=None, token=None):
        self.token = token
        self.refs = {}
        self.commits = {}
        self.commit(files, lfs)

    def commit(self, files, lfs=None, ref="main"):
        """`lfs`: names of those that lie on the CDN; by default safetensors and GGUF. Returns the commit."""
        lfs = {name for name in files if name.endswith((".safetensors", ".gguf", ".bin", ".onnx"))} if lfs is None else lfs
        name = hashlib.sha1(json.dumps([[path, hashlib.sha256(data).hexdigest()] for path, data in sorted(files.items())]).encode()).hexdigest()
        self.commits[name] = (dict(files), set(lfs))
        self.refs[ref] = name
        return name

    def find(self, revision):
        commit = self.refs.get(revision, revision)
        return (commit, *self.commits[commit]) if commit in self.commits else (None, None, None)


def blob_hash(data, is_lfs):
    return hashlib.sha256(data).hexdigest() if is_lfs else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class HubServer:
    PAGE = 3  # files in a page of the list: smaller than any hub's, so that paging is used

    def __init__(self, repositories=None, certificate=None):
        """`certificate`: paths of a certificate and its key, for https."""
        self.repositories = repositories or {}
        self.faults = Faults()
        self.requests = []
        self.sent = collections.Counter()  # bytes of bodies of files, by path in the repository
        self.blobs = {}                    # of the CDN, by SHA-256
        self.scheme = "https" if certificate else "http"
        self.servers = [self.start(Hub, certificate), self.start(Cdn, certificate)]
        self.url, self.cdn = (f"{self.scheme}://127.0.0.1:{server.server_port}" for server in self.servers)

    def start(self, handler, certificate):
        server = Listener(("127.0.0.1", 0), handler)
        server.hub = self
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def asked_for_files(self):
        return [request for request in self.requests if request.server == "Cdn" or "/resolve/" in request.path]


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # clients that are killed


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def note(self):
        hub = self.server.hub
        hub.requests.append(Request(type(self).__name__, self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        return hub

    def do_HEAD(self):
        self.do_GET()

    def send_file(self, name, data, **headers):
        """The body of a file, with whatever is wrong with it."""
        hub, faults = self.server.hub, self.server.hub.faults
        if faults.statuses and self.command == "GET":
            status, more = faults.statuses.pop(0)
            return self.answer(status, b"later", **more)
        if faults.html:
            return self.answer(200, b"<!DOCTYPE html><html><body>Please log in</body></html>", Content_Type="text/html; charset=utf-8")
        if faults.other_bytes:
            data = bytes(byte ^ 1 for byte in data)
        if faults.short:
            data = data[:-faults.short]
        first, total = 0, len(data)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and faults.refuse_range:
            return self.answer(416, Content_Range=f"bytes */{max(int(asked.group(1)) - 1, 0)}")
        if asked and not faults.ignore_range and self.headers.get("If-Range") in (None, headers.get("ETag")):
            first = int(asked.group(1))
            if first >= total:
                return self.answer(416, Content_Range=f"bytes */{total}")
        body = data[first:]
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), str(value))
        if faults.content_encoding:
            self.send_header("Content-Encoding", faults.content_encoding)
        if faults.extra:
            body += faults.extra
            self.send_header("Connection", "close")  # the end of the connection is the end of the body
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(faults.announced or len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        limit = len(body)
        if faults.cut_every and faults.cuts_left != 0 and limit > faults.cut_every:
            limit = faults.cut_every
            self.close_connection = True
            if faults.cuts_left is not None:
                faults.cuts_left -= 1
        for at in range(0, limit, CHUNK):
            if faults.stall_at is not None and first + at >= faults.stall_at:
                time.sleep(30)
            part = body[at:min(at + CHUNK, limit)]
            self.wfile.write(part)
            hub.sent[name] += len(part)
            if faults.pause_s:
                time.sleep(faults.pause_s)
        return None


class Hub(Handler):
    def do_GET(self):
        hub = self.note()
        url = urllib.parse.urlsplit(self.path)
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)", url.path)
        if found:
            return self.list(hub, *found.groups(), urllib.parse.parse_qs(url.query))
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        if found:
            return self.resolve(hub, *found.groups())
        if url.path == "/plain/model.gguf":
            return self.send_file("plain", hub.repositories["plain"], ETag=f'"{hashlib.md5(hub.repositories["plain"]).hexdigest()}"')
        return self.answer(404, X_Error_Code="RepoNotFound")

    def repository(self, hub, name):
        repository = hub.repositories.get(name)
        if repository is None:
            return self.answer(401, X_Error_Message="Invalid username or password.")  # as the public hub does
        if repository.token and self.headers.get("Authorization") != f"Bearer {repository.token}":
            return self.answer(401, X_Error_Code="GatedRepo" if repository.token == "gated" else "RepoNotFound")
        return repository

    def list(self, hub, name, kind, revision, query):
        faults = hub.faults
        if faults.listing_statuses:
            status, more = faults.listing_statuses.pop(0)
            return self.answer(status, b"<html>later</html>", **more)
        repository = self.repository(hub, name)
        if repository is None:
            return None
        commit, files, lfs = repository.find(urllib.parse.unquote(revision))
        if commit is None:
            return self.answer(404, X_Error_Code="RevisionNotFound")
        if kind == "revision":
            siblings = [{"rfilename": path} for path in files]
            return self.answer(200, json.dumps({"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": False,
                                                "tags": [], "downloads": 0, "likes": 0}).encode(), Content_Type="application/json")
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder}
                   for folder in sorted({path.rsplit("/", 1)[0] for path in files if "/" in path})]
        for path, data in files.items():
            entry = {"type": "file", "oid": hashlib.sha1(data).hexdigest(), "size": len(data), "path": path}
            if path in lfs:
                entry["lfs"] = {"oid": blob_hash(data, True), "size": len(data), "pointerSize": 134}
            else:
                entry["oid"] = blob_hash(data, False)
            entries.append(entry)
        if faults.listing:
            faults.listing(entries)
        at = int(query.get("cursor", ["0"])[0])
        body = json.dumps(entries[at:at + hub.PAGE]).encode() if faults.listing_body is None else faults.listing_body
        more = {}
        if at + hub.PAGE < len(entries):
            more["Link"] = f'<{hub.url}/api/models/{name}/tree/{revision}?recursive=True&expand=False&cursor={at + hub.PAGE}>; rel="next"'
        if faults.content_encoding:
            more["Content_Encoding"] = faults.content_encoding
        return self.answer(200, body, Content_Type="application/json", **more)

    def resolve(self, hub, name, revision, path):
        repository = self.repository(hub, name)
        if repository is None:
            return None
        commit, files, lfs = repository.find(urllib.parse.unquote(revision))
        path = urllib.parse.unquote(path)
        if commit is None or path not in files:
            return self.answer(404, X_Error_Code="EntryNotFound" if commit else "RevisionNotFound", X_Repo_Commit=commit or "")
        if hub.faults.loop:
            return self.answer(302, Location=self.path)
        data = files[path]
        if path not in lfs:
            return self.send_file(path, data, ETag=f'"{blob_hash(data, False)}"', X_Repo_Commit=commit)
        digest = blob_hash(data, True)
        hub.blobs[digest] = (path, data)
        target = f"{hub.cdn}/blobs/{digest}?X-Signature=secret-of-the-cdn"
        if hub.faults.plain_redirect:
            target = target.replace("https://", "http://")
        return self.answer(302, Location=target, X_Repo_Commit=commit, X_Linked_Size=len(data), X_Linked_Etag=f'"{digest}"')


class Cdn(Handler):
    def do_GET(self):
        hub = self.note()
        digest = urllib.parse.urlsplit(self.path).path.rsplit("/", 1)[-1]
        if digest not in hub.blobs:
            return self.answer(403)
        path, data = hub.blobs[digest]
        return self.send_file(path, data, ETag=f'"{digest[:32]}"', Content_Type="application/octet-stream")
