"""A GGUF file in, its metadata as Python values out (tens of milliseconds); never touches the tensors.

The format is that of ggml's `docs/gguf.md`, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np

from covey_storage.errors import NotFound, StorageError

Value = bool | int | float | str | list[str] | list[int] | list[float] | list[bool]
"""One metadata value; arrays of arrays do not occur in model files and are refused."""

_SCALARS = {
    0: "u1",
    1: "i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9
_U64 = struct.Struct("<Q")


def read_metadata(path: Path) -> dict[str, Value]:
    """Read all key-value pairs of a GGUF file.

    Raises NotFound where there is no such file, StorageError where it is not a GGUF file or ends too early.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path).pairs()
    except FileNotFoundError:
        raise NotFound(f"no model file at {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read the model file {path}: {error.strerror}") from None
    except (ValueError, OverflowError, MemoryError, struct.error):
        raise StorageError(
            f"{path} is not a readable GGUF file: its metadata is damaged or cut off"
        ) from None


class _Reader:
    """A cursor over the header's bytes."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self._at = 24

    def pairs(self) -> dict[str, Value]:
        magic, version, _, count = struct.unpack_from("<4sIQQ", self._data)
        if magic != b"GGUF":
            raise StorageError(f"{self._path} is not a GGUF file")
        if version not in (2, 3):
            raise StorageError(f"{self._path}: GGUF version {version} is not supported, only 2 and 3 are")
        return dict(self._pair() for _ in range(count))

    def _pair(self) -> tuple[str, Value]:
        key = self._strings(1)[0]
        kind = self._int("<u4")
        if kind != _ARRAY:
            return key, self._values(kind, 1)[0]
        kind = self._int("<u4")
        return key, self._values(kind, self._int("<u8"))

    def _int(self, dtype: str) -> int:
        return int(self._array(dtype, 1)[0])

    def _values(self, kind: int, count: int) -> list[str] | list[int] | list[float] | list[bool]:
        if kind == _STRING:
            return self._strings(count)
        if kind not in _SCALARS:
            raise StorageError(f"{self._path}: metadata of an unknown kind ({kind})")
        values: list[int] | list[float] | list[bool] = self._array(_SCALARS[kind], count).tolist()
        return values

    def _array(self, dtype: str, count: int) -> np.ndarray:
        width = np.dtype(dtype).itemsize * count
        # A copy: a view would keep the map from closing.
        array = np.frombuffer(self._data[self._at : self._at + width], dtype, count)
        self._at += width
        return array

    def _strings(self, count: int) -> list[str]:
        data, at, strings = self._data, self._at, []
        for _ in range(count):
            (length,) = _U64.unpack_from(data, at)
            at += 8 + length
            strings.append(data[at - length : at].decode("utf-8"))
        self._at = at
        return strings
