# SPDX-License-Identifier: Apache-2.0
"""A name server that lies, in the stand-in internet: each name below good.test has a behaviour.

Answers are built by hand, so that they can be wrong in any way; nothing is cached by anybody, and every
question that came is in `asked`.
"""

import socket
import struct
import threading

A, NS, CNAME, AAAA = 1, 2, 5, 28
PUBLIC, OTHER, PUBLIC6 = "93.184.216.34", "93.184.216.35", "2606:2800:220:1::20"
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


def encode(name):
    labels = [label for label in name.encode().split(b".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def record(kind, value, name=b"\xc0\x0c", ttl=0):
    if kind == A:
        data = socket.inet_aton(value)
    elif kind == AAAA:
        data = socket.inet_pton(socket.AF_INET6, value)
    else:
        data = encode(value)
    return name + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


class Question:
    def __init__(self, message):
        self.message = message
        at, labels = 12, []
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]])
            at += 1 + message[at]
        self.name = b".".join(labels).decode().lower()
        self.kind = struct.unpack(">H", message[at + 1 : at + 3])[0]
        self.section = message[12 : at + 5]

    def answer(self, records=(), rcode=NOERROR, flags=0, number=None, count=None, section=None):
        head = self.message[:2] if number is None else number
        count = len(records) if count is None else count
        return (
            head
            + struct.pack(">HHHHH", 0x8180 | flags | rcode, 1, count, 0, 0)
            + (self.section if section is None else section)
            + b"".join(records)
        )


class NameServer:
    """On one address of the internet's rest."""

    def __init__(self, net, address):
        self.address = address
        self.asked = []
        self.dumb = False  # never answers anything
        self._answers = {}  # to datagrams: one that comes again is the same question
        self._lock = threading.Lock()
        with net.inside_rest():
            self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._udp.bind((address, 53))
            self._tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._tcp.bind((address, 53))
            self._tcp.listen(64)
        threading.Thread(target=self._serve_udp, daemon=True).start()
        threading.Thread(target=self._serve_tcp, daemon=True).start()

    def close(self):
        self._udp.close()
        self._tcp.close()

    def count(self, name, kind=A):
        return self.asked.count((name, kind))

    def _serve_udp(self):
        while True:
            try:
                message, peer = self._udp.recvfrom(65536)
            except OSError:
                return
            if self.dumb:
                continue
            if (message, peer) not in self._answers:
                self._answers[message, peer] = self.reply(message, False)
            answer = self._answers[message, peer]
            if answer is not None:
                self._udp.sendto(answer, peer)

    def _serve_tcp(self):
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._one_tcp, args=(connection,), daemon=True).start()

    def _one_tcp(self, connection):
        with connection:
            while True:
                size = connection.recv(2, socket.MSG_WAITALL)
                if len(size) < 2:
                    return
                message = connection.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL)
                answer = self.reply(message, True)
                if answer:
                    connection.sendall(struct.pack(">H", len(answer)) + answer)

    def reply(self, message, tcp):
        question = Question(message)
        with self._lock:
            self.asked.append((question.name, question.kind))
        word = question.name.split(".")[0].replace("-", "_")
        return getattr(self, "_" + word, self._nothing)(question, tcp)

    # ---- Behaviours ----

    @staticmethod
    def _nothing(q, tcp):
        return q.answer(rcode=NXDOMAIN)

    @staticmethod
    def _only(q, kind, *values):
        return q.answer([record(kind, value) for value in values] if q.kind == kind else [])

    def _www(self, q, tcp):
        return self._only(q, A, PUBLIC)

    def _rebind(self, q, tcp):
        """Public the first time, then private."""
        return self._only(q, A, PUBLIC if self.count(q.name) <= 1 else "127.0.0.1")

    def _split(self, q, tcp):
        """Public by IPv4, private by IPv6."""
        if q.kind == AAAA:
            return q.answer([record(AAAA, "::1")])
        return self._only(q, A, PUBLIC)

    @staticmethod
    def _chain_of(q, names, last):
        """CNAMEs, each the name of the next record."""
        owners = [q.name, *names]
        records = [record(CNAME, to, encode(of)) for of, to in zip(owners, names)]
        if q.kind == A:
            records.append(record(A, last, encode(owners[-1])))
        return q.answer(records)

    def _cname_private(self, q, tcp):
        return self._chain_of(q, ["a.evil.test", "b.evil.test"], "10.0.0.1")

    def _cname_public(self, q, tcp):
        return self._chain_of(q, ["a.evil.test", "b.evil.test"], PUBLIC)

    def _cname_loop(self, q, tcp):
        return q.answer([record(CNAME, q.name, encode(q.name))])

    def _cname_long(self, q, tcp):
        names = ["c%d.evil.test" % i for i in range(20)]
        return self._chain_of(q, names, "192.168.0.1")

    def _by_tcp(self, q, tcp, n=200, last=()):
        """More than a datagram holds."""
        if not tcp:
            return q.answer(flags=0x200)
        return self._only(q, A, *[PUBLIC] * n, *last)

    def _by_tcp_private(self, q, tcp):
        return self._by_tcp(q, tcp, last=["10.0.0.1"])

    def _huge(self, q, tcp):
        """60 KB"""
        return self._by_tcp(q, tcp, 3700)

    def _many(self, q, tcp):
        """More than anybody wants, and the last one is private."""
        return self._only(q, A, *[PUBLIC] * 64, "10.0.0.1")

    def _cut(self, q, tcp):
        """Says that it was cut, and does not serve TCP."""
        return None if tcp else q.answer(flags=0x200)

    @staticmethod
    def _never(q, tcp):
        return None

    @staticmethod
    def _servfail(q, tcp):
        return q.answer(rcode=SERVFAIL)

    @staticmethod
    def _refused(q, tcp):
        return q.answer(rcode=REFUSED)

    @staticmethod
    def _empty(q, tcp):
        return q.answer()

    @staticmethod
    def _short(q, tcp):
        return q.message[:7]

    @staticmethod
    def _lies_about_count(q, tcp):
        return q.answer([record(A, PUBLIC)], count=500)

    @staticmethod
    def _pointer_loop(q, tcp):
        return q.answer([record(A, PUBLIC, name=b"\xc0" + bytes([12 + len(q.section)]))])

    @staticmethod
    def _wrong_length(q, tcp):
        return q.answer([b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 0, 4000) + b"\1\2\3\4"])

    @staticmethod
    def _wrong_class(q, tcp):
        return q.answer([b"\xc0\x0c" + struct.pack(">HHIH", A, 3, 0, 4) + socket.inet_aton(PUBLIC)])

    @staticmethod
    def _other_name(q, tcp):
        """An address of somebody whom nobody asked about."""
        return q.answer([record(A, PUBLIC, encode("somebody.test"))])

    @staticmethod
    def _other_question(q, tcp):
        return q.answer([record(A, PUBLIC)], section=encode("evil.test") + struct.pack(">HH", A, 1))

    @staticmethod
    def _other_number(q, tcp):
        return q.answer([record(A, PUBLIC)], number=bytes(b ^ 0x55 for b in q.message[:2]))
