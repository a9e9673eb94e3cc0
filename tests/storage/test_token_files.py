"""Token columns as files: they outlive the server, are built again where damaged, and go in time."""

from __future__ import annotations

from pathlib import Path

import pytest
from covey_storage.catalog import Database
from covey_storage.errors import StorageError
from covey_storage.keys import text_keys
from covey_storage.library import TokenLibrary
from support.counted_tokens import TEXTS, Counting, check
from support.storage_specs import byte_spec


@pytest.fixture
def database(database: Database) -> Database:
    database.cursor().execute(TEXTS)
    return database


def test_columns_of_a_file_database_outlive_the_server(tmp_path: Path, counting: Counting) -> None:
    for start in range(2):
        database = Database.open(tmp_path / "x.duckdb")
        assert database.tokens_root is not None
        cursor = database.cursor()
        cursor.execute("CREATE OR REPLACE TABLE t AS SELECT 'text ' || range AS a FROM range(100)")
        library = TokenLibrary(database.tokens_root, counting, database)
        assert len(library.column("t", "a")) == counting.texts == 100
        scratch = library.scratch("q")
        scratch.add(text_keys(["x"]), ["x"])
        counting.texts -= 1
        if start:
            library.close()
        database.close()
    assert (database.tokens_root / "scratch").exists() is False
    assert len(list(database.tokens_root.rglob("tokens-*.arrow"))) == 1


def test_columns_of_what_was_dropped_are_removed_at_the_next_start(
    tmp_path: Path, counting: Counting
) -> None:
    database = Database.open(tmp_path / "x.duckdb")
    assert database.tokens_root is not None
    cursor = database.cursor()
    cursor.execute(
        "CREATE TABLE t AS SELECT 'a' AS \"Kept 🎉\", 'b' AS lost; CREATE TABLE gone AS SELECT 'c' AS a"
    )
    cursor.execute("CREATE VIEW v AS SELECT 'd' AS seen")
    library = TokenLibrary(database.tokens_root, counting, database)
    for table, column in (("t", "Kept 🎉"), ("t", "lost"), ("gone", "a"), ("v", "seen")):
        library.column(table, column)
    (database.tokens_root / "not-ours").mkdir()
    cursor.execute("DROP TABLE gone; ALTER TABLE t DROP COLUMN lost")
    TokenLibrary(database.tokens_root, counting, database)
    left = sorted(path.name[:-13] for path in database.tokens_root.glob("*-????????????"))
    assert left == ["t-kept", "v-seen"]
    assert (database.tokens_root / "not-ours").exists()
    TokenLibrary(database.tokens_root, counting, database).column("t", "Kept 🎉")
    assert counting.texts == 4
    database.close()


@pytest.mark.parametrize("content", [b"", b"not what was written"])
def test_a_damaged_column_is_built_again(
    tmp_path: Path, database: Database, counting: Counting, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    TokenLibrary(tmp_path, counting, database).column("t", "a")
    (path,) = tmp_path.rglob("tokens-*.arrow")
    path.write_bytes(content)
    library = TokenLibrary(tmp_path, counting, database)
    check(library, library.column("t", "a"), ["text 7", "text 2999"])
    assert f"{path} is damaged" in caplog.text
    assert counting.texts == 6000


def test_scratch_of_a_server_that_was_killed_is_removed(
    tmp_path: Path, counting: Counting, database: Database
) -> None:
    folder = TokenLibrary(tmp_path, counting, database).scratch("q").folder
    assert folder.is_dir()
    TokenLibrary(tmp_path, counting, database)
    assert not folder.exists()


def test_each_tokenizer_has_its_own_columns(tmp_path: Path, database: Database, counting: Counting) -> None:
    spec = byte_spec()
    spec["model"]["merges"] = []
    TokenLibrary(tmp_path, counting, database).column("t", "a")
    other = Counting(spec, None)
    TokenLibrary(tmp_path, other, database).column("t", "a")
    assert other.texts == 3000


def test_a_temporary_root_goes_with_the_library(database: Database, counting: Counting) -> None:
    library = TokenLibrary(None, counting, database)
    library.column("t", "a")
    library.scratch("q")
    library.close()
    assert not library.root.exists()


def test_a_root_that_cannot_be_used_is_named(tmp_path: Path, database: Database, counting: Counting) -> None:
    root = tmp_path / "file"
    library = TokenLibrary(root, counting, database)
    root.write_text("x")
    with pytest.raises(StorageError, match=f"^cannot keep the tokens of t.a: cannot use the folder {root}"):
        library.column("t", "a")
    with pytest.raises(StorageError, match=f"^cannot write the token columns of the database into {root}: "):
        TokenLibrary(root, counting, database)
