"""A domain (SQL that yields keys) goes in, slots of token columns come out; fetches texts without a slot.

Keys are read first and resolved later, so that an empty domain builds no token column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from covey_planner.physical import Domain, TextArgument
from covey_storage.library import TokenLibrary
from covey_storage.numbers import numbers
from numpy.typing import NDArray

from covey_engine.operators.scratch import Scratch
from covey_engine.operators.streaming import Statements
from covey_engine.prefill import api

KEY = pa.binary(16)
"""Arrow's type of a text's key."""


@dataclass(frozen=True)
class Keys:
    """Rows of one side as the keys of their arguments: `columns[argument][row]`, 16 bytes each.

    Without arguments (a prompt of fixed text alone) there is one row or none. ties: of rows in an order of which ties
    are asked as a whole, a number that is equal for those. ranks: their places by keys of the side, where pairs come in
    an order of such keys. marks: where it differs what rows are asked, the column `m`.
    """

    columns: tuple[NDArray[np.void], ...]
    rows: int
    ties: NDArray[np.int64] | None = None
    ranks: tuple[NDArray[np.int64], ...] = ()
    marks: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.rows

    def take(self, rows: NDArray[np.integer]) -> Keys:
        """The keys of these rows, in this order."""
        ties = None if self.ties is None else self.ties[rows]
        ranks = tuple(ranks[rows] for ranks in self.ranks)
        marks = None if self.marks is None else self.marks[rows]
        return Keys(tuple(column[rows] for column in self.columns), len(rows), ties, ranks, marks)

    def arrays(self) -> list[pa.Array]:
        """The columns as Arrow arrays over the same memory."""
        return [
            pa.FixedSizeBinaryArray.from_buffers(KEY, len(c), [None, pa.py_buffer(np.ascontiguousarray(c))])
            for c in self.columns
        ]


@dataclass(frozen=True)
class Side:
    """Anchors or partners ready to be asked about: slots for the engine, lengths (int64) for the checks."""

    domain: Domain
    keys: Keys
    arguments: tuple[api.Argument, ...]
    lengths: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: NDArray[np.integer]) -> Side:
        """These rows alone, in this order."""
        return Side(
            self.domain,
            self.keys.take(rows),
            tuple(api.Argument(a.column, a.slots[rows]) for a in self.arguments),
            tuple(lengths[rows] for lengths in self.lengths),
        )


def read_keys(statements: Statements, domain: Domain) -> Keys:
    """Run a domain query."""
    table = statements.table(domain.sql)
    columns = tuple(_key_bytes(table[f"k{i}"]) for i in range(len(domain.arguments)))
    ties = numbers(table["o"]).astype(np.int64) if "o" in table.column_names else None
    names = [name for name in table.column_names if name.startswith("o") and name != "o"]
    ranks = tuple(numbers(table[name]).astype(np.int64) for name in names)
    marks = numbers(table["m"]).astype(np.int64) if "m" in table.column_names else None
    return Keys(columns, table.num_rows if columns else min(table.num_rows, 1), ties, ranks, marks)


def resolve(
    statements: Statements, library: TokenLibrary, scratch: Scratch, domain: Domain, keys: Keys
) -> Side:
    """Find or make the tokens of a domain's texts."""
    found = [
        _resolve_argument(statements, library, scratch, argument, column)
        for argument, column in zip(domain.arguments, keys.columns, strict=True)
    ]
    return Side(domain, keys, tuple(a for a, _ in found), tuple(n for _, n in found))


def _resolve_argument(
    statements: Statements,
    library: TokenLibrary,
    scratch: Scratch,
    argument: TextArgument,
    keys: NDArray[np.void],
) -> tuple[api.Argument, NDArray[np.int64]]:
    if argument.table is not None and argument.column is not None:
        distinct = np.unique(keys.view("S16")).view(keys.dtype)
        column = library.column(
            argument.table,
            argument.column,
            statements.cursor,
            lambda done, total: statements.check(),
            distinct,
        )
        slots = column.find(keys)
        # An argument reads one column: were a text not stored after all, the scratch would serve them all.
        if slots.min(initial=0) >= 0:
            return api.Argument(str(column.folder), slots), column.lengths[slots].astype(np.int64)
    missing = keys[scratch.column.find(keys) < 0]
    if len(missing):
        for found, texts in fetch_texts(statements, argument, missing):
            scratch.add(found, texts)
    column = scratch.column
    slots = column.find(keys)
    assert slots.min(initial=0) >= 0, f"the texts query of {argument.expression} covers its domain"
    return api.Argument(str(column.folder), slots), column.lengths[slots].astype(np.int64)


def fetch_texts(
    statements: Statements, argument: TextArgument, keys: NDArray[np.void]
) -> Iterator[tuple[NDArray[np.void], list[str]]]:
    """(keys, texts) of those texts of the argument that have one of these keys, each key once, in batches."""
    with statements.registered(
        "covey_wanted_keys", pa.table(Keys((keys,), len(keys)).arrays(), names=["key"])
    ):
        reader = statements.open(
            "SELECT covey_texts.key, any_value(covey_texts.text)"
            f" FROM ({argument.texts}) AS covey_texts(key, text)"
            " SEMI JOIN covey_wanted_keys ON covey_texts.key = covey_wanted_keys.key GROUP BY covey_texts.key"
        )
        for batch in statements.batches(reader):
            yield _key_bytes(batch.column(0)), batch.column(1).to_pylist()


def _key_bytes(keys: pa.Array | pa.ChunkedArray) -> NDArray[np.void]:
    """Keys (BLOB, 16 bytes each, none NULL) as numpy values."""
    assert keys.null_count == 0, "keys of a domain are never NULL"
    parts = [np.empty(0, dtype="V16")]
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        if len(chunk):
            fixed = chunk.cast(KEY)
            parts.append(np.frombuffer(fixed.buffers()[1], "V16", len(fixed), fixed.offset * 16))
    return parts[1] if len(parts) == 2 else np.concatenate(parts)
