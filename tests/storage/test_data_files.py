"""Data files become tables and are followed; errors name the file."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from covey_storage.catalog import Database
from support.databases import refused, rows

TABLE = pa.table({"name": pa.array(["a", None, "c"]).dictionary_encode(), "number": [1, 2, 3]})


def test_files_of_every_kind_become_tables(data: Path) -> None:
    pq.write_table(TABLE, data / "p.parquet")
    pq.write_table(TABLE, data / "Q.PQ")
    for name, new in (("file.arrow", pa.ipc.new_file), ("stream.feather", pa.ipc.new_stream)):
        with new(str(data / name), TABLE.schema) as writer:
            writer.write_table(TABLE)
    (data / "c.csv").write_text('name,number\na,1\n,2\n"c",3\n')
    (data / "t.tsv").write_text("name\tnumber\na\t1\n\t2\nc\t3\n")
    (data / "l.jsonl").write_text('{"name":"a","number":1}\n{"number":2}\n{"name":"c","number":3}\n')
    (data / "j.json").write_text('[{"name":"a","number":1},{"number":2},{"name":"c","number":3}]')
    (data / "README.md").write_text("not a table")
    (data / ".hidden.csv").write_text("a\n1\n")
    (data / "folder.csv").mkdir()
    database = Database.open(None, [data])
    names = ["Q", "c", "file", "j", "l", "p", "stream", "t"]
    assert database.columns() == {name: {"name": "VARCHAR", "number": "BIGINT"} for name in names}
    for name in names:
        assert rows(database, f"FROM {name} ORDER BY number") == [("a", 1), (None, 2), ("c", 3)]
        assert rows(database, f"SELECT count(*) FROM {name} x JOIN {name} y ON x.number >= y.number") == [
            (6,)
        ]
    database.close()


def test_names_are_made_fit_for_sql(data: Path) -> None:
    for name in ("2024 sales-EU.csv", "straße.csv", "v1.2.csv.gz"):
        if name.endswith("gz"):
            pa.CompressedOutputStream(str(data / name), "gzip").write(b"a\n1\n")
        else:
            (data / name).write_text("a\n1\n")
    single = data / "x.parquet"
    pq.write_table(TABLE, single)
    database = Database.open(None, [data, single])
    assert sorted(database.columns()) == ["_2024_sales_EU", "straße", "v1_2", "x"]
    database.close()


def test_two_files_of_one_name(data: Path) -> None:
    (data / "a b.csv").write_text("a\n1\n")
    pq.write_table(TABLE, data / "A-b.parquet")
    message = refused(None, data)
    assert message == f"data files {data}/A-b.parquet and {data}/a b.csv would both become the table a_b"
    (data / "a b.csv").rename(data / "covey_queries.csv")
    assert "reserved" in refused(None, data)


def test_a_file_database_follows_its_data_files(tmp_path: Path, data: Path) -> None:
    path, file = tmp_path / "covey.duckdb", data / "t.csv"
    file.write_text("a\nold\n")
    for content, expected in (("a\nold\n", "old"), ("a,b\nnew,1\n", "new")):
        if file.read_text() != content:
            file.write_text(content)
        database = Database.open(path, [data])
        assert rows(database, "SELECT a FROM t") == [(expected,)]
        rows(database, "CREATE TABLE IF NOT EXISTS own AS SELECT 1 AS x")
        rows(database, "CREATE OR REPLACE VIEW v AS SELECT a FROM t")
        database.close()
    file.unlink()
    pq.write_table(TABLE, data / "u.parquet")
    database = Database.open(path, [data])
    assert database.columns() == {
        "own": {"x": "INTEGER"},
        "t": {"a": "VARCHAR", "b": "BIGINT"},
        "u": {"name": "VARCHAR", "number": "BIGINT"},
        "v": {"a": "VARCHAR"},
    }
    database.close()


def test_an_unchanged_file_is_not_loaded_again(tmp_path: Path, data: Path) -> None:
    path, file = tmp_path / "covey.duckdb", data / "t.csv"
    file.write_text("a\n1\n")
    status = file.stat()
    Database.open(path, [data]).close()
    file.write_text("a\n2\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    database = Database.open(path, [data])
    assert rows(database, "FROM t") == [(1,)]
    database.close()
    os.utime(file)
    database = Database.open(path, [data])
    assert rows(database, "FROM t") == [(2,)]
    database.close()


@pytest.mark.parametrize("own", ["CREATE TABLE T (x INTEGER)", "CREATE VIEW T AS SELECT 1 AS x"])
def test_a_users_own_table_is_never_replaced(tmp_path: Path, data: Path, own: str) -> None:
    path, file = tmp_path / "covey.duckdb", data / "t.csv"
    file.write_text("a\n1\n")
    database = Database.open(path)
    rows(database, own)
    database.close()
    message = refused(path, data)
    assert message == f"data file {file} would become the table t, but the database has its own of that name"
    database = Database.open(path)
    assert database.columns() == {"T": {"x": "INTEGER"}}
    database.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bad.parquet", b"hello"),
        ("bad.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"),
        ("bad.csv", b"a,b\n1,2\n\xff\xfe,3\n"),
        ("ragged.csv", b"id,name,remark\n1,a,b\n2,c\n3,d,e,f\n"),
        ("ragged.tsv", b"\xef\xbb\xbfid\tfull name\tremark\n1\ta\tb\n2\tc\n3\td\te\tf\n"),
        ("bad.json", b"{nope"),
        ("bad.arrow", b"ARROW1\0\0 and no more"),
        ("bad.feather", b"FEA1" + b"\0" * 50),
        ("empty.csv", b""),
        ("empty.parquet", b""),
    ],
)
def test_an_unreadable_file_is_named_in_one_line(data: Path, name: str, content: bytes) -> None:
    (data / name).write_bytes(content)
    message = refused(None, data)
    assert message.startswith(f"cannot read data file {data / name}: ")
    assert not re.search(r"LINE 1|CREATE|Error:", message)


def test_what_is_wrong_with_a_csv_file_is_said(data: Path) -> None:
    file = data / "t.csv"
    file.write_bytes(b"id;name;remark\n1;a;b\n2;c\n3;d;e;f\n")
    said = refused(None, data)
    assert "Line: 3" in said
    assert "Expected Number of Columns: 3 Found: 2" in said
    file.write_bytes("id,name\n1,Müller\n".encode("latin-1"))
    assert refused(None, data).endswith("not utf-8 encoded: convert it first, as by iconv -f LATIN1 -t UTF-8")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"a,b"\nx\ny\n', ["a,b"]),
        ("note, if any\nhello\nbye\n", ["note, if any"]),
        ("a\n1\n2\n", ["a"]),
        ("Sales of May\nid,name,remark\n1,a,b\n2,c,d\n", ["id", "name", "remark"]),
        ("# Sales, of May\nid,name,remark\n1,a,b\n2,c,d\n", ["id", "name", "remark"]),
        ('id;remark\n1;"b\nc;d"\n2;c\n', ["id", "remark"]),
    ],
)
def test_what_a_csv_file_may_be(data: Path, text: str, columns: list[str]) -> None:
    (data / "t.csv").write_text(text)
    with closing(Database.open(None, [data])) as database, closing(database.cursor()) as cursor:
        found = cursor.execute("FROM t")
        assert [name for name, *_ in found.description or []] == columns
        assert len(found.fetchall()) == 2


def test_data_that_is_not_there(tmp_path: Path, data: Path) -> None:
    assert refused(None, tmp_path / "absent") == f"no data folder at {tmp_path / 'absent'}"
    assert refused(None, data).startswith(f"no data files in {data}: expected some of .arrow, .csv")
    (data / "x.txt").write_text("x")
    assert refused(None, data / "x.txt").startswith(f"data file {data / 'x.txt'} is of no known kind")


def test_a_failed_load_leaves_the_database_free(tmp_path: Path, data: Path) -> None:
    (data / "bad.csv").write_bytes(b"")
    refused(tmp_path / "covey.duckdb", data)
    Database.open(tmp_path / "covey.duckdb").close()
