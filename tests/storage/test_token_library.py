"""Token columns of stored and computed texts: complete for a snapshot, tokenized once, gone in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import numpy as np
import pytest
from covey_storage import token_store
from covey_storage.catalog import Database
from covey_storage.errors import NotFound
from covey_storage.keys import KEY, text_keys
from covey_storage.library import TokenLibrary
from covey_storage.tokens import TokenColumn
from support.counted_tokens import TEXTS, Counting, check


@pytest.fixture
def database(database: Database) -> Database:
    database.cursor().execute(TEXTS)
    return database


@pytest.fixture
def library(database: Database, counting: Counting) -> Iterator[TokenLibrary]:
    made = TokenLibrary(None, counting, database)
    yield made
    made.close()


def test_each_distinct_text_is_tokenized_once(library: TokenLibrary, counting: Counting) -> None:
    seen: list[tuple[int, int]] = []
    column = library.column("t", "a", progress=lambda done, total: seen.append((done, total)))
    assert len(column) == counting.texts == 3000
    assert seen[-1] == (3000, 3000)
    assert seen == sorted(seen)
    check(library, column, [f"text {number}" for number in range(3000)])
    assert library.column("T", "A") is column
    assert counting.texts == 3000


def test_appended_rows_extend_the_column(
    library: TokenLibrary, counting: Counting, database: Database
) -> None:
    column = library.column("t", "a")
    keys = column.keys.tobytes()
    database.cursor().execute("INSERT INTO t SELECT 0, 'more ' || range FROM range(10)")
    database.cursor().execute("DELETE FROM t WHERE a = 'text 3'")
    column = library.column("t", "a")
    assert counting.texts == 3010
    assert column.keys.tobytes().startswith(keys)
    check(library, column, ["text 0", "text 3", "more 9"])


def test_the_cursors_snapshot_is_what_counts(
    library: TokenLibrary, counting: Counting, database: Database
) -> None:
    library.column("t", "a")
    cursor = database.cursor()
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO t VALUES (0, 'only here')")
    cursor.execute("CREATE TABLE fresh AS SELECT 'new' AS b")
    column = library.column("t", "a", cursor)
    check(library, column, ["only here"])
    check(library, library.column("fresh", "b", cursor), ["new"])
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (7001,)
    cursor.execute("ROLLBACK")
    assert len(library.column("t", "a")) == 3001
    cursor.execute("BEGIN TRANSACTION READ ONLY")
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (7000,)
    database.cursor().execute("INSERT INTO t VALUES (0, 'too late')")
    assert len(library.column("t", "a", cursor)) == 3001
    cursor.execute("COMMIT")
    check(library, library.column("t", "a"), ["too late"])


def test_only_the_texts_that_matter(library: TokenLibrary, counting: Counting) -> None:
    keys = text_keys([f"text {number}" for number in range(2990, 3010)])
    column = library.column("t", "a", keys=keys)
    assert counting.texts == 10
    assert (column.find(keys) >= 0).tolist() == [True] * 10 + [False] * 10
    library.column("t", "a", keys=keys[:10])
    assert counting.texts == 10
    assert library.slots("t", "a", keys).tolist() == column.find(keys).tolist()
    assert library.slots("t", "id", keys).tolist() == [-1] * 20


def test_other_types_and_null_and_empty_texts(library: TokenLibrary, database: Database) -> None:
    database.cursor().execute(
        "CREATE TABLE o AS SELECT * FROM (VALUES (1, DATE '2024-01-02', ''), (NULL, NULL, NULL)) v(i, d, e)"
    )
    for column, text in (("i", "1"), ("d", "2024-01-02"), ("e", "")):
        tokens = library.column("o", column)
        assert len(tokens) == 1
        check(library, tokens, [text])


def test_names_of_every_kind(library: TokenLibrary, database: Database) -> None:
    names = ['we"ird', "../../etc", "a.b", "Ünïcødé ☕", "x" * 300, "place", "key", "_covey_source", "source"]
    for number, name in enumerate(names):
        quoted = '"' + name.replace('"', '""') + '"'
        others = "".join(f", {other} VARCHAR" for other in ("place", "key") if other != name)
        database.cursor().execute(f"CREATE TABLE {quoted} ({quoted} VARCHAR{others})")
        database.cursor().execute(f"INSERT INTO {quoted} ({quoted}) VALUES ('text of {number}')")
        check(library, library.column(name, name), [f"text of {number}"])
    folders = {path.parent for path in library.root.rglob("tokens-*.arrow")}
    assert len(folders) == len(names)
    assert all(folder.is_relative_to(library.root) for folder in folders)


def test_views_are_columns_too(library: TokenLibrary, database: Database) -> None:
    database.cursor().execute("CREATE VIEW v AS SELECT upper(a) AS a FROM t WHERE id < 5")
    column = library.column("v", "a")
    assert len(column) == 5
    check(library, column, ["TEXT 4"])


def test_keys_are_duckdbs_md5_of_the_text(database: Database) -> None:
    texts = [
        "Spam",
        "SPAM",
        "spam",
        "Straße",
        "STRASSE",
        "naïve ☕",
        "e\u0301",
        "é",
        "",
        " ",
        "a\0b",
        "𝕏" * 1000,
    ]
    cursor = database.cursor()
    cursor.execute("CREATE TABLE k (i INTEGER, plain VARCHAR, nocase VARCHAR COLLATE NOCASE)")
    cursor.executemany("INSERT INTO k VALUES (?, ?, ?)", [[i, text, text] for i, text in enumerate(texts)])
    for column in ("plain", "nocase"):
        found = cursor.execute(f"SELECT unhex(md5(CAST({column} AS VARCHAR))) FROM k ORDER BY i").fetchall()
        assert b"".join(row[0] for row in found) == text_keys(texts).tobytes()
    assert cursor.execute("SELECT count(DISTINCT nocase) FROM k").fetchone() != (len(texts),)


def test_a_collation_merges_no_texts(library: TokenLibrary, database: Database) -> None:
    database.cursor().execute("CREATE TABLE n (a VARCHAR COLLATE NOCASE)")
    database.cursor().execute("INSERT INTO n VALUES ('Spam'), ('SPAM'), ('spam'), ('SPAM')")
    column = library.column("n", "a")
    assert len(column) == 3
    check(library, column, ["Spam", "SPAM", "spam"])


def test_missing_tables_and_columns_are_named_and_leave_nothing(library: TokenLibrary) -> None:
    with pytest.raises(NotFound, match=r"^there is no table nope$"):
        library.column("nope", "a")
    with pytest.raises(NotFound, match=r"^table t has no column nope$"):
        library.column("t", "nope")
    assert list(library.root.iterdir()) == []


def test_what_progress_raises_ends_the_work_and_keeps_what_is_done(
    library: TokenLibrary, counting: Counting, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_store, "_SEGMENT_TOKENS", 100)
    database.cursor().execute("CREATE TABLE w AS SELECT 'word ' || range AS a FROM range(9000)")
    cursor = database.cursor()
    cursor.execute("BEGIN")

    def stop(done: int, total: int) -> None:
        assert total == 9000
        if done > 3000:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        library.column("w", "a", cursor, stop)
    assert cursor.execute("SELECT count(*) FROM w").fetchone() == (9000,)
    kept = counting.texts
    assert 3000 < kept < 9000
    column = library.column("w", "a", cursor)
    assert len(column) == counting.texts == 9000
    check(library, column, ["word 0", "word 8999"])


def test_an_interrupted_cursor_is_not_an_error_of_the_column(
    library: TokenLibrary, database: Database
) -> None:
    endless = "SELECT 'x' || (a.range * b.range) AS a FROM range(100000) a, range(100000) b"
    database.cursor().execute(f"CREATE VIEW slow AS {endless}")
    cursor = database.cursor()
    timer = threading.Timer(0.3, cursor.interrupt)
    timer.start()
    with pytest.raises(duckdb.InterruptException):
        library.column("slow", "a", cursor)
    timer.join()
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_several_threads_at_once(library: TokenLibrary, counting: Counting) -> None:
    sizes: list[int] = []

    def work() -> None:
        sizes.append(len(library.column("t", "a")))
        sizes.append(len(library.column("t", "id")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sizes) == [3000] * 4 + [7000] * 4
    assert counting.texts == 10000


def test_scratch_columns(library: TokenLibrary, counting: Counting) -> None:
    with library.scratch("query 1/../x") as scratch:
        texts = ["b", "a", "b", "", "a"]
        assert scratch.add(text_keys(texts), texts).tolist() == [0, 1, 0, 2, 1]
        assert scratch.add(text_keys(["c", "a"]), ["c", "a"]).tolist() == [3, 1]
        assert scratch.add(np.empty(0, KEY), []).tolist() == []
        assert counting.texts == 4
        check(library, scratch.column, ["a", "b", "c", ""])
        assert library.scratch("query 1/../x") is scratch
        reader = TokenColumn(scratch.folder)
        with library.scratch("query 2") as other:
            assert other.folder != scratch.folder
            assert len(other.column) == 0
    assert not scratch.folder.exists()
    check(library, reader, ["a", "b", "c", ""])
    scratch.close()
    assert library.scratch("query 1/../x") is not scratch
