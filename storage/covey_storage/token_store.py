"""Texts in, tokenized and appended to one token column; knows no other column and removes nothing."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covey_storage.batches import Batches
from covey_storage.data_files import quoted
from covey_storage.keys import KEY
from covey_storage.numbers import numbers
from covey_storage.tokenizer import Tokenizer
from covey_storage.tokens import TokenColumn, TokenColumnWriter

Progress = Callable[[int, int], None]
"""Called with the texts tokenized so far and the texts to tokenize; what it raises ends the work."""

ROWS = 2048
"""Texts tokenized at a time."""

_BATCH_BYTES = 16 << 20
"""Bytes of texts read and tokenized at a time, about."""

_SEGMENT_TOKENS = 4 << 20


class TokenStore:
    """A token column under construction: what one column's or query's writers share."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, durable: bool) -> None:
        self.lock = threading.Lock()
        self._tokenizer = tokenizer
        self._writer = TokenColumnWriter(folder, durable=durable)
        self.column = TokenColumn(folder)

    def missing(self, keys: NDArray[np.void]) -> NDArray[np.void]:
        """Those of `keys` that have no slot."""
        return keys[self.column.find(keys) < 0]

    def append(self, batches: Iterable[tuple[NDArray[np.void], Sequence[str]]]) -> None:
        """Tokenize texts (and keys, none of which has a slot) and append them, in files of fair size."""
        keys: list[NDArray[np.void]] = []
        parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
        try:
            for some, texts in batches:
                keys.append(some)
                parts.append(self._tokenizer.encode_batch(texts))
                if sum(len(ids) for _, ids in parts) >= _SEGMENT_TOKENS:
                    self._flush(keys, parts)
        finally:
            # What is tokenized is kept, even where the rest cannot be.
            self._flush(keys, parts)
            self._writer.sort()

    def _flush(
        self, keys: list[NDArray[np.void]], parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]]
    ) -> None:
        if not keys:
            return
        lengths = np.concatenate([np.diff(offsets) for offsets, _ in parts])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        self._writer.append(np.concatenate(keys), offsets, np.concatenate([ids for _, ids in parts]))
        keys.clear()
        parts.clear()
        self.column.refresh()


def extend(
    store: TokenStore,
    table: str,
    column: str,
    cursor: duckdb.DuckDBPyConnection,
    progress: Progress | None,
    keys: NDArray[np.void] | None,
) -> None:
    """Tokenize the texts that have no slot: first find their keys, then fetch no other texts."""
    text = f"CAST(_covey_source.{quoted(column)} AS VARCHAR)"
    source = f"{quoted(table)} AS _covey_source"
    if keys is None:
        present = f"SELECT DISTINCT unhex(md5({text})) FROM {source} WHERE {text} IS NOT NULL"
        with closing(_batches(cursor, present)) as batches:
            found = [store.missing(_keys(batch.column(0))) for batch in batches]
        keys = np.concatenate(found) if found else np.empty(0, KEY)
    else:
        keys = store.missing(keys)
    if len(keys) == 0:
        return
    wanted = pa.table({"key": _binary(keys), "place": pa.array(np.arange(len(keys), dtype=np.int64))})
    with _registered(cursor, wanted) as name:
        query = f"SELECT {name}.place, {text} FROM {source} JOIN {name} ON unhex(md5({text})) = {name}.key"
        with closing(_batches(cursor, query)) as batches:
            store.append(_first_of_each(batches, keys, progress))


def _first_of_each(
    batches: Iterator[pa.RecordBatch], keys: NDArray[np.void], progress: Progress | None
) -> Iterator[tuple[NDArray[np.void], list[str]]]:
    """One text for each key, from batches of (place in keys, text) that may repeat; ends when all came."""
    done = np.zeros(len(keys), np.bool_)
    for batch in batches:
        places, rows = np.unique(numbers(batch.column(0)), return_index=True)
        fresh = ~done[places]
        places, rows = places[fresh], np.sort(rows[fresh])
        if len(rows):
            places = numbers(batch.column(0))[rows]
            done[places] = True
            yield keys[places], batch.column(1).take(pa.array(rows)).to_pylist()
            if progress is not None:
                progress(int(done.sum()), len(keys))
        if done.all():
            return


def _batches(cursor: duckdb.DuckDBPyConnection, query: str) -> Generator[pa.RecordBatch, None, None]:
    """The query's result as it is computed; the cursor is free again when the iterator is closed."""
    reader = Batches(cursor.sql(query), ROWS, _BATCH_BYTES)
    try:
        yield from reader
    finally:
        reader.close()


@contextmanager
def _registered(cursor: duckdb.DuckDBPyConnection, table: pa.Table) -> Iterator[str]:
    """An Arrow table under a name that no one can guess, for queries of this cursor."""
    name = f"_covey_{uuid.uuid4().hex}"
    cursor.register(name, table)
    try:
        yield name
    finally:
        cursor.unregister(name)


def _keys(column: pa.BinaryArray) -> NDArray[np.void]:
    """Keys as DuckDB delivers them: binary values of 16 bytes, one after another."""
    if len(column) == 0:
        return np.empty(0, KEY)
    _, offsets, data = column.buffers()
    begin = np.frombuffer(offsets, np.int32, 1, column.offset * 4)[0]
    return np.frombuffer(data, KEY, len(column), int(begin))


def _binary(keys: NDArray[np.void]) -> pa.FixedSizeBinaryArray:
    return pa.Array.from_buffers(pa.binary(16), len(keys), [None, pa.py_buffer(np.ascontiguousarray(keys))])
