"""Messages between client and worker: plain objects go in and come out, arrays cross without a copy in pickle."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence

_HEAD = struct.Struct("<QQQ")
_SIZE = struct.Struct("<Q")
_SMALL = 1 << 16
_PADDING = bytes(7)


def send(sock: socket.socket, message: object) -> None:
    """Write one message. Raises OSError where the other side is gone."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    if not buffers:
        sock.sendall(_HEAD.pack(len(body), 0, len(body)) + body)
        return
    views = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    # Arrays begin where a number may.
    pieces = [piece for view in views for piece in (view, _PADDING[: -len(view) % 8])]
    sizes = b"".join(_SIZE.pack(len(view)) for view in views[1:])
    total = len(sizes) + sum(map(len, pieces))
    head = _HEAD.pack(total, len(buffers), len(body)) + sizes
    if total <= _SMALL:
        sock.sendall(b"".join([head, *pieces]))
        return
    sock.sendall(head)
    for piece in pieces:
        sock.sendall(piece)


def receive(sock: socket.socket) -> object | None:
    """Read one message; None where the other side is gone."""
    try:
        head = _read(sock, _HEAD.size)
        if head is None:
            return None
        total, count, length = _HEAD.unpack(head)
        content = _read(sock, total)
    except OSError:
        return None
    if content is None:
        return None
    if not count:
        return _loads(content)
    view = memoryview(content)
    at, pieces = count * _SIZE.size, []
    for size in (length, *(size for (size,) in _SIZE.iter_unpack(view[:at]))):
        pieces.append(view[at : at + size])
        at += size + -size % 8
    return _loads(pieces[0], pieces[1:])


def _loads(body: bytearray | memoryview, buffers: Sequence[memoryview] = ()) -> object:
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
