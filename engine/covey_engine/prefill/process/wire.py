"""Messages between client and worker: plain objects go in and come out, arrays cross without a copy in pickle.

Both sides are one Python. A message that comes with every chunk is written as its class says, by marshal: pickle took
three times as long to look up names and classes, and to build its objects.
"""

from __future__ import annotations

import marshal
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar

_HEAD = struct.Struct("<QQQ")
_SIZE = struct.Struct("<Q")
_SMALL = 1 << 16
_PADDING = bytes(7)
_FREQUENT = (1 << 64) - 1
"""Stands for the number of buffers where a message is a frequent one."""


class Frequent(Protocol):
    """A message that is sent so often that it says itself what it is made of."""

    def plain(self) -> tuple[Any, ...]:
        """The same as tuples, numbers, texts and bytes."""
        ...

    @classmethod
    def of_plain(cls, content: tuple[Any, ...]) -> Self:
        """The message that `plain` was called on."""
        ...


_Message = TypeVar("_Message", bound=type[Frequent])
_frequent: dict[str, type[Frequent]] = {}


def frequent(message: _Message) -> _Message:
    """Have messages of a class cross as `plain` says; the name of the class is its own among these."""
    _frequent[message.__name__] = message
    return message


def send(sock: socket.socket, message: object) -> None:
    """Write one message. Raises OSError where the other side is gone."""
    name = type(message).__name__
    if _frequent.get(name) is type(message):
        body = marshal.dumps((name, message.plain()))
        sock.sendall(_HEAD.pack(len(body), _FREQUENT, len(body)) + body)
        return
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
    if count == _FREQUENT:
        name, plain = marshal.loads(content)
        return _frequent[name].of_plain(plain)
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
