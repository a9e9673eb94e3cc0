"""Text columns in, their token columns out, built and extended as texts come; never touches models or plans.

A token column is content-addressed: a text's slot is found by its key, whatever row or snapshot it came from.
So a column on disk serves every transaction, and texts that are no longer in the table do no harm.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covey_storage.batches import Batches
from covey_storage.catalog import Database
from covey_storage.data_files import quoted, reason
from covey_storage.errors import Damaged, NotFound, StorageError
from covey_storage.numbers import numbers
from covey_storage.temporary import TemporaryFolder
from covey_storage.tokenizer import Tokenizer
from covey_storage.tokens import KEY, TokenColumn, TokenColumnWriter

Progress = Callable[[int, int], None]
"""Called with the texts tokenized so far and the texts to tokenize; what it raises ends the work."""

_ROWS = 2048
_BATCH_BYTES = 16 << 20
"""Bytes of texts read and tokenized at a time, about."""

_SEGMENT_TOKENS = 4 << 20
_DIGEST = 12
"""Hexadecimal digits that tell the folders of columns apart."""

_log = logging.getLogger("covey.storage")


class _Store:
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


class TokenLibrary:
    """The token columns of a database, for one tokenizer; every method may be called from any thread.

    root: the folder they are kept in (`Database.tokens_root`); None for a temporary one, removed by `close`.
    """

    def __init__(self, root: Path | None, tokenizer: Tokenizer, database: Database) -> None:
        self._temporary: TemporaryFolder | None = None
        if root is None:
            self._temporary = TemporaryFolder("tokens")
            root = self._temporary.path
        self.root = root
        self.tokenizer = tokenizer
        self._database = database
        self._lock = threading.Lock()
        self._stores: dict[Path, _Store] = {}
        self._scratches: dict[str, ScratchColumn] = {}
        # Left by a server that ended without notice; the database's lock says that no other one is alive.
        shutil.rmtree(self._scratch_root, ignore_errors=True)
        self._sweep()

    def column(
        self,
        table: str,
        column: str,
        cursor: duckdb.DuckDBPyConnection | None = None,
        progress: Progress | None = None,
        keys: NDArray[np.void] | None = None,
    ) -> TokenColumn:
        """The token column of a stored column, holding at least its current texts (NULLs have none).

        cursor: reads in its transaction and must have no open result; by default a cursor of its own. keys:
        only these texts matter (V16, each at most once); others are not tokenized. A column that is not text
        is cast to VARCHAR. Raises NotFound where there is no such table or column, StorageError where the
        disk refuses.
        """
        own = self._database.cursor() if cursor is None else cursor
        try:
            own.execute(f"SELECT {quoted(column)} FROM {quoted(table)} LIMIT 0").fetchall()
            store = self._store(table, column)
            with store.lock:
                _extend(store, table, column, own, progress, keys)
            return store.column
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            raise _explained(error, table, column) from None
        except StorageError as error:
            raise type(error)(f"cannot keep the tokens of {table}.{column}: {error}") from None
        finally:
            if cursor is None:
                own.close()

    def slots(self, table: str, column: str, keys: NDArray[np.void]) -> NDArray[np.int32]:
        """The slots of keys (V16) in the token column of a stored column as it is; -1 for absent ones."""
        return self._store(table, column).column.find(keys)

    def built(self, table: str, column: str) -> TokenColumn | None:
        """The token column of a stored column as it is, whatever texts it holds; None where none was ever built."""
        folder = self.root / _folder_name(table, column) / self.tokenizer.fingerprint
        return self._store(table, column).column if folder in self._stores or folder.is_dir() else None

    def scratch(self, query_id: str) -> ScratchColumn:
        """The token column for texts that a query computes: made on first use, gone when it is closed."""
        with self._lock:
            found = self._scratches.get(query_id)
            if found is None:
                folder = self._scratch_root / uuid.uuid4().hex
                found = ScratchColumn(folder, self.tokenizer, lambda: self._forget(query_id))
                self._scratches[query_id] = found
            return found

    def close(self) -> None:
        """Remove what belongs to running queries, and the root if it was a temporary one."""
        for scratch in list(self._scratches.values()):
            scratch.close()
        if self._temporary is None:
            shutil.rmtree(self._scratch_root, ignore_errors=True)
        else:
            self._temporary.close()

    @property
    def _scratch_root(self) -> Path:
        return self.root / "scratch"

    def _forget(self, query_id: str) -> None:
        with self._lock:
            self._scratches.pop(query_id, None)

    def _sweep(self) -> None:
        """Remove the token columns of tables, views and columns that are no longer there."""
        tables = self._database.columns().items()
        there = {_folder_name(table, column) for table, columns in tables for column in columns}
        for folder in self.root.glob("*-" + "[0-9a-f]" * _DIGEST):
            if folder.name not in there:
                shutil.rmtree(folder, ignore_errors=True)

    def _store(self, table: str, column: str) -> _Store:
        folder = self.root / _folder_name(table, column) / self.tokenizer.fingerprint
        with self._lock:
            store = self._stores.get(folder)
            if store is None:
                store = self._stores[folder] = self._open(folder)
            return store

    def _open(self, folder: Path) -> _Store:
        """The store in a folder; one that is damaged is begun anew: its texts are all in the tables."""
        try:
            return _Store(folder, self.tokenizer, durable=self._temporary is None)
        except Damaged as error:
            _log.warning("%s; it is built again", error)
            shutil.rmtree(folder)
            return _Store(folder, self.tokenizer, durable=self._temporary is None)


class ScratchColumn:
    """A token column for the computed texts of one query; safe to use from several threads.

    Works as a context manager; closing removes its folder, which readers that have it mapped survive.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, closed: Callable[[], None]) -> None:
        self.folder = folder
        self._store = _Store(folder, tokenizer, durable=False)
        self._closed = closed

    @property
    def column(self) -> TokenColumn:
        """The column as it is now."""
        return self._store.column

    def add(self, keys: NDArray[np.void], texts: Sequence[str]) -> NDArray[np.int32]:
        """Tokenize the texts whose keys (V16 [n]) are not yet there; the slots of all of them, int32 [n]."""
        assert len(keys) == len(texts)
        with self._store.lock:
            _, first = np.unique(keys.view("S16"), return_index=True)
            fresh = first[self._store.column.find(keys[first]) < 0]
            fresh.sort()
            chunks = (fresh[at : at + _ROWS] for at in range(0, len(fresh), _ROWS))
            self._store.append((keys[chunk], [texts[place] for place in chunk]) for chunk in chunks)
            return self._store.column.find(keys)

    def close(self) -> None:
        """Remove the column; harmless if done before."""
        self._closed()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ScratchColumn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _folder_name(table: str, column: str) -> str:
    """The folder of a column's tokens."""
    # Names that differ in case only may share a folder: content-addressed texts do not mind.
    names = f"{table.lower()}\0{column.lower()}"
    readable = re.sub(r"[^a-z0-9]+", "-", names)[:40].strip("-")
    return f"{readable}-{hashlib.sha256(names.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGEST]}"


def _extend(
    store: _Store,
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
    reader = Batches(cursor.sql(query), _ROWS, _BATCH_BYTES)
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


def _explained(error: duckdb.Error, table: str, column: str) -> StorageError:
    match error:
        case duckdb.CatalogException():
            return NotFound(f"there is no table {table}")
        case duckdb.BinderException():
            return NotFound(f"table {table} has no column {column}")
        case _:
            return StorageError(f"cannot read the texts of {table}.{column}: {reason(error)}")
