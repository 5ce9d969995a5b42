"""The one loop that a prober's sockets share."""
import os
import selectors
import socket
import time

SO_RCVBUFFORCE = 33

_selector = selectors.DefaultSelector()
streams = []


def on_readable(sock, callback):
    os.set_blocking(sock.fileno(), False)
    _selector.register(sock, selectors.EVENT_READ, callback)


def close(sock):
    _selector.unregister(sock)
    sock.close()


def pump(until):
    """One round: waits for something to read or to send, until then at the latest. Whether something was read."""
    due = min([until] + [stream.due for stream in streams])
    ready = _selector.select(max(0, due - time.monotonic()))
    for key, _ in ready:
        key.data(key.fileobj)
    for stream in streams:
        stream.run(time.monotonic())
    return len(ready) > 0


def drain():
    """Until nothing is left to read."""
    while pump(0):
        pass


def enlarge(sock):
    """So that nothing is missed while this process waits for a processor."""
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
