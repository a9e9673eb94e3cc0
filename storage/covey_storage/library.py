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
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import duckdb
import numpy as np
from numpy.typing import NDArray

from covey_storage.catalog import Database
from covey_storage.data_files import quoted, reason
from covey_storage.errors import Damaged, NotFound, StorageError
from covey_storage.places import check_writable
from covey_storage.temporary import TemporaryFolder
from covey_storage.token_store import ROWS, Progress, TokenStore, extend
from covey_storage.tokenizer import Tokenizer
from covey_storage.tokens import TokenColumn

_DIGEST = 12
"""Hexadecimal digits that tell the folders of columns apart."""

_log = logging.getLogger("covey.storage")


class TokenLibrary:
    """The token columns of a database, for one tokenizer; every method may be called from any thread.

    root: the folder they are kept in (`Database.tokens_root`); None for a temporary one, removed by `close`.
    """

    def __init__(self, root: Path | None, tokenizer: Tokenizer, database: Database) -> None:
        self._temporary: TemporaryFolder | None = None
        if root is None:
            self._temporary = TemporaryFolder("tokens")
            root = self._temporary.path
        else:
            check_writable(root, "the token columns of the database")
        self.root = root
        self.tokenizer = tokenizer
        self._database = database
        self._lock = threading.Lock()
        self._stores: dict[Path, TokenStore] = {}
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
                extend(store, table, column, own, progress, keys)
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

    def _store(self, table: str, column: str) -> TokenStore:
        folder = self.root / _folder_name(table, column) / self.tokenizer.fingerprint
        with self._lock:
            store = self._stores.get(folder)
            if store is None:
                store = self._stores[folder] = self._open(folder)
            return store

    def _open(self, folder: Path) -> TokenStore:
        """The store in a folder; one that is damaged is begun anew: its texts are all in the tables."""
        try:
            return TokenStore(folder, self.tokenizer, durable=self._temporary is None)
        except Damaged as error:
            _log.warning("%s; it is built again", error)
            shutil.rmtree(folder)
            return TokenStore(folder, self.tokenizer, durable=self._temporary is None)


class ScratchColumn:
    """A token column for the computed texts of one query; safe to use from several threads.

    Works as a context manager; closing removes its folder, which readers that have it mapped survive.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, closed: Callable[[], None]) -> None:
        self.folder = folder
        self._store = TokenStore(folder, tokenizer, durable=False)
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
            chunks = (fresh[at : at + ROWS] for at in range(0, len(fresh), ROWS))
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


def _explained(error: duckdb.Error, table: str, column: str) -> StorageError:
    match error:
        case duckdb.CatalogException():
            return NotFound(f"there is no table {table}")
        case duckdb.BinderException():
            return NotFound(f"table {table} has no column {column}")
        case _:
            return StorageError(f"cannot read the texts of {table}.{column}: {reason(error)}")
