"""Streams of packets, and a watch on where they come out."""
import array
import contextlib
import socket
import struct
import time

from loop import close, enlarge, on_readable
from packet import MAGIC

ETH_P_ALL = 0x0003
PACKET_OUTGOING, PACKET_STATISTICS, SOL_PACKET, SO_ATTACH_FILTER = 4, 6, 263, 26
SINK = 7999  # takes what comes, and answers nothing

# Classic BPF (linux/filter.h): codes, and the offset that stands for a packet's direction.
LOAD_WORD, LOAD_HALF, JUMP_EQUAL, RETURN = 0x20, 0x28, 0x15, 0x06
DIRECTION = 0xfffff000 + 4
ETHERTYPE, SOURCE, DESTINATION = 12, 26, 30


class Stream:
    """Sends one packet after the other, `every` so many seconds, and counts those that were sent."""

    def __init__(self, name, dst, every):
        self.name, self.to, self.payload, self.every = name, (dst, SINK), MAGIC + name.encode(), every
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sent, self.due = 0, time.monotonic()

    def run(self, now):
        if now < self.due:
            return
        self.due = now + self.every
        try:
            self.sock.sendto(self.payload, self.to)
            self.sent += 1
        except OSError:
            pass  # not sent, not counted


class Watch:
    """Counts the packets of any of these senders to any of these receivers that leave by any of the node's links."""

    def __init__(self, senders, receivers):
        self.seen = {}
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        enlarge(self.sock)
        attach(self.sock, outgoing(senders, receivers))
        # What came before the filter.
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.recv(1, socket.MSG_DONTWAIT)
        on_readable(self.sock, self.note)

    def note(self, sock):
        packet, (link, *_) = sock.recvfrom(128)
        ends = [socket.inet_ntoa(packet[at:at + 4]) for at in (SOURCE, DESTINATION)]
        what = f'{" to ".join(ends)} out of {link}'
        self.seen[what] = self.seen.get(what, 0) + 1

    def end(self):
        """What was seen, and how many packets the kernel had no room to show."""
        _, missed = struct.unpack('II', self.sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        close(self.sock)
        return [self.seen, missed]


def outgoing(senders, receivers):
    """Each test of the chain goes on to the next when it holds, and else to the end; of a list, one has to hold."""
    tests = [(LOAD_WORD, DIRECTION, [PACKET_OUTGOING]), (LOAD_HALF, ETHERTYPE, [0x0800])]
    for at, addresses in (SOURCE, senders), (DESTINATION, receivers):
        tests.append((LOAD_WORD, at, [int.from_bytes(socket.inet_aton(each), 'big') for each in addresses]))
    total = sum(1 + len(values) for _, _, values in tests)
    program = []
    for load, at, values in tests:
        program.append((load, 0, 0, at))
        for i, value in enumerate(values):
            rest = len(values) - 1 - i
            to_end = total - len(program)  # to RETURN 0, which stands behind RETURN all
            program.append((JUMP_EQUAL, rest, 0 if rest else to_end, value))
    return program + [(RETURN, 0, 0, 0xffffffff), (RETURN, 0, 0, 0)]


def attach(sock, program):
    code = array.array('B', b''.join(struct.pack('HBBI', *each) for each in program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack('HP', len(program), code.buffer_info()[0]))
