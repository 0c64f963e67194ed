# SPDX-License-Identifier: Apache-2.0
"""What tests of egress have at hand inside a sandbox: every way out, in bytes. Standard library only.

A tunnel is only bytes: what it begins with must look like a ClientHello, and the peers of the tests
(egress.Peer) read that one record and then do what the line behind it says, without any TLS.

    python3 reach.py < attempts     a JSON list of [function, arguments], prints the list of results
"""

import json
import os
import select
import socket
import struct
import sys
import time

PROXY = ("127.0.0.1", 3128)
SECONDS = 20
# Longer than any answer that a test wants.
MUCH = 1 << 20


# ---- ClientHello ----


def record(message, size=1 << 14):
    """A handshake message in records of at most size bytes."""
    parts = [message[i : i + size] for i in range(0, len(message), size)] or [b""]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in parts)


def extension(kind, data):
    return struct.pack(">HH", kind, len(data)) + data


def server_name(*names):
    entries = b"".join(b"\0" + struct.pack(">H", len(name)) + name for name in names)
    return extension(0, struct.pack(">H", len(entries)) + entries)


def hello_message(extensions):
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    return b"\1" + struct.pack(">I", len(body))[1:] + body


def hello(name, size=0, record_size=1 << 14):
    """With one server name (None: without any); size: as long as that in all."""
    extensions = b"" if name is None else server_name(as_bytes(name))
    plain = record(hello_message(extensions), record_size)
    if size > len(plain) + 4:
        # RFC 7685
        pad = extension(21, bytes(size - len(plain) - 4))
        plain = record(hello_message(extensions + pad), record_size)
    return plain


def as_bytes(text):
    return text.encode("latin-1") if isinstance(text, str) else text


# ---- Connections ----


def connect(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(SECONDS)
    s.connect((address, port))
    return s


def read_end(s, most=MUCH):
    """(bytes until the end, how it ended: eof, reset)"""
    got = b""
    try:
        while len(got) < most:
            piece = s.recv(65536)
            if not piece:
                return got, "eof"
            got += piece
    except ConnectionResetError:
        return got, "reset"
    except socket.timeout:
        return got, "timeout"
    return got, "more"


def read_head(s):
    """One answer of the proxy to the end of its head, byte by byte; b"" when there is none."""
    got = b""
    try:
        while not got.endswith(b"\r\n\r\n"):
            piece = s.recv(1)
            if not piece:
                break
            got += piece
    except ConnectionResetError:
        pass
    return got


def send(s, data):
    """Whether it is there still, as far as can be told: a reset is told once, here or to the reader."""
    try:
        s.sendall(data)
    except BrokenPipeError:
        pass
    except ConnectionResetError:
        return False
    return True


def ask(raw, s=None):
    """Sends a head to the proxy: (status or None, rest of the answer, socket)."""
    s = s or connect(*PROXY)
    send(s, raw)
    head = read_head(s)
    status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/1.1 ") else None
    return status, head, s


def connect_head(authority, fields=b""):
    authority = as_bytes(authority)
    return b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (authority, authority, fields)


def open_tunnel(authority, first=None, line=b""):
    """A socket behind 200, a ClientHello and a line for the peer."""
    status, head, s = ask(connect_head(authority))
    assert status == 200, head
    s.sendall((first or hello(authority.rpartition(":")[0])) + line)
    return s


# ---- Attempts: each ends, and says how ----


def tunnel(s, first, line):
    sent = first + as_bytes(line)
    alive = send(s, sent)
    got, end = read_end(s)
    s.close()
    return {"sent": len(sent), "got": len(got), "end": end if alive else "reset"}


def proxy(authority, name=None, line="give 100\n", first=None, raw=None):
    """CONNECT; behind 200 a hello for name (authority's host unless given) and a line."""
    status, head, s = ask(as_bytes(raw) if raw else connect_head(authority))
    result = {"status": status, "head": head.decode("latin-1")}
    if status == 200:
        host = authority.rpartition(":")[0].lower().rstrip(".")
        first = bytes.fromhex(first) if first else hello(name or host)
        result.update(tunnel(s, first, line))
    else:
        rest, end = read_end(s)
        result.update(rest=rest.decode("latin-1"), end=end)
        s.close()
    return result


def direct(address, port=443, name=None, line="give 100\n", first=None):
    try:
        s = connect(address, port)
    except OSError as error:
        return {"end": type(error).__name__}
    first = hello(name) if first is None else bytes.fromhex(first)
    return tunnel(s, first, line)


def port80(address, raw):
    s = connect(address, 80)
    status, head, s = ask(as_bytes(raw), s)
    rest, end = read_end(s)
    s.close()
    return {"status": status, "head": head.decode("latin-1"), "rest": len(rest), "end": end}


def question(name, kind=1, number=0x1234, labels=None):
    labels = [as_bytes(label) for label in (labels or as_bytes(name).split(b"."))]
    name = b"".join(bytes([len(label)]) + label for label in labels if label) + b"\0"
    return struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + name + struct.pack(">HH", kind, 1)


def read_exactly(s, n):
    """What there is of n bytes when the other side ends before."""
    got = b""
    while len(got) < n:
        piece = s.recv(n - len(got))
        if not piece:
            break
        got += piece
    return got


def read_dns(s):
    """One message, or what there is of it."""
    try:
        return read_exactly(s, int.from_bytes(read_exactly(s, 2), "big"))
    except (ConnectionResetError, socket.timeout):
        return b""


def dns(name, kind=1, server="9.9.9.9", tcp=False, labels=None, seconds=SECONDS):
    """rcode (None: silence), number of answers, address."""
    message = question(name, kind, labels=labels)
    if tcp:
        s = connect(server, 53)
        s.sendall(struct.pack(">H", len(message)) + message)
        answer = read_dns(s)
    else:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(seconds)
        s.connect((server, 53))
        s.send(message)
        answer = s.recv(65536)
    s.close()
    if len(answer) < 12:
        return {"rcode": None, "answers": 0, "address": None}
    flags, _, answers = struct.unpack(">HHH", answer[2:8])
    address = None
    if answers and kind == 1:
        address = socket.inet_ntoa(answer[-4:])
    return {"rcode": flags & 15, "answers": answers, "address": address}


def pause(seconds):
    time.sleep(seconds)


FUNCTIONS = {"proxy": proxy, "direct": direct, "port80": port80, "dns": dns}


def main():
    results = []
    for name, arguments in json.load(sys.stdin):
        try:
            results.append(FUNCTIONS[name](**arguments))
        except Exception as error:  # shown to the test
            results.append({"error": "%s: %s" % (type(error).__name__, error)})
    json.dump(results, sys.stdout)


def show(value):
    json.dump(value, sys.stdout)


if __name__ == "__main__":
    main()
