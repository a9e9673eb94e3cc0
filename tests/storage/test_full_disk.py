"""Token columns where files cannot grow: which column it was is said, nothing is left behind, the next try works."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from covey_storage.catalog import Database
from covey_storage.errors import StorageError
from covey_storage.keys import text_keys
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.storage_specs import byte_spec


@contextmanager
def full(size: int = 4096) -> Iterator[None]:
    """While the block runs, no file grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_stored_column_that_cannot_be_kept_is_named_and_built_later(tmp_path: Path) -> None:
    database = Database.open()
    database.cursor().execute("CREATE TABLE t AS SELECT 'text ' || range AS a FROM range(3000)")
    library = TokenLibrary(tmp_path / "tokens", Tokenizer(byte_spec(), None), database)
    with (
        full(),
        pytest.raises(StorageError, match=r"^cannot keep the tokens of t\.a: cannot write to ") as caught,
    ):
        library.column("t", "a")
    assert str(caught.value).endswith(": File too large")
    assert [path for path in (tmp_path / "tokens").rglob("*") if path.is_file()] == []
    column = library.column("t", "a")
    assert (column.find(text_keys([f"text {n}" for n in range(3000)])) >= 0).all()
    database.close()


def test_a_query_whose_computed_texts_cannot_be_kept_can_go_on(tmp_path: Path) -> None:
    database = Database.open()
    library = TokenLibrary(tmp_path / "tokens", Tokenizer(byte_spec(), None), database)
    texts = [f"text {n}" for n in range(3000)]
    keys = text_keys(texts)
    with library.scratch("q") as scratch:
        with full(), pytest.raises(StorageError, match=r"^cannot write to .*: File too large$"):
            scratch.add(keys, texts)
        assert [path for path in scratch.folder.rglob("*") if path.is_file()] == []
        assert (scratch.add(keys, texts) >= 0).all()
    database.close()


def test_a_scratch_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    database = Database.open()
    library = TokenLibrary(tmp_path / "tokens", Tokenizer(byte_spec(), None), database)
    (tmp_path / "tokens").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=f"^cannot use the folder {tmp_path / 'tokens'}"):
        library.scratch("q")
    database.close()
