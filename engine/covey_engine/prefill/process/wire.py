"""Messages between client and worker: plain objects go in and come out, arrays cross without a copy in pickle."""

from __future__ import annotations

import pickle
import socket
import struct

_HEAD = struct.Struct("<II")
_SIZE = struct.Struct("<Q")
_SMALL = 1 << 16


def send(sock: socket.socket, message: object) -> None:
    """Write one message. Raises OSError where the other side is gone."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = _HEAD.pack(len(body), len(views)) + b"".join(_SIZE.pack(view.nbytes) for view in views)
    if sum(view.nbytes for view in views) <= _SMALL:
        sock.sendall(b"".join([head, body, *views]))
        return
    sock.sendall(head + body)
    for view in views:
        sock.sendall(view)


def receive(sock: socket.socket) -> object | None:
    """Read one message; None where the other side is gone."""
    try:
        head = _read(sock, _HEAD.size)
        if head is None:
            return None
        length, count = _HEAD.unpack(head)
        sizes = _read(sock, count * _SIZE.size)
        body = _read(sock, length)
        if sizes is None or body is None:
            return None
        buffers = []
        for (size,) in _SIZE.iter_unpack(sizes):
            buffer = _read(sock, size)
            if buffer is None:
                return None
            buffers.append(buffer)
    except OSError:
        return None
    message: object = pickle.loads(body, buffers=buffers)
    return message


def _read(sock: socket.socket, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        read = sock.recv_into(view)
        if read == 0:
            return None
        view = view[read:]
    return buffer
