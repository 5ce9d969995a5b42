"""Probes: each asks, repeats what the kernel does not repeat by itself, and knows its answer."""
import errno
import socket
import time
from itertools import count

from loop import close, on_readable, pump
from packet import ETH_P_ARP, ICMP_ECHO, ICMPV6_ECHO, address_of, arp_request, icmp_echo, is_arp_answer, payload_of, token

AGAIN = 0.15  # seconds
ICMP_ECHOREPLY, ICMPV6_ECHOREPLY = 0, 129
SO_MARK = 36
# An IPv6 address is tentative at first.
PASSING = {errno.EADDRNOTAVAIL, errno.EAGAIN, errno.EINPROGRESS}


def probe(link, specs):
    """Asks all at once. Their answers, in order: '' where none came in time, `!ERRNO` where the kernel gave up."""
    began = again = time.monotonic()
    probes = [(KINDS[spec['kind']](link, **spec), began + spec['wait']) for spec in specs]
    while True:
        now = time.monotonic()
        waiting = [(each, until) for each, until in probes if each.answer is None and until > now]
        if not waiting:
            break
        if now >= again + AGAIN:
            again = now
            for each, _ in waiting:
                each.attempt(each.again)
        pump(min([again + AGAIN] + [until for _, until in waiting]))
    for each, _ in probes:
        if each.answer is None:
            close(each.sock)
    return [each.answer or '' for each, _ in probes]


class Probe:
    def __init__(self, link, kind, dst, port, wait, mark=0, bind=0):
        self.link, self.kind, self.dst, self.port = link, kind, dst, port
        self.family = socket.AF_INET6 if ':' in dst else socket.AF_INET
        self.answer = None
        self.sock = self.open()
        if mark:
            self.sock.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
        if bind:
            self.sock.bind(('', bind))
        on_readable(self.sock, lambda _: self.attempt(self.receive))
        self.attempt(self.begin)

    def attempt(self, step):
        try:
            step()
        except OSError as error:
            if error.errno not in PASSING:
                self.answer = '!' + errno.errorcode[error.errno]
        if self.answer is not None:
            close(self.sock)

    def begin(self):
        self.again()

    def peer(self, port=0):
        return socket.getaddrinfo(self.dst, port, type=socket.SOCK_DGRAM)[0][4]

    def is_ipv6(self):
        return self.family == socket.AF_INET6


class Udp(Probe):
    def open(self):
        return socket.socket(self.family, socket.SOCK_DGRAM)

    def again(self):
        self.sock.connect(self.peer(self.port))
        self.sock.send(token('udp', self.port))

    def receive(self):
        self.answer = self.sock.recv(2048).decode()


class Tcp(Probe):
    def open(self):
        return socket.socket(self.family, socket.SOCK_STREAM)

    def begin(self):
        self.sock.connect(self.peer(self.port))

    def again(self):
        pass  # the kernel does

    def receive(self):
        self.answer = self.sock.recv(2048).decode()


class Icmp(Probe):
    """Its socket hears all echoes of the namespace: an own one bears this probe's number and comes from whom it asked."""
    numbers = count(1)

    def open(self):
        self.number = next(self.numbers) & 0xffff
        return socket.socket(self.family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6 if self.is_ipv6() else socket.IPPROTO_ICMP)

    def again(self):
        kind = ICMPV6_ECHO if self.is_ipv6() else ICMP_ECHO
        self.sock.sendto(icmp_echo(kind, self.number, token('icmp', self.port)), self.peer())

    def receive(self):
        packet, sender = self.sock.recvfrom(2048)
        echo = packet if self.is_ipv6() else payload_of(packet)
        is_answer = echo[0] == (ICMPV6_ECHOREPLY if self.is_ipv6() else ICMP_ECHOREPLY)
        is_own = int.from_bytes(echo[4:6], 'big') == self.number and sender[0] == self.peer()[0]
        if is_answer and is_own and echo[8:] == token('icmp', self.port):
            self.answer = 'yes'


class Arp(Probe):
    def open(self):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP))
        sock.bind((self.link, ETH_P_ARP))
        return sock

    def again(self):
        self.sock.send(arp_request(self.sock.getsockname()[4], address_of(self.link), self.dst))

    def receive(self):
        if is_arp_answer(self.sock.recv(2048), self.dst):
            self.answer = 'yes'


KINDS = {'udp': Udp, 'tcp': Tcp, 'icmp': Icmp, 'arp': Arp}
