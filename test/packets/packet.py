"""Packets made by hand, and what is read out of packets."""
import fcntl
import socket
import struct

ETH_P_IP, ETH_P_ARP = 0x0800, 0x0806
ICMP_ECHO, ICMPV6_ECHO = 8, 128
MAGIC = b'probe '
SIOCGIFADDR = 0x8915
BROADCAST = b'\xff' * 6


def token(kind, port):
    """What a probe carries, so that whoever hears it knows it."""
    return MAGIC + f'{kind} {port}'.encode()


def told(packet):
    """The probe that an IPv4 packet is, as `KIND PORT`; None when it is something else."""
    protocol, inner = packet[9], payload_of(packet)
    if protocol == socket.IPPROTO_TCP:
        is_opening = inner[13] & 0x12 == 0x02  # SYN without ACK
        return f'tcp {int.from_bytes(inner[2:4], "big")}' if is_opening else None
    is_echo = protocol == socket.IPPROTO_ICMP and inner[0] == ICMP_ECHO
    if (is_echo or protocol == socket.IPPROTO_UDP) and inner[8:].startswith(MAGIC):
        return inner[8 + len(MAGIC):].decode()
    return None


def payload_of(packet):
    return packet[(packet[0] & 15) * 4:]


def icmp_echo(kind, ident, payload):
    header = struct.pack('!BBHHH', kind, 0, 0, ident, 1)
    return with_checksum(header + payload, 2)


def ipv4(kind, src, dst, port):
    """A probe from whatever source."""
    ends = socket.inet_aton(src) + socket.inet_aton(dst)
    payload = token(kind, port)
    if kind == 'icmp':
        protocol, body = socket.IPPROTO_ICMP, icmp_echo(ICMP_ECHO, port, payload)
    elif kind == 'udp':
        protocol, body = socket.IPPROTO_UDP, struct.pack('!HHHH', 9, port, 8 + len(payload), 0) + payload
        body = with_checksum(body, 6, ends + struct.pack('!HH', protocol, len(body)))
    else:
        protocol, body = socket.IPPROTO_TCP, struct.pack('!HHIIBBHHH', 9, port, 1, 0, 0x50, 2, 1024, 0, 0)
        body = with_checksum(body, 16, ends + struct.pack('!HH', protocol, len(body)))
    return with_checksum(struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + ends, 10) + body


def arp_request(mac, own, asked):
    ask = struct.pack('!HHBBH', 1, ETH_P_IP, 6, 4, 1) + mac + socket.inet_aton(own) + bytes(6) + socket.inet_aton(asked)
    return ethernet(BROADCAST, mac, ETH_P_ARP) + ask


def is_arp_answer(frame, asked):
    arp = frame[14:]
    return arp[7] == 2 and arp[14:18] == socket.inet_aton(asked)


def ethernet(to, sender, protocol):
    return to + sender + protocol.to_bytes(2, 'big')


def address_of(link):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock, SIOCGIFADDR, struct.pack('256s', link.encode()))
    return socket.inet_ntoa(answer[20:24])


def with_checksum(data, at, pseudo=b''):
    """The Internet checksum (RFC 1071), put in its place. `pseudo`: what it covers besides."""
    covered = pseudo + data
    covered += bytes(len(covered) % 2)
    total = sum(struct.unpack(f'!{len(covered) // 2}H', covered))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return data[:at] + (total ^ 0xffff).to_bytes(2, 'big') + data[at + 2:]
