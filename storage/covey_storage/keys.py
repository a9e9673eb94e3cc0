"""Texts in, their keys out: what a text is found by in a token column; knows no files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

KEY = np.dtype("V16")
"""A text's key: the MD5 of its UTF-8 bytes, DuckDB's `unhex(md5(text))`."""


def text_keys(texts: Iterable[str]) -> NDArray[np.void]:
    """The keys of texts, V16 [n]."""
    digests = [hashlib.md5(text.encode("utf-8"), usedforsecurity=False).digest() for text in texts]
    return np.frombuffer(b"".join(digests), KEY)


def halves(keys: NDArray[np.void]) -> NDArray[np.uint64]:
    """Keys as pairs of numbers that sort as the keys' bytes do, uint64 [n, 2]."""
    assert keys.dtype == KEY
    return np.ascontiguousarray(keys).view(">u8").reshape(-1, 2).astype(np.uint64)
