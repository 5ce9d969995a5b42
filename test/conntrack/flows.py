"""Programs at both ends of a connection: WHAT ADDRESS PORT OWN-PORT (0: any; of a ping: its id)."""
import socket
import struct
import sys

what, address, port, own = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
kind = socket.SOCK_DGRAM if what.endswith('udp') else socket.SOCK_STREAM


def serve():
    server = socket.socket(socket.AF_INET, kind)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    if kind == socket.SOCK_STREAM:
        server.listen()
    print('ready', flush=True)
    held = []
    while True:
        if kind == socket.SOCK_STREAM:
            held.append(server.accept())
        else:
            server.sendto(*server.recvfrom(100))


def ping():
    pinger = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    pinger.settimeout(10)
    words = [0x0800, 0, own, 1]
    total = sum(words)
    words[1] = ~(total + (total >> 16)) & 0xFFFF
    pinger.sendto(struct.pack('!4H', *words), (address, 0))
    while pinger.recv(100)[20] != 0:
        pass


def connect():
    client = socket.socket(socket.AF_INET, kind)
    client.settimeout(10)
    client.bind(('', own))
    client.connect((address, port))
    if kind == socket.SOCK_DGRAM:
        client.send(b'x')
        client.recv(100)


serve() if what.startswith('serve') else ping() if what == 'ping' else connect()
