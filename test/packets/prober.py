"""
One place of a test's network: answers on its ports, probes other places, and counts what it hears.

    prober.py NAME [LINK]

LINK is the one it listens on; the node itself has none and hears what is delivered to it, past its INPUT chain. One
command a line on stdin, one answer a line on stdout, in what JSON and Python's literals have in common: Debian's
smallest Python comes without a json module.
"""
import ast
import errno
import os
import selectors
import socket
import struct
import sys
import time

PORTS = range(7000, 7016)
SINK = 7999  # takes a stream, and answers nothing
MAGIC = b'probe '
AGAIN = 0.15  # seconds between tries of what the kernel does not repeat by itself
ETH_P_ALL, ETH_P_IP, ETH_P_ARP = 0x0003, 0x0800, 0x0806
PACKET_OUTGOING, PACKET_STATISTICS, SOL_PACKET = 4, 6, 263
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_MARK = 26, 33, 36
BROADCAST = b'\xff' * 6

selector = selectors.DefaultSelector()
heard = {}
streams = []
commands = []


def on_readable(sock, callback, events=selectors.EVENT_READ):
    sock.setblocking(False)
    selector.register(sock, events, callback)


def pump(until):
    """Handles what comes, and sends what is due, until then at the latest."""
    due = min([until] + [stream.due for stream in streams])
    for key, events in selector.select(max(0, due - time.monotonic())):
        key.data(key.fileobj)
    for stream in streams:
        stream.run(time.monotonic())


# What this place answers.

def serve(name):
    for port in PORTS:
        udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        udp.bind(('::', port))
        on_readable(udp, lambda sock: answer_udp(sock, name))
        tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind(('::', port))
        tcp.listen(64)
        on_readable(tcp, lambda sock: answer_tcp(sock, name))
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(('0.0.0.0', SINK))
    return sink


def what_is_heard(name, peer):
    return f'{name} hears {peer[0].removeprefix("::ffff:").split("%")[0]}'.encode()


def answer_udp(sock, name):
    _, ancillary, _, peer = sock.recvmsg(2048, 256)
    try:
        # From the address that was asked, whichever the way back would choose.
        sock.sendmsg([what_is_heard(name, peer)], ancillary, 0, peer)
    except OSError:
        pass  # no way back


def answer_tcp(sock, name):
    try:
        connection, peer = sock.accept()
        with connection:
            connection.sendall(what_is_heard(name, peer))
    except OSError:
        pass  # it was given up meanwhile


# What this place hears: probes, by kind and port.

def listen(link):
    if link is None:
        for protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_UDP, socket.IPPROTO_TCP):
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
            enlarge(raw)
            on_readable(raw, lambda sock: hear(sock.recv(2048)))
        return
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    enlarge(tap)
    tap.bind((link, ETH_P_IP))
    on_readable(tap, lambda sock: hear(sock.recv(2048)[14:]))


def enlarge(sock):
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)


def hear(packet):
    protocol, inner = packet[9], packet[(packet[0] & 15) * 4:]
    if protocol == socket.IPPROTO_TCP:
        if inner[13] & 0x12 == 0x02:  # SYN without ACK
            count(f'tcp {int.from_bytes(inner[2:4], "big")}')
    elif protocol == socket.IPPROTO_UDP or protocol == socket.IPPROTO_ICMP and inner[0] == 8:
        payload = inner[8:]
        if payload.startswith(MAGIC):
            count(payload[len(MAGIC):].decode())


def count(what):
    heard[what] = heard.get(what, 0) + 1


# Probes: each knows how to ask, and finds its answer.

class Probe:
    """`answer` is None while there is none, and `!ERRNO` when the kernel gave up."""
    answer = None

    def __init__(self, kind, dst, port, mark=0, bind=0, **_):
        self.kind, self.dst, self.port, self.bind = kind, dst, port, bind
        self.family = socket.AF_INET6 if ':' in dst else socket.AF_INET
        self.sock = self.open()
        if mark:
            self.sock.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
        self.attempt(self.begin)

    def attempt(self, step):
        try:
            step()
        except BlockingIOError:
            pass
        except OSError as error:
            # An IPv6 address may still be tentative.
            if error.errno != errno.EADDRNOTAVAIL:
                self.answer = '!' + errno.errorcode.get(error.errno, 'UNKNOWN')

    def begin(self):
        on_readable(self.sock, lambda _: self.attempt(self.receive))
        self.again()

    def token(self):
        return MAGIC + f'{self.kind} {self.port}'.encode()

    def end(self):
        if self.sock in selector.get_map():
            selector.unregister(self.sock)
        self.sock.close()
        return self.answer or ''


class UdpProbe(Probe):
    def open(self):
        return socket.socket(self.family, socket.SOCK_DGRAM)

    def begin(self):
        if self.bind:
            self.sock.bind(('', self.bind))
        super().begin()

    def again(self):
        self.sock.connect(socket.getaddrinfo(self.dst, self.port, type=socket.SOCK_DGRAM)[0][4])
        self.sock.send(self.token())

    def receive(self):
        self.answer = self.sock.recv(2048).decode()


class TcpProbe(Probe):
    def open(self):
        return socket.socket(self.family, socket.SOCK_STREAM)

    def begin(self):
        self.sock.setblocking(False)
        try:
            self.sock.connect(socket.getaddrinfo(self.dst, self.port, type=socket.SOCK_STREAM)[0][4])
        except BlockingIOError:
            pass
        on_readable(self.sock, lambda _: self.attempt(self.receive))

    def again(self):
        pass  # the kernel does

    def receive(self):
        self.answer = self.sock.recv(2048).decode()


class IcmpProbe(Probe):
    def open(self):
        protocol = socket.IPPROTO_ICMPV6 if self.family == socket.AF_INET6 else socket.IPPROTO_ICMP
        return socket.socket(self.family, socket.SOCK_RAW, protocol)

    def again(self):
        self.sock.sendto(self.echo(), socket.getaddrinfo(self.dst, 0)[0][4])

    def echo(self):
        return icmp_echo(128 if self.family == socket.AF_INET6 else 8, id(self) & 0xffff, self.token())

    def receive(self):
        packet = self.sock.recv(2048)
        inner = packet if self.family == socket.AF_INET6 else packet[(packet[0] & 15) * 4:]
        is_reply = inner[0] == (129 if self.family == socket.AF_INET6 else 0)
        if is_reply and inner[4:6] == self.echo()[4:6] and inner[8:] == self.token():
            self.answer = 'yes'


class ArpProbe(Probe):
    def open(self):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP))
        sock.bind((LINK, ETH_P_ARP))
        return sock

    def again(self):
        mac = self.sock.getsockname()[4]
        ask = struct.pack('!HHBBH', 1, ETH_P_IP, 6, 4, 1) + mac + own_address() + bytes(6) + socket.inet_aton(self.dst)
        self.sock.send(ethernet(BROADCAST, mac, ETH_P_ARP) + ask)

    def receive(self):
        arp = self.sock.recv(2048)[14:]
        if arp[7] == 2 and arp[14:18] == socket.inet_aton(self.dst):
            self.answer = 'yes'


KINDS = {'udp': UdpProbe, 'tcp': TcpProbe, 'icmp': IcmpProbe, 'arp': ArpProbe}


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        import fcntl
        return fcntl.ioctl(sock, 0x8915, struct.pack('256s', LINK.encode()))[20:24]  # SIOCGIFADDR


def probe(specs):
    """Asks all at once. Answers in their order; '' where none came in time."""
    began = again = time.monotonic()
    probes = [(KINDS[spec['kind']](**spec), began + spec['wait']) for spec in specs]
    while True:
        now = time.monotonic()
        waiting = [(each, until) for each, until in probes if each.answer is None and until > now]
        if not waiting:
            return [each.end() for each, _ in probes]
        if now >= again + AGAIN:
            again = now
            for each, _ in waiting:
                each.attempt(each.again)
        pump(min([again + AGAIN] + [until for _, until in waiting]))


# Packets as no honest sender would make them.

def ethernet(to, sender, protocol):
    return to + sender + protocol.to_bytes(2, 'big')


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def icmp_echo(kind, ident, payload):
    header = struct.pack('!BBHHH', kind, 0, 0, ident, 1)
    return header[:2] + checksum(header + payload).to_bytes(2, 'big') + header[4:] + payload


def transport(kind, port, ends):
    payload = MAGIC + f'{kind} {port}'.encode()
    if kind == 'icmp':
        return socket.IPPROTO_ICMP, icmp_echo(8, port, payload)
    if kind == 'udp':
        protocol, body, at = socket.IPPROTO_UDP, struct.pack('!HHHH', 9, port, 8 + len(payload), 0) + payload, 6
    else:
        protocol, body, at = socket.IPPROTO_TCP, struct.pack('!HHIIBBHHH', 9, port, 1, 0, 0x50, 2, 1024, 0, 0), 16
    total = checksum(ends + struct.pack('!HH', protocol, len(body)) + body)
    return protocol, body[:at] + total.to_bytes(2, 'big') + body[at + 2:]


def forge(packets):
    """Sends IPv4 packets with whatever source, to whatever link address."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((LINK, 0))
        for packet in packets:
            ends = socket.inet_aton(packet['src']) + socket.inet_aton(packet['dst'])
            protocol, body = transport(packet['kind'], packet['port'], ends)
            header = struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + ends
            header = header[:10] + checksum(header).to_bytes(2, 'big') + header[12:]
            to = bytes.fromhex(packet['mac'].replace(':', ''))
            sock.send(ethernet(to, sock.getsockname()[4], ETH_P_IP) + header + body)
    return len(packets)


# Streams, and who watches them.

class Stream:
    def __init__(self, dst, name, every):
        self.to, self.payload, self.every = (dst, SINK), MAGIC + name.encode(), every
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
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


def stream(specs):
    streams.extend(Stream(**spec) for spec in specs)
    return len(streams)


def end_streams():
    """How many packets each of them sent."""
    sent = [each.sent for each in streams]
    streams.clear()
    return sent


watcher = None


def watch(senders, receivers):
    """From now on: the packets of these senders to these receivers that leave by any of the node's links."""
    global watcher
    watcher = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    enlarge(watcher)
    program = only_outgoing(senders, receivers)
    code = bytearray(b''.join(struct.pack('HBBI', *each) for each in program))
    buffer = (len(program), 0, address_of(code))
    watcher.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack('HxxxxxxP', buffer[0], buffer[2]))
    watcher.bind(('', ETH_P_ALL))
    on_readable(watcher, note)
    return 1


watched = {}


def note(sock):
    packet, (link, *_) = sock.recvfrom(128)
    what = f'{socket.inet_ntoa(packet[26:30])} to {socket.inet_ntoa(packet[30:34])} out of {link}'
    watched[what] = watched.get(what, 0) + 1


def end_watch():
    """What was seen, and how many packets the kernel could not show."""
    _, dropped = struct.unpack('II', watcher.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    selector.unregister(watcher)
    watcher.close()
    seen = dict(watched)
    watched.clear()
    return [seen, dropped]


def address_of(code):
    import ctypes
    keep.append(code)
    return ctypes.addressof(ctypes.c_char.from_buffer(code))


keep = []


def only_outgoing(senders, receivers):
    """Classic BPF."""
    load, half, is_equal, done = 0x20, 0x28, 0x15, 0x06
    ...
