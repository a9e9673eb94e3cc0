"""Every malformed statement gets one line that names the construct and its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from covey_planner.errors import PlanError, Unsupported
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog

TEXT = (Path(__file__).parent / "malformed.sql").read_text(encoding="utf-8")
CASES = [part.strip().rsplit("\n-> ", 1) for part in TEXT.split("\n\n") if not part.startswith("--")]


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_message(catalog: MemoryCatalog, sql: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(sql, catalog, PlanOptions(DOCUMENT_FIRST))
    assert f"{type(caught.value).__name__}: {caught.value}" == expected
    assert "\n" not in str(caught.value)


def test_most_messages_have_a_place() -> None:
    assert len(CASES) >= 70
    assert sum("(line " in expected for _, expected in CASES) >= len(CASES) - 2


def test_short_form_of_the_message_has_no_place(catalog: MemoryCatalog) -> None:
    with pytest.raises(Unsupported) as caught:
        plan("SELECT\n  AI_AGG(body, 'x') FROM tickets", catalog, PlanOptions(DOCUMENT_FIRST))
    assert caught.value.position == (2, 3)
    assert "line" not in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'AI_FILTER(x)'",
        "SELECT 1 -- AI_FILTER(x)\n",
        'SELECT "AI_FILTER"(x) FROM t',
        "SELECT x'AB', ?::int",
        "SELECT this is no SQL at all (",
        "SELECT ai_filter FROM t",
        "SELECT s.ai_filter(1)",
        "INSERT INTO t VALUES (1)",
        "",
        "SELECT AI_WHATEVER(x)",
    ],
)
def test_text_without_a_call_passes_verbatim(catalog: MemoryCatalog, sql: str) -> None:
    planned = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST))
    assert planned.kind == "plain"
    assert planned.physical.steps == ()
    assert planned.physical.residual == planned.describe_sql == sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND " + "(" * 3000 + "true" + ")" * 3000,
        "SELECT AI_FILTER('a?', " + "lower(" * 3000 + "body" + ")" * 3000 + ") FROM tickets",
        "SELECT id FROM tickets WHERE " + "NOT " * 3000 + "AI_FILTER('a?', body)",
        "SELECT id FROM "
        + "(SELECT * FROM " * 3000
        + "tickets"
        + ")" * 3000
        + " WHERE AI_FILTER('a?', body)",
    ],
)
def test_a_statement_nested_too_deeply_is_refused(catalog: MemoryCatalog, sql: str) -> None:
    with pytest.raises(Unsupported, match="nested too deeply"):
        plan(sql, catalog, PlanOptions(DOCUMENT_FIRST))
