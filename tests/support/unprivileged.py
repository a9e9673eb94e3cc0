"""Has work of root's obey the permissions of files, as other users' does."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_VERSION_3 = 0x20080522
_DAC = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which let root read and write every file."""

T = TypeVar("T")


def obeying(work: Callable[[], T]) -> T:
    """What `work` returns or raises, done in a thread that has not root's rights on files."""
    with ThreadPoolExecutor(1, initializer=_obey) as pool:
        return pool.submit(work).result()


def _obey() -> None:
    if os.getuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    for at in range(3):
        # Effective, permitted and inheritable ones.
        data[at] &= ~_DAC & 0xFFFFFFFF
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
