"""Functions of plain loops over arrays go in, machine code comes out; what they do is theirs.

A kernel's annotations are its signature, by the names below; each is compiled for that one alone, and kept on the disk.
Kernels run without the interpreter's lock. The disk's copy is as old as the kernel's own file, so a kernel uses no
constant and no other kernel of another file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Tokens = NDArray[np.int32]
Flags = NDArray[np.bool_]
Table = NDArray[np.int64]
TokenTable = NDArray[np.int32]
FloatTable = NDArray[np.float32]
# The same, for arrays that a kernel writes to.
IntsOut = NDArray[np.int64]
TokensOut = NDArray[np.int32]
FlagsOut = NDArray[np.bool_]
FloatsOut = NDArray[np.float32]
TableOut = NDArray[np.int64]
BytesOut = NDArray[np.int8]
TokenTableOut = NDArray[np.int32]
FloatTableOut = NDArray[np.float32]


def _array(dtype: Any, dimensions: int, readonly: bool) -> Any:
    return types.Array(dtype, dimensions, "C", readonly=readonly)


_TYPES = {
    "int": types.int64,
    "Ints": _array(types.int64, 1, True),
    "Tokens": _array(types.int32, 1, True),
    "Flags": _array(types.boolean, 1, True),
    "Table": _array(types.int64, 2, True),
    "TokenTable": _array(types.int32, 2, True),
    "FloatTable": _array(types.float32, 2, True),
    "IntsOut": _array(types.int64, 1, False),
    "TokensOut": _array(types.int32, 1, False),
    "FlagsOut": _array(types.boolean, 1, False),
    "FloatsOut": _array(types.float32, 1, False),
    "TableOut": _array(types.int64, 2, False),
    "BytesOut": _array(types.int8, 1, False),
    "TokenTableOut": _array(types.int32, 2, False),
    "FloatTableOut": _array(types.float32, 2, False),
}

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])
_waiting: list[tuple[Any, tuple[Any, ...]]] = []
_compiling = threading.Lock()


def kernel(function: _Kernel) -> _Kernel:
    """Make a function a kernel, which can be called once `compile_kernels` has returned."""
    signature = tuple(
        _TYPES[name] for parameter, name in function.__annotations__.items() if parameter != "return"
    )
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # No folder can be written to.
        compiled = numba.njit(nogil=True)(function)
    _waiting.append((compiled, signature))
    return cast(_Kernel, compiled)


def compile_kernels() -> None:
    """Compile all kernels, or read them from the disk; at once where that is done. May be called from any thread."""
    with _compiling:
        for compiled, signature in _waiting:
            compiled.compile(signature)
            compiled.disable_compile()
        _waiting.clear()
