"""Arrow columns of numbers in, numpy arrays out; never imports pandas.

pyarrow's own `to_numpy` imports pandas where it is installed: seconds at the first query.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}


def numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """The values of a column of integers or floats without NULLs; not copied where they are in one chunk."""
    assert not column.null_count, "NULL is no number"
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = str(array.type)
    dtype = np.dtype(_NAMES.get(kind, kind))
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
