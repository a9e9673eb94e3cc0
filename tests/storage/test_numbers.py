"""Columns of numbers as numpy arrays."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from covey_storage.numbers import numbers


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()]
)
def test_values_of_all_chunks_and_of_a_slice(kind: pa.DataType) -> None:
    values = np.array([3, 1, 2, 5], kind.to_pandas_dtype())
    array = pa.array(values, kind)
    for column, expected in (
        (array, values),
        (array.slice(1, 2), values[1:3]),
        (pa.chunked_array([array, array.slice(2)]), np.concatenate([values, values[2:]])),
        (array.slice(0, 0), values[:0]),
        (pa.chunked_array([], kind), values[:0]),
    ):
        found = numbers(column)
        assert found.dtype == values.dtype
        assert found.tolist() == expected.tolist()


def test_null_is_no_number() -> None:
    with pytest.raises(AssertionError, match="NULL"):
        numbers(pa.array([1, None]))


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys, duckdb; from covey_storage.numbers import numbers;"
        "found = numbers(duckdb.sql('SELECT range AS n FROM range(3)').to_arrow_table()['n']);"
        "assert found.tolist() == [0, 1, 2]; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
