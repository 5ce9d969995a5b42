"""
Sends one packet from a namespace, the first thing that happens there: one line `NAMESPACE ADDRESS PORT` on stdin, one line
on stdout with what it was answered, or the errno. The gateway is asked for once: a question that is lost is not repeated.
"""
import ctypes
import errno
import os
import socket
import sys

CLONE_NEWNET = 0x40000000
PATIENT = 20  # seconds

libc = ctypes.CDLL(None, use_errno=True)
own = os.open('/proc/self/ns/net', os.O_RDONLY)


def enter(descriptor):
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'setns')


def first(namespace, address, port):
    inside = os.open('/run/netns/' + namespace, os.O_RDONLY)
    enter(inside)
    try:
        with open('/proc/sys/net/ipv4/neigh/eth0/mcast_solicit', 'w') as probes:
            probes.write('1')
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENT)
            sock.connect((address, int(port)))
            sock.send(b'first')
            return sock.recv(100).decode()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    finally:
        enter(own)
        os.close(inside)


print('"ready"', flush=True)
for line in sys.stdin:
    print('"%s"' % first(*line.strip('[]"\n').split('","')), flush=True)
