"""Every statement of the .slt files, through a server in each dialect, optimized and as written, and on the oracle.

`python tests/sql/test_slt.py FILE…` writes the oracle's results into the files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hash_server import Host, Run, client, oracle, run_all
from support.slt import Record, complaint, first_of_each_label, parse, written

FILES = sorted(Path(__file__).parent.glob("*.slt"))
ORACLE = frozenset({"oracle", "duckdb"})
DIALECTS = ("duckdb", "snowflake", "bigquery")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


def check(records: list[Record], names: frozenset[str], run: Run) -> None:
    labelled = first_of_each_label(records)
    wrong = [complaint(record, outcome, labelled) for record, outcome in run_all(records, names, run)]
    found = [text for text in wrong if text is not None]
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_server(path: Path, dialect: str, optimizer: str, host: Host, tmp_path: Path) -> None:
    records = parse(path.read_text("utf-8"))
    with host.connect(tmp_path, dialect, optimizer) as connection:
        check(records, frozenset({"covey", dialect, f"optimizer-{optimizer}"}), client(connection))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_oracle(path: Path) -> None:
    records = [record for record in parse(path.read_text("utf-8")) if record.kind != "error"]
    check(records, ORACLE, oracle())


def test_there_are_enough_queries() -> None:
    records = [record for path in FILES for record in parse(path.read_text("utf-8"))]
    assert sum(record.kind == "query" for record in records) >= 250


def refresh(path: Path) -> None:
    """Write the oracle's results into a file; where it runs nothing, those of the query with the same label."""
    lines = path.read_text("utf-8").split("\n")
    records = [record for record in parse("\n".join(lines)) if record.kind != "error"]
    results: dict[int, tuple[str, ...]] = {}
    for record, outcome in run_all(records, ORACLE, oracle()):
        try:
            assert outcome.error is None, outcome.error
            if outcome.rows is not None and record.kind == "query":
                results[record.line] = written(outcome.rows, record)
        except AssertionError as wrong:
            print(f"{path.name}:{record.line}: {wrong}", file=sys.stderr)
    labelled = first_of_each_label(records)
    for record in reversed(records):
        first = labelled.get(record.label, record)
        found = results.get(record.line, results.get(first.line))
        if record.kind == "query" and found is not None:
            lines[slice(*record.result)] = found
    path.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        refresh(Path(argument))
