"""Records of the .slt format, and what is said where a statement does something else."""

from __future__ import annotations

import pytest
from support.slt import Outcome, complaint, first_of_each_label, parse, written

TEXT = """\
# A comment

statement ok
CREATE TABLE t (a INTEGER,
    b VARCHAR)

skipif oracle
onlyif snowflake
bind [1, null]
query IT rowsort all
SELECT a, b FROM t WHERE a > ?
----
1\tNULL
2\t(empty)

statement error no table .x.
SELECT * FROM x

query IT subset all
SELECT a, b FROM t LIMIT 1
----
1
"""


def test_records() -> None:
    ok, query, error, subset = parse(TEXT)
    assert (ok.line, ok.kind, ok.sql) == (3, "ok", "CREATE TABLE t (a INTEGER,\n    b VARCHAR)")
    assert (query.types, query.mode, query.label, query.values) == ("IT", "rowsort", "all", (1, None))
    assert query.expected == ("1\tNULL", "2\t(empty)")
    assert TEXT.split("\n")[slice(*query.result)] == list(query.expected)
    assert query.concerns(frozenset({"covey", "snowflake"}))
    assert not query.concerns(frozenset({"covey", "duckdb"}))
    assert not query.concerns(frozenset({"oracle", "snowflake"}))
    assert (error.kind, error.expected) == ("error", ("no table .x.",))
    assert (subset.mode, subset.expected) == ("subset", ("1",))


@pytest.mark.parametrize(
    "text",
    ["select 1", "query\nSELECT 1\n----\n1", "query X\nSELECT 1\n----", "query I\nSELECT 1", "skipif x"],
)
def test_malformed(text: str) -> None:
    with pytest.raises(ValueError, match="line "):
        parse(text)


def test_what_is_wrong_is_said() -> None:
    records = parse(TEXT)
    ok, query, error, subset = records
    labelled = first_of_each_label(records)

    def said(record, outcome: Outcome) -> str | None:
        return complaint(record, outcome, labelled)

    assert said(ok, Outcome(())) is None
    assert "failed: no" in str(said(ok, Outcome(error="no")))
    assert said(query, Outcome(((2, ""), (1, None)))) is None
    assert "gave" in str(said(query, Outcome(((2, ""), (1, "")))))
    assert "gave" in str(said(query, Outcome(((1, None),))))
    assert "not of type I" in str(said(query, Outcome((("2", ""), (1, None)))))
    assert "columns" in str(said(query, Outcome(((2,), (1,)))))
    assert said(error, Outcome(error="there is no table 'x'")) is None
    assert "not 'no table" in str(said(error, Outcome(error="nothing")))
    assert "did not fail" in str(said(error, Outcome(())))
    assert said(subset, Outcome(((2, ""),))) is None
    assert "gave" in str(said(subset, Outcome(((2, ""), (1, None)))))
    assert "no row of line 7" in str(said(subset, Outcome(((3, ""),))))


def test_values() -> None:
    (record,) = parse("query TRR\nSELECT\n----\n")
    rows = [("a\tb\n", 0.1 + 0.2, -0.0), (True, 1e20, None)]
    assert written(rows, record) == ("a\\tb\\n\t0.3\t0", "true\t1e+20\tNULL")
