"""Random queries, views and changes give the same rows on plain DuckDB and on the server, in any dialect, optimized or
as written.

COVEY_RANDOM_QUERIES says how many are tried (`COVEY_RANDOM_QUERIES=5000 pytest tests/sql/test_random_queries.py`), and
COVEY_RANDOM_FORMS=all that rarer forms are among them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hash_model import HashEngine
from support.hash_server import Host, Run, client, oracle
from support.random_expressions import RARE
from support.random_parameters import bound
from support.random_spelling import DIALECTS
from support.random_sql import Drawn, drawn
from support.random_tables import TABLES
from support.slt import Outcome, Record

EXAMPLES = int(os.environ.get("COVEY_RANDOM_QUERIES", "250"))

ASIDE = (
    *["", "bound"] * 3,
    "EXPLAIN",
    "EXPLAIN VERBOSE",
    "EXPLAIN (FORMAT json)",
    "EXPLAIN (VERBOSE, FORMAT json)",
    "EXPLAIN ANALYZE",
)
"""What else is tried with a statement among rarer forms."""

REFUSED = ("not supported", "give each side an argument of its own", "give one of them another alias")
"""What the planner says of statements that it does not plan."""


@dataclass
class Sides:
    """All ways to run statements. runs: by dialect and whether the optimizer is on.

    tried, refused: how many there were, and what the planner refused.
    """

    oracle: Run
    runs: dict[tuple[str, bool], Run]
    engine: HashEngine
    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def compare(self, statements: Drawn, dialect: str, optimize: bool, form: str) -> None:
        """Run statements on the oracle and in a dialect on the server. form: an EXPLAIN that is tried as well, or
        "bound" for parameters in the last statement.
        """
        self.tried += 1
        expected = _last(self.oracle, statements.spelled("oracle"))
        if expected.rows is None:
            # What DuckDB refuses, such as a correlation that it cannot undo, the server may know how to do.
            return
        dialect = dialect if dialect in statements.dialects else DIALECTS[0]
        texts = statements.spelled(dialect)
        shown = f"{dialect}, {'optimized' if optimize else 'as written'}:\n" + ";\n".join(texts)
        before = len(self.engine.orders)
        self.engine.sent.clear()
        run = self.runs[dialect, optimize]
        found = _last(run, texts, bind=form == "bound" and dialect == "duckdb")
        if found.error is None:
            assert _counted(found) == _counted(expected), shown
            # A score, a label and a truth value are several calls, and have the same prompt.
            # Each of several changes asks for itself.
            several = len(texts) > 3
            if not several and not any(
                word in text for text in texts for word in ("SCORE", "CLASSIFY", "SENTIMENT")
            ):
                again = [sent.asked for sent, times in Counter(self.engine.sent).items() if times > 1]
                assert not again, f"asked twice: {again}\n{shown}"
            if "EXPLAIN" in form:
                self.explain(run, f"{form} {texts[-1]}")
            return
        assert any(words in found.error for words in REFUSED), f"{shown}\n{found.error}"
        assert len(self.engine.orders) == before, f"{shown}\nasked, and then refused: {found.error}"
        self.refused[found.error.partition("]")[2].partition("(line")[0].strip()] += 1

    def explain(self, run: Run, sql: str) -> None:
        """An EXPLAIN asks nothing, whatever it is about, and ANALYZE does not fail where the statement does not."""
        before = len(self.engine.orders)
        found = run(Record(0, "query", sql))
        assert found.error is None, f"{sql}\n{found.error}"
        assert "ANALYZE" in sql or len(self.engine.orders) == before, sql


def _last(run: Run, statements: Sequence[str], bind: bool = False) -> Outcome:
    """What the last statement gives, or the first that fails. bind: with parameters for what the last one compares."""
    for statement in statements[:-1]:
        found = run(Record(0, "ok", statement))
        if found.error is not None:
            return found
    sql, values = bound(statements[-1]) if bind else (statements[-1], ())
    return run(Record(0, "query", sql, values=values or None))


def _counted(outcome: Outcome) -> Counter[tuple[str, ...]]:
    """How often each row is there. Snowflake's whole numbers are decimals."""
    assert outcome.rows is not None
    return Counter(
        tuple(repr(int(value) if isinstance(value, Decimal) else value) for value in row)
        for row in outcome.rows
    )


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    host, engine = Host(), HashEngine()
    with ExitStack() as stack:
        stack.callback(host.close)
        uri = stack.enter_context(host.serve(tmp_path_factory.mktemp("tokens"), engine))
        runs: dict[tuple[str, bool], Run] = {}
        for dialect in DIALECTS:
            for optimize in (True, False):
                run = client(stack.enter_context(dbapi.connect(uri, autocommit=True)))
                for name, value in (("dialect", dialect), ("optimizer", "on" if optimize else "off")):
                    assert run(Record(0, "ok", f"SET ai_{name} = '{value}'")).error is None
                runs[dialect, optimize] = run
        all_sides = Sides(oracle(), runs, engine)
        for text in TABLES.strip().split(";\n"):
            for run in (all_sides.oracle, runs["duckdb", True]):
                assert run(Record(0, "ok", text.rstrip(";"))).error is None
        yield all_sides
    print(f"{all_sides.tried} queries, refused: {dict(all_sides.refused)}")
    assert sum(all_sides.refused.values()) <= all_sides.tried / 5, all_sides.refused


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="COVEY_RANDOM_QUERIES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    statements=drawn(*["query"] * 8, "change", "view", *(["wide"] * 5 if RARE else [])),
    dialect=st.sampled_from(DIALECTS),
    optimize=st.sampled_from((True, True, False)),
    form=st.sampled_from(ASIDE) if RARE else st.just(""),
)
@pytest.mark.timeout(max(900, 4 * EXAMPLES))
def test_same_rows(sides: Sides, statements: Drawn, dialect: str, optimize: bool, form: str) -> None:
    sides.compare(statements, dialect, optimize, form)
