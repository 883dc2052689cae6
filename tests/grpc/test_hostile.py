"""HTTP/2 that no client library would send: the host survives, sends the required errors, and serves other clients."""
import socket
import statistics
import struct
import time
import unittest

import grpc

from host import FULL, SHORT, HostCase
from probe import Probe

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(path=b"/inference.GRPCInferenceService/ServerLive", content=b"application/grpc", te=b"trailers"):
    """A request's header block without compression: :method POST and :scheme http by index."""
    block = b"\x83\x86" + literal(b":path", path) + literal(b":authority", b"localhost")
    block += literal(b"content-type", content)
    return block + (literal(b"te", te) if te else b"")


class Raw:
    def __init__(self, port, settings=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.buffer = b""
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def send(self, data):
        """False when the other side has closed."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def frames(self, limit_s=10):
        """Frames (kind, flags, stream, payload) until the connection ends or is silent for `limit_s`."""
        self.socket.settimeout(limit_s)
        while True:
            while len(self.buffer) >= 9:
                length = int.from_bytes(self.buffer[:3], "big")
                if len(self.buffer) < 9 + length:
                    break
                kind, flags = self.buffer[3], self.buffer[4]
                stream = int.from_bytes(self.buffer[5:9], "big") & 0x7FFFFFFF
                payload = self.buffer[9:9 + length]
                self.buffer = self.buffer[9 + length:]
                yield kind, flags, stream, payload
            try:
                data = self.socket.recv(65536)
            except OSError:
                return
            if not data:
                yield None, 0, 0, b""
                return
            self.buffer += data

    def close(self):
        self.socket.close()


class Hostile(HostCase):
    def tearDown(self):
        """After each test, the host answers others at once and holds nothing for the closed connections."""
        with grpc.insecure_channel(self.host.url) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            self.assertEqual(live(b"", timeout=30), b"\x08\x01")

    def raw(self, settings=b""):
        connection = Raw(self.host.port, settings)
        self.addCleanup(connection.close)
        return connection

    def answers(self, connection, stream, limit_s=5):
        """Kinds of frames of a stream, until it ends or the connection does."""
        kinds = []
        for kind, flags, of, _ in connection.frames(limit_s):
            if of == stream or kind in (None, GOAWAY):
                kinds.append(kind)
            if kind in (None, GOAWAY) or of == stream and (kind == RST or flags & END_STREAM and kind in (DATA, HEADERS)):
                break
        return kinds

    def test_a_call_by_hand_is_answered(self):
        connection = self.raw()
        connection.send(frame(HEADERS, END_HEADERS, 1, head()) + frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", 0)))
        data = next(payload for kind, _, _, payload in connection.frames() if kind == DATA and payload)
        self.assertEqual(data, b"\0\0\0\0\x02\x08\x01")

    def test_other_content_types_and_methods_that_are_none(self):
        for block in (head(content=b"text/html"), head(path=b"/no.Such/Method"), head(path=b"*"), head(te=b"")):
            connection = self.raw()
            connection.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
            self.assertIn(self.answers(connection, 1)[:1], ([HEADERS], [RST]), block)

    def test_messages_that_lie_about_their_length(self):
        for message in (b"\0\xff\xff\xff\xff", b"\0\0\x80\0\1" + b"x" * 100, b"\2\0\0\0\0", b"\1\0\0\0\x04abcd", b"\0\0\0"):
            connection = self.raw()
            connection.send(frame(HEADERS, END_HEADERS, 1, head()) + frame(DATA, END_STREAM, 1, message))
            self.assertTrue(set(self.answers(connection, 1)) & {HEADERS, RST}, message)

    def test_frames_out_of_place_end_their_connection_alone(self):
        block = head()
        cases = {
            "even stream": frame(HEADERS, END_HEADERS, 2, block),
            "stream reused": (frame(HEADERS, END_HEADERS | END_STREAM, 3, block)
                              + frame(HEADERS, END_HEADERS | END_STREAM, 1, block)),
            "headers without an end, then data": frame(HEADERS, 0, 1, block) + frame(DATA, 0, 1, b"x"),
            "continuation of nothing": frame(CONTINUATION, END_HEADERS, 1, block),
            "data on stream 0": frame(DATA, 0, 0, b"x"),
            "settings of a stream": frame(SETTINGS, 0, 1, b""),
            "settings of odd length": frame(SETTINGS, 0, 0, b"abc"),
            "ping of odd length": frame(PING, 0, 0, b"abc"),
            "push": frame(PUSH, END_HEADERS, 1, b"\0\0\0\2" + block),
            "a frame of 16 MiB": b"\xff\xff\xff" + bytes([DATA, 0]) + struct.pack(">I", 1),
            "malformed header block": frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff\xff"),
            "unknown dynamic table index": frame(HEADERS, END_HEADERS, 1, b"\xfe"),
            "window overflow": frame(WINDOW, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
        }
        silent = []
        for name, bytes_ in cases.items():
            connection = self.raw()
            connection.send(bytes_)
            if not any(kind in (None, GOAWAY, RST) for kind, *_ in connection.frames(0.4)):
                silent.append(name)
            connection.close()
        # The library's deviations: it ignores what it does not need to understand.
        self.assertLessEqual(set(silent), {"stream reused", "data on stream 0", "window overflow", "even stream",
                                           "continuation of nothing", "push"}, silent)

    def test_unknown_frames_are_ignored(self):
        connection = self.raw()
        for kind in range(10, 256):
            connection.send(frame(kind, 0xFF, 0, b"abc"))
        connection.send(frame(HEADERS, END_HEADERS, 1, head()) + frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", 0)))
        self.assertIn(DATA, self.answers(connection, 1))

    def test_a_window_of_nothing_holds_up_nobody_else(self):
        connection = self.raw(struct.pack(">HI", 4, 0))
        for stream in range(1, 200, 2):
            connection.send(frame(HEADERS, END_HEADERS, stream, head())
                            + frame(DATA, END_STREAM, stream, b"\0" + struct.pack(">I", 0)))
        time.sleep(0.2)

    def flood(self, begin, piece, amount, max_mib=64):
        """Bytes sent until the connection was closed; memory stays, and others do not notice."""
        probe = Probe(self.host.url)
        probe.first.wait(30)
        connection = self.raw()
        connection.send(begin)
        before, sent = self.host.resident_kib(), 0
        while sent < amount and connection.send(piece):
            sent += len(piece)
        self.assertLess(self.host.resident_kib() - before, max_mib << 10, f"after {sent} bytes")
        after = len(probe.took) + 20
        limit = time.monotonic() + 30
        while len(probe.took) < after and time.monotonic() < limit:
            time.sleep(0.01)
        took = probe.stop()
        self.assertEqual(probe.failed, [])
        self.assertGreaterEqual(len(took), after)
        self.assertLess(statistics.median(took[1:]), 500 if SHORT else 50)  # the first one connects
        return sent

    def test_header_blocks_without_an_end(self):
        amount = (32 if SHORT else 256) << 20
        fields = literal(b"x-filler", b"y" * 100) * 100
        cpu = self.host.cpu_s()
        sent = self.flood(frame(HEADERS, 0, 1, head()), frame(CONTINUATION, 0, 1, fields), amount)
        self.assertLess(sent, amount, "the connection was not closed")
        # One header field whose value would have a gibibyte.
        begin = b"\x00\x01x\x7f" + bytes([0x81, 0xff, 0xff, 0xff, 0x03])
        sent = self.flood(frame(HEADERS, 0, 1, head() + begin), frame(CONTINUATION, 0, 1, b"y" * 16000), amount)
        self.assertLess(sent, amount, "the connection was not closed")
        # The library copies what it has of such a field with every frame.
        self.assertLess(self.host.cpu_s() - cpu, 60 if SHORT else 5)

    def test_headers_above_the_limit_fail_their_call_alone(self):
        connection = self.raw()
        block = head() + literal(b"x-filler", b"y" * 120) * 280  # 36 KB; 32 KiB are allowed
        connection.send(frame(HEADERS, 0, 1, block[:16000]) + frame(CONTINUATION, 0, 1, block[16000:32000])
                        + frame(CONTINUATION, END_HEADERS, 1, block[32000:])
                        + frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", 0)))
        connection.send(frame(HEADERS, END_HEADERS, 3, head()) + frame(DATA, END_STREAM, 3, b"\0" + struct.pack(">I", 0)))
        self.assertIn(DATA, self.answers(connection, 3))

    def test_a_client_that_cancels_mid_message_keeps_its_connection(self):
        """Bytes of cancelled messages do not count against a client, because honest clients have deadlines."""
        connection = self.raw()
        block, begin = head(path=b"/inference.GRPCInferenceService/ModelInfer"), b"\0" + struct.pack(">I", 7 << 20)
        calls = 8 if SHORT else 24
        for stream in range(1, 2 * calls, 2):
            connection.send(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, 0, stream, begin + b"x" * 16000)
                            + frame(DATA, 0, stream, b"x" * 16000) + frame(DATA, 0, stream, b"x" * 8000))
            time.sleep(0.15)
            self.assertTrue(connection.send(frame(RST, 0, stream, struct.pack(">I", 8))))
        connection.send(frame(HEADERS, END_HEADERS, 1001, head())
                        + frame(DATA, END_STREAM, 1001, b"\0" + struct.pack(">I", 0)))
        self.assertIn(DATA, self.answers(connection, 1001))

    def test_messages_that_inflate(self):
        """Zeros of 192 MiB in 192 KiB: refused at 8 MiB, the memory of one such buffer at most for each handler."""
        request = b"\x12" + b"\x80\x80\x80\x60" + b"\0" * (192 << 20)  # tutti.v1.EmbedRequest: one text
        before = self.host.resident_kib()
        probe = Probe(self.host.url)
        probe.first.wait(30)
        with grpc.insecure_channel(self.host.url, options=[("grpc.max_send_message_length", -1)]) as channel:
            embed = channel.unary_unary("/tutti.v1.Tutti/Embed")
            for _ in range(2 if SHORT else 4):
                with self.assertRaises(grpc.RpcError) as error:
                    embed(request, timeout=120, compression=grpc.Compression.Gzip)
                self.assertEqual(error.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertLess(self.host.resident_kib() - before, 64 << 10)
        probe.stop()
        self.assertEqual(probe.failed, [])

    def test_a_message_too_long_is_refused_with_its_length_and_limit(self):
        """The library refuses it, which leaves the server no place for trailers; docs/grpc.md says so."""
        request = b"\x12" + b"\x80\x80\xc0\x04" + b"x" * (9 << 20)  # tutti.v1.EmbedRequest: one text
        with grpc.insecure_channel(self.host.url, options=[("grpc.max_send_message_length", -1)]) as channel:
            with self.assertRaises(grpc.RpcError) as error:
                channel.unary_unary("/tutti.v1.Tutti/Embed")(request, timeout=60)
        self.assertEqual(error.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn(f"larger than max ({len(request)} vs. {8 << 20})", error.exception.details())

    def test_readers_that_do_not_read(self):
        """Many streams of text to clients that never take a byte of them."""
        prompt = b"word " * 1000
        request = b"\x12" + bytes([0x80 | len(prompt) & 0x7f, len(prompt) >> 7]) + prompt  # tutti.v1.GenerateRequest
        message = b"\0" + struct.pack(">I", len(request)) + request
        block = head(path=b"/tutti.v1.Tutti/Generate")
        probe = Probe(self.host.url)
        probe.first.wait(30)
        before, quiet = self.host.resident_kib(), len(probe.took)
        for _ in range(2 if SHORT else 10):
            connection = self.raw()
            for stream in range(1, 21, 2):
                connection.send(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, message))
        time.sleep(3)
        self.assertLess(self.host.resident_kib() - before, 64 << 10)
        took = probe.stop()[quiet:]
        self.assertEqual(probe.failed, [])
        self.assertLess(statistics.median(took), 500 if SHORT else 50)

    def test_floods_of_frames_that_are_no_call(self):
        # Far more than the 16 MiB that are borne for a moment, what the system holds for a connection, and what comes
        # between two looks at it.
        amount = 256 << 20
        for one in (frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)), frame(PING, 0, 0, b"12345678"),
                    frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"), frame(WINDOW, 0, 0, struct.pack(">I", 1))):
            # The library's own answer to too many pings once took 30 times what was sent, for as long as the client did
            # not read it.
            self.assertLess(self.flood(b"", one * 1000, amount, max_mib=24), amount, f"frames {one[3]}: not closed")

    def test_streams_that_are_reset_at_once(self):
        """Row N30: others' p99 is at most doubled. The 5 ms are a turn of a processor that another process had."""
        amount = 50_000 if SHORT else 1_000_000 if FULL else 300_000
        block, cancel = head(), struct.pack(">I", 8)
        batches = [b"".join(frame(HEADERS, END_HEADERS, stream, block) + frame(RST, 0, stream, cancel)
                            for stream in range(first, first + 1000, 2)) for first in range(1, 100_000, 1000)]
        probe = Probe(self.host.url)
        probe.first.wait(30)
        time.sleep(2)
        quiet, before = sorted(probe.took), self.host.resident_kib()
        done, connections, count = 0, 0, len(probe.took)
        begin = time.monotonic()
        while done < amount:
            connection = self.raw()
            connections += 1
            for batch in batches:
                if not connection.send(batch):
                    break
                done += 500
            connection.close()
        seconds = time.monotonic() - begin
        busy = sorted(probe.took[count:])
        probe.stop()
        self.assertEqual(probe.failed, [])
        self.assertGreater(connections, amount / 50_000, "no connection was closed")
        self.assertLess(self.host.resident_kib() - before, 192 << 10)  # as after the first few resets
        p99 = [sample[len(sample) * 99 // 100] for sample in (quiet, busy)]
        print(f"\n    {done} resets of {connections} connections in {seconds:.1f} s; others' p99 {p99[0]:.2f} -> "
              f"{p99[1]:.2f} ms, p50 {statistics.median(quiet):.2f} -> {statistics.median(busy):.2f} ms", flush=True)
        if not SHORT:
            self.assertLess(p99[1], 2 * p99[0] + 5)


if __name__ == "__main__":
    unittest.main()
