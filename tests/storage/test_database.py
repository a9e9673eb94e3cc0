"""The database: files become tables, nothing is reachable once it is open, and errors name the file."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest
from covey_storage.catalog import Database
from covey_storage.errors import Locked, NotFound, StorageError
from support.databases import refused, rows

HOLD = "import sys; from covey_storage.catalog import Database; from pathlib import Path; "
HOLD += "d = Database.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"


def test_another_process_holds_the_database(tmp_path: Path) -> None:
    path = tmp_path / "covey.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(Locked) as caught:
            Database.open(path)
        assert str(caught.value) == f"the database {path} is in use by another process (pid {other.pid})"
        other.communicate()
    Database.open(path).close()


def test_this_process_holds_the_database(tmp_path: Path) -> None:
    path = tmp_path / "covey.duckdb"
    database = Database.open(path)
    with pytest.raises(Locked, match=f"^the database {path} is already open in this process$"):
        Database.open(path)
    assert rows(database, "SELECT 1") == [(1,)]
    database.close()


def test_databases_that_cannot_be_opened(tmp_path: Path) -> None:
    assert refused(tmp_path / "no" / "x.duckdb").startswith(
        f"cannot open the database {tmp_path}/no/x.duckdb"
    )
    (tmp_path / "x.duckdb").write_text("garbage" * 1000)
    assert refused(tmp_path / "x.duckdb") == f"{tmp_path}/x.duckdb is not a DuckDB database"
    assert str(tmp_path) in refused(tmp_path)
    with pytest.raises(NotFound):
        Database.open(tmp_path / "no" / "x.duckdb")
    with pytest.raises(StorageError, match=r"^cannot set memory_limit to lots: "):
        Database.open(memory_limit="lots")


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "SELECT * FROM read_text('{data}/t.csv')",
        "COPY (SELECT 1) TO '{data}/out.csv'",
        "ATTACH '{data}/other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "FROM TABLE",
    ],
)
def test_sql_reaches_no_file_and_no_setting(data: Path, sql: str) -> None:
    (data / "t.csv").write_text("a\n1\n")
    database = Database.open(None, [data])
    with pytest.raises(duckdb.Error):
        rows(database, sql.format(data=str(data).replace("'", "''")))
    assert rows(database, "FROM t") == [(1,)]
    database.close()


def test_settings(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "x.duckdb", memory_limit="300MB", threads=1)
    settings = "current_setting('TimeZone'), current_setting('threads'), current_setting('memory_limit')"
    assert rows(database, f"SELECT {settings}") == [("UTC", 1, "286.1 MiB")]
    assert database.tokens_root == tmp_path / "x.duckdb.tokens"
    database.close()


def test_a_database_in_memory_spills_to_a_folder_of_its_own(database: Database) -> None:
    ((spill,),) = rows(database, "SELECT current_setting('temp_directory')")
    assert Path(str(spill)).is_dir()
    assert database.tokens_root is None
    database.close()
    assert not Path(str(spill)).exists()


def test_columns_and_descriptions_see_the_cursors_transaction(database: Database) -> None:
    cursor = database.cursor()
    cursor.execute("BEGIN")
    cursor.execute("CREATE TABLE t AS SELECT 'x' AS a, [1] AS b")
    assert database.columns() == {}
    assert database.columns(cursor) == {"t": {"a": "VARCHAR", "b": "INTEGER[]"}}
    assert database.describe("SELECT b, a AS c FROM t", cursor) == [("b", "INTEGER[]"), ("c", "VARCHAR")]
    with pytest.raises(duckdb.CatalogException):
        database.describe("SELECT b FROM t")
    cursor.execute("ROLLBACK")


def test_cursors_from_many_threads(database: Database) -> None:
    rows(database, "CREATE TABLE t AS SELECT range AS a FROM range(1000)")
    results: list[object] = []

    def work() -> None:
        for _ in range(20):
            results.append(
                rows(database, "SELECT sum(a) FROM t") == [(499500,)] and len(database.columns()) == 1
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


def test_closing_does_not_wait_for_a_statement_that_runs() -> None:
    database = Database.open()
    cursor = database.cursor()
    runs, goes_on = threading.Event(), threading.Event()

    def pause(number: int) -> int:
        runs.set()
        goes_on.wait(30)
        return number

    cursor.create_function("pause", pause)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(cursor.execute("SELECT pause(1)").fetchall()))
    thread.start()
    assert runs.wait(30)
    database.close()
    goes_on.set()
    thread.join()
    assert results == [[(1,)]]
