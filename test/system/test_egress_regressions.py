# SPDX-License-Identifier: Apache-2.0
"""Attacks on the gateway that worked once. One test each; what the gateway promises is in the other
files of egress."""

import os
import signal
import time

import pytest

import egress
import harness

# Bytes that the kernel cannot put together into one piece of memory: each is a page of its own.
SCATTERED = r"""
pages = open("/tmp/pages", "w+b")
pages.write(b"a" * 4096 * 40)
pages.flush()
open_sockets = []
for n in range(1400, 3000, 200):
    s = connect(*PROXY)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(b"CONNECT www.good.test:443 HTTP/1.1\r\n")
    for i in range(n):
        os.sendfile(s.fileno(), pages.fileno(), 4096 * (i % 40) + 7, 1)
    open_sockets.append(s)
time.sleep(3)
json.dump("sent", sys.stdout)
"""

CHANGED = r"""
ends = []
good, bad = hello("www.good.test"), hello("evi.evil.test")
for i in range(300):
    # On a busy machine it takes longer until one was judged before it changed.
    if i >= 40 and 10 in ends:
        break
    with open("/tmp/hello%d" % i, "w+b") as file:
        file.write(good)
        file.flush()
        s = connect("198.18.0.9", 443)
        os.sendfile(s.fileno(), file.fileno(), 0, len(good))
        time.sleep(0.0002 * (i + 1))
        file.seek(0)
        file.write(bad)
        file.flush()
    send(s, b"give 10\n")
    ends.append(len(read_end(s)[0]))
    s.close()
json.dump(ends, sys.stdout)
"""

UNSERVED = r"""
s = connect(*PROXY)
s.settimeout(1)
send(s, connect_head("www.good.test:443"))
try:
    said = s.recv(1).hex()
except socket.timeout:
    said = "nothing"
json.dump(said, sys.stdout)
"""

QUESTIONS = r"""
questions = [question("n%d.test" % i) for i in range(1000)]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("8.8.8.8", 53))
s.setblocking(False)
end = time.monotonic() + 3
while time.monotonic() < end:
    for one in questions:
        try:
            s.send(one)
        except OSError:
            pass
# What is still in the socket is taken first; whoever finds it full asks again.
while True:
    try:
        answer = dns("www.good.test", seconds=2)
        break
    except socket.timeout:
        pass
json.dump(answer, sys.stdout)
"""


@pytest.fixture(scope="module")
def world():
    why = egress.missing()
    if why:
        pytest.skip(why)
    with egress.World() as made:
        yield made


def seconds_of(pid):
    """Processor time that a process has used."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_hello_is_passed_on_as_it_was_judged(world):
    """Pages of a file that are sent with sendfile can be written to until they are read."""
    world.peer.hellos.clear()
    with world.opened() as session:
        ends = world.code(session, CHANGED)
    assert ends.count(10) + ends.count(0) == len(ends) and 10 in ends
    assert not [hello for hello in world.peer.hellos if b"evil" in hello]


def test_a_head_in_scattered_bytes_costs_nothing(world):
    """A receive queue near its limit is readable whatever SO_RCVLOWAT says."""
    before = seconds_of(world.gateway)
    with world.opened() as session:
        assert world.code(session, SCATTERED) == "sent"
    assert seconds_of(world.gateway) - before < 0.5


def test_a_flood_of_questions_costs_its_sandbox_most(world):
    before = seconds_of(world.gateway)
    with world.opened() as session:
        answer = world.code(session, QUESTIONS)
    assert answer["rcode"] == 0
    assert seconds_of(world.gateway) - before < 0.6


def test_a_gateway_that_cannot_start_again_stops_nothing_else(world):
    """Its log directory may have become full or unwritable meanwhile."""
    mine = os.stat(world.log_dir)
    with world.opened() as session:
        before = world.gateway
        os.chown(world.log_dir, 0, 0)
        try:
            os.kill(before, signal.SIGKILL)
            harness.wait_until(
                lambda: world.server.log().count('"restarting"') >= 2, "it was tried again"
            )
            assert world.server.exec(session, "echo alive", 10)["stdout"] == "alive\n"
            assert world.code(session, UNSERVED) == "nothing"
        finally:
            os.chown(world.log_dir, mine.st_uid, mine.st_gid)
        harness.wait_until(
            lambda: world.server.process_of("airlock-gateway"), "there is a gateway"
        )
        answer = world.reach(session, ["proxy", {"authority": "www.good.test:443"}])[0]
        assert answer["status"] == 200
