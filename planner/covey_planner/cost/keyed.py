"""Rows by the keys of their texts: SQL that groups a small domain, and its keys as numpy values; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covey_planner.lowering.domains import VALUE, key


def grouped(rows: str, count: int) -> str:
    """The distinct tuples of some rows: keys k0, …, sizes in bytes b0, …, and n, how many rows have each."""
    names = [f"{VALUE}{n}" for n in range(count)]
    columns = [f"{key(name)} AS k{n}" for n, name in enumerate(names)]
    columns += [f"any_value(strlen(CAST({name} AS VARCHAR))) AS b{n}" for n, name in enumerate(names)]
    given = " AND ".join(f"{name} IS NOT NULL" for name in names)
    keys = ", ".join(str(n + 1) for n in range(count))
    select = f"SELECT {', '.join(columns)}, count(*) AS n FROM ({rows}) AS __covey_d WHERE {given}"
    return f"{select} GROUP BY {keys}"


def summed(rows: str) -> str:
    """Of some rows with one argument: those that have a text, different texts, and of these the sums of the sizes in
    bytes and of their squares.
    """
    text = f"CAST({VALUE}0 AS VARCHAR)"
    each = f"SELECT any_value(strlen({text})) AS b, count(*) AS n FROM ({rows}) AS __covey_d"
    sums = "coalesce(sum(n), 0), count(*), coalesce(sum(b), 0), coalesce(sum(b * b), 0)"
    return f"SELECT {sums} FROM ({each} WHERE {VALUE}0 IS NOT NULL GROUP BY {text}) AS __covey_s"


def keys(column: pa.ChunkedArray) -> NDArray[np.void]:
    """Keys (BLOB, 16 bytes each, none NULL) as numpy values."""
    found = [np.empty(0, "V16")]
    # Arrow's own cast would import its compute functions, in the first statement that needs it.
    for chunk in filter(len, column.chunks):
        _, offsets, data = chunk.buffers()
        begin = int(np.frombuffer(offsets, np.int32, 1, chunk.offset * 4)[0])
        found.append(np.frombuffer(data, "V16", len(chunk), begin))
    return np.concatenate(found)


def firsts(keys: Sequence[NDArray[np.void]]) -> NDArray[np.intp]:
    """A row of each of the distinct tuples of some keys."""
    joined = np.stack([column.view("S16") for column in keys], axis=1).view(f"S{16 * len(keys)}")
    return np.unique(joined.ravel(), return_index=True)[1]
