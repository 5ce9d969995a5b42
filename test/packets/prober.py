"""
One place of a test's network: answers on its ports, probes other places, and counts the probes that it hears.

    prober.py NAME [LINK]

LINK is the one it listens on. The node itself is given none, and hears what is delivered to it, past its INPUT chain. One
command a line on stdin, one answer a line on stdout, in what JSON and Python's literals have in common: Debian's
smallest Python has no json module.
"""
import ast
import socket
import sys
import time

import loop
from loop import drain, enlarge, on_readable, pump
from packet import ETH_P_IP, ethernet, ipv4, told
from probe import probe
from watch import SINK, Stream, Watch

PORTS = range(7000, 7016)


class Prober:
    def __init__(self, name, link=None):
        self.name, self.link = name, link
        self.heard = {}
        self.watch = None
        self.serve()
        self.listen()

    # What it answers.

    def serve(self):
        for port in PORTS:
            udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            udp.bind(('::', port))
            on_readable(udp, self.answer_udp)
            tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(('::', port))
            tcp.listen(64)
            on_readable(tcp, self.answer_tcp)
        # Never read: what it is sent is counted elsewhere.
        self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sink.bind(('', SINK))

    def answer_udp(self, sock):
        try:
            _, info, _, peer = sock.recvmsg(2048, 256)
            # From the address that was asked, whichever the way back would choose.
            sock.sendmsg([self.hears(peer)], info, 0, peer)
        except OSError:
            pass  # there is no way back

    def answer_tcp(self, sock):
        try:
            connection, peer = sock.accept()
            with connection:
                connection.sendall(self.hears(peer))
        except OSError:
            pass  # it was given up meanwhile

    def hears(self, peer):
        return f'{self.name} hears {peer[0].removeprefix("::ffff:").split("%")[0]}'.encode()

    # What it hears.

    def listen(self):
        if self.link is None:
            for protocol in socket.IPPROTO_ICMP, socket.IPPROTO_UDP, socket.IPPROTO_TCP:
                raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
                enlarge(raw)
                on_readable(raw, self.hear)
        else:
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
            enlarge(tap)
            tap.bind((self.link, ETH_P_IP))
            on_readable(tap, lambda sock: self.hear(sock, 14))

    def hear(self, sock, header=0):
        try:
            packet = sock.recv(2048)
        except OSError:
            return  # the link has gone
        what = told(packet[header:])
        if what is not None:
            self.heard[what] = self.heard.get(what, 0) + 1

    # What it is told to do.

    def do_probe(self, specs):
        return probe(self.link, specs)

    def do_forge(self, packets):
        """Sends packets from whatever source straight to a link address."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
            sock.bind((self.link, 0))
            for packet in packets:
                to = bytes.fromhex(packet.pop('mac').replace(':', ''))
                sock.send(ethernet(to, sock.getsockname()[4], ETH_P_IP) + ipv4(**packet))
        return len(packets)

    def do_heard(self):
        """Since it was asked last."""
        drain()
        heard, self.heard = self.heard, {}
        return heard

    def do_stream(self, specs):
        loop.streams.extend(Stream(**spec) for spec in specs)
        return len(loop.streams)

    def do_sent(self):
        """Ends the streams, and says what each of them sent."""
        sent = {stream.name: stream.sent for stream in loop.streams}
        loop.streams.clear()
        return sent

    def do_watch(self, senders, receivers):
        self.watch = Watch(senders, receivers)
        return 1

    def do_seen(self):
        drain()
        return self.watch.end()

    def run(self):
        self.commands, self.unfinished = [], b''
        on_readable(sys.stdin.buffer.raw, self.read)
        self.say(self.name)
        while True:
            while self.commands:
                command, *arguments = ast.literal_eval(self.commands.pop(0).decode())
                self.say(getattr(self, f'do_{command}')(*arguments))
            pump(time.monotonic() + 3600)

    def read(self, stdin):
        data = stdin.read(1 << 16)
        if not data:
            sys.exit()
        *lines, self.unfinished = (self.unfinished + data).split(b'\n')
        self.commands.extend(lines)

    @staticmethod
    def say(what):
        print(repr(what).replace("'", '"'), flush=True)


Prober(*sys.argv[1:]).run()
