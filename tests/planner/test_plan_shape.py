"""What a plan asks, and in which order: shared documents, short circuits, guards, domains without cross
products.
"""

from __future__ import annotations

import re
import time

import duckdb
import pytest
from covey_planner.language.functions import AGGREGATES
from covey_planner.physical import AnchorText, PhysicalPlan
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, QUESTION_FIRST, MemoryCatalog, Reference, run_both

OPTIONS = PlanOptions(DOCUMENT_FIRST)


def steps(catalog: MemoryCatalog, sql: str) -> PhysicalPlan:
    return plan(sql, catalog, OPTIONS).physical


def guards(sql: str) -> list[str]:
    """The subqueries that say whether what is not linked has a row: nothing is asked where it has none."""
    return re.findall(r"\(SELECT 1 FROM [^()]*(?:\([^()]*\))? LIMIT 1\)", sql)


def read_for(sql: str) -> str:
    """A domain's query without them."""
    for guard in guards(sql):
        sql = sql.replace(guard, "")
    return sql


def test_two_filters_on_a_document_are_one_step(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > 3 AND AI_FILTER('b?', body)"
    (step,) = steps(catalog, sql).steps
    first, second = step.questions
    assert AnchorText(0) in step.prefix
    assert (first.on_true, first.on_false, first.keep) == (1, -1, "true")
    assert (second.on_true, second.on_false, second.keep) == (-1, -1, "true")
    assert "id > 3" in step.anchors.sql
    assert (step.anchors.arguments[0].table, step.anchors.arguments[0].column) == ("tickets", "body")


def test_questions_on_a_document_in_the_select_list_are_one_step(catalog: MemoryCatalog) -> None:
    questions = "AI_FILTER('a?', body), AI_FILTER('b?', body), AI_FILTER('c?', note), AI_FILTER('d?', body)"
    shared, alone = steps(catalog, f"SELECT id, {questions} FROM tickets").steps
    assert [(q.call, q.on_true, q.on_false, q.keep) for q in shared.questions] == [
        ("AI_FILTER('a?', body)", 1, 1, "all"),
        ("AI_FILTER('b?', body)", 2, 2, "all"),
        ("AI_FILTER('d?', body)", -1, -1, "all"),
    ]
    assert len(alone.questions) == 1


def test_a_value_of_the_rows_that_pass_is_asked_while_the_document_is_there(catalog: MemoryCatalog) -> None:
    sql = (
        "SELECT id, AI_FILTER('c?', body), AI_FILTER('d?', body), AI_FILTER('a?', body) FROM tickets"
        " WHERE AI_FILTER('a?', body) AND NOT AI_FILTER('b?', body) AND id > 3"
    )
    (step,) = steps(catalog, sql).steps
    assert [(q.call, q.on_true, q.on_false) for q in step.questions] == [
        ("AI_FILTER('a?', body)", 1, -1),
        ("AI_FILTER('b?', body)", -1, 2),
        ("AI_FILTER('c?', body)", 3, 3),
        ("AI_FILTER('d?', body)", -1, -1),
    ]


def test_a_value_about_other_documents_waits_for_the_filter(catalog: MemoryCatalog) -> None:
    sql = "SELECT AI_FILTER('b?', note) FROM tickets WHERE AI_FILTER('a?', body)"
    first, second = steps(catalog, sql).steps
    assert first.questions[0].answers in second.anchors.sql


def test_a_value_that_depends_on_another_follows_it(catalog: MemoryCatalog) -> None:
    sql = "SELECT CASE WHEN AI_FILTER('a?', body) THEN AI_FILTER('b?', body) END, AI_FILTER('c?', body) FROM tickets"
    (step,) = steps(catalog, sql).steps
    assert [(q.call, q.on_true, q.on_false, q.on_null) for q in step.questions] == [
        ("AI_FILTER('a?', body)", 1, 2, 2),
        ("AI_FILTER('b?', body)", 2, 2, 2),
        ("AI_FILTER('c?', body)", -1, -1, -1),
    ]


def test_a_value_that_depends_on_other_documents_waits_for_them(catalog: MemoryCatalog) -> None:
    sql = "SELECT CASE WHEN AI_FILTER('a?', body) THEN AI_FILTER('b?', note) END, AI_FILTER('c?', body) FROM tickets"
    first, second = steps(catalog, sql).steps
    assert len(first.questions) == 2
    assert len(second.questions) == 1
    assert first.questions[0].answers in second.anchors.sql


def test_question_first_shares_the_head_only(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND AI_FILTER('b?', body)"
    (step,) = plan(sql, catalog, PlanOptions(QUESTION_FIRST)).physical.steps
    assert AnchorText(0) not in step.prefix
    assert all(AnchorText(0) in question.suffix for question in step.questions)


def test_or_asks_the_second_only_where_the_first_is_false(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE AI_FILTER('a?', body) OR NOT AI_FILTER('b?', body)"
    (step,) = steps(catalog, sql).steps
    first, second = step.questions
    assert (first.on_true, first.on_false) == (-1, 1)
    assert (first.keep, second.keep) == ("true", "all")


def test_different_documents_are_asked_one_after_another(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND AI_FILTER('b?', note)"
    one, two = steps(catalog, sql).steps
    assert one.questions[0].answers in two.anchors.sql


def test_cheap_alternatives_guard_the_model(database: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT id FROM tickets WHERE id < 30 OR AI_FILTER('a?', body || id)"
    _, _, _, asked = run_both(database, sql)
    assert len(asked) == 5  # ids 30 to 35, one body of them NULL


def test_unlinked_sides_have_independent_domains(catalog: MemoryCatalog) -> None:
    sql = (
        "SELECT t.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))"
        " WHERE t.id > 3 AND p.cat = 'a'"
    )
    (step,) = steps(catalog, sql).steps
    assert step.pairs is None
    assert step.partners is not None
    assert "products" not in read_for(step.anchors.sql)
    assert "tickets" not in read_for(step.partners.sql)
    assert guards(step.anchors.sql) == ["(SELECT 1 FROM products AS p WHERE (p.cat = 'a') LIMIT 1)"]
    assert guards(step.partners.sql) == ["(SELECT 1 FROM tickets AS t WHERE (t.id > 3) LIMIT 1)"]
    assert "t.id > 3" in step.anchors.sql
    assert "p.cat = 'a'" in step.partners.sql


def test_linked_sides_are_asked_about_linked_pairs(database: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT t.id FROM tickets t JOIN products p ON t.product = p.id AND"
        " AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))"
    )
    planned, _, _, asked = run_both(database, sql)
    assert planned.physical.steps[0].pairs is not None
    count = (
        "SELECT count(DISTINCT (t.body, p.description)) FROM tickets t JOIN products p ON t.product = p.id"
    )
    row = database.execute(f"{count} WHERE t.body IS NOT NULL AND p.description IS NOT NULL").fetchone()
    assert row == (len(asked),)


def test_a_filter_reduces_the_join_after_it(catalog: MemoryCatalog) -> None:
    sql = (
        "SELECT t.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))"
        " WHERE AI_FILTER('a?', t.note) AND AI_FILTER('b?', p.name)"
    )
    note, name, pair = steps(catalog, sql).steps
    assert pair.partners is not None
    assert note.questions[0].answers in pair.anchors.sql
    assert name.questions[0].answers in pair.partners.sql


def test_only_what_is_linked_is_read(catalog: MemoryCatalog) -> None:
    sql = (
        "SELECT count(*) FROM tickets t, defects d, products p WHERE AI_FILTER('a?', t.body)"
        " AND d.product = t.product AND p.cat = 'a'"
    )
    (step,) = steps(catalog, sql).steps
    assert "defects" in read_for(step.anchors.sql)
    assert "products" not in read_for(step.anchors.sql)
    assert len(guards(step.anchors.sql)) == 1


def test_the_same_question_is_asked_once_for_a_value(database: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT id, AI_FILTER('a?', body) FROM tickets WHERE AI_FILTER('a?', body) OR id < 5"
        " UNION ALL SELECT id, AI_FILTER('a?', body) FROM tickets ORDER BY 1"
    )
    _, _, _, asked = run_both(database, sql)
    row = database.execute("SELECT count(DISTINCT body) FROM tickets").fetchone()
    assert len(set(asked)) == len(asked)
    assert row == (len(asked),)


def test_required_answers_are_not_asked_again(catalog: MemoryCatalog) -> None:
    sql = "SELECT id, AI_FILTER('a?', body) FROM tickets WHERE AI_FILTER('a?', body)"
    assert len(steps(catalog, sql).steps) == 1


def test_an_exists_reduces_what_is_asked(database: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT p.id FROM products p WHERE p.cat = 'a' AND EXISTS (SELECT 1 FROM defects d"
        " WHERE d.product = p.id AND AI_FILTER(PROMPT('{0} is {1}', p.description, d.title)))"
    )
    _, _, _, asked = run_both(database, sql)
    text = (
        "SELECT count(DISTINCT (p.description, d.title)) FROM products p JOIN defects d ON d.product = p.id"
        " WHERE p.cat = 'a' AND p.description IS NOT NULL"
    )
    assert database.execute(text).fetchone() == (len(asked),)


def test_a_call_stays_above_a_limit(database: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT id FROM (SELECT * FROM tickets ORDER BY id LIMIT 4) WHERE AI_FILTER('a?', body)"
    _, _, _, asked = run_both(database, sql)
    assert len(asked) <= 4


def test_an_anchor_can_be_pinned(catalog: MemoryCatalog) -> None:
    call = "AI_FILTER(PROMPT('{0} is {1}', t.body, p.description), {'anchor': 'p'})"
    (step,) = steps(catalog, f"SELECT t.id FROM tickets t, products p WHERE {call}").steps
    assert step.anchors.arguments[0].expression == "p.description"
    call = call.replace("'p'", "0")
    (step,) = steps(catalog, f"SELECT t.id FROM tickets t, products p WHERE {call}").steps
    assert step.anchors.arguments[0].expression == "t.body"


@pytest.mark.parametrize(
    "call",
    [
        "AI_FILTER('Is it odd?', body)",
        "ai_filter ( 'Is it odd?' , body )",
        "AI.IF(('Is it odd?', body))",
        "AI . IF (('Is it odd?', body))",
        "AI.IF(prompt => ('Is it odd?', body))",
        "AI.IF(PROMPT('Is it odd? {0}', body))",
        "AI_FILTER(PROMPT('Is it odd? {0}', body), {'selectivity': 0.3})",
        "AI_FILTER(PROMPT('Is it odd?\n{0}', tickets.body))",
    ],
)
def test_all_forms_ask_the_same(catalog: MemoryCatalog, call: str) -> None:
    expected = steps(catalog, "SELECT id FROM tickets WHERE AI_FILTER('Is it odd?', body)").steps[0]
    (step,) = steps(catalog, f"SELECT id FROM tickets WHERE {call}").steps
    assert (step.prefix, step.questions[0].suffix) == (expected.prefix, expected.questions[0].suffix)
    assert step.anchors.sql == expected.anchors.sql


def test_output_names_are_the_users(catalog: MemoryCatalog, database: duckdb.DuckDBPyConnection) -> None:
    items = "id, count(*) OVER (), AI_FILTER('a?',  body), *, id + 1, AI_FILTER('b?', body) OR id>3"
    planned = plan(f"SELECT {items} FROM tickets", catalog, OPTIONS)
    names, _ = Reference(database).run(planned.physical)
    assert names[:3] == ["id", "count() OVER ()", "AI_FILTER('a?',  body)"]
    assert names[-2:] == ["(id + 1)", "AI_FILTER('b?', body) OR id>3"]
    described = [name for name, _ in catalog.describe(planned.describe_sql)]
    assert names == described == [name for name, _ in planned.columns]


def test_explain_is_text_and_runs_nothing(catalog: MemoryCatalog) -> None:
    planned = plan(
        "EXPLAIN SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND note IS NULL", catalog, OPTIONS
    )
    assert planned.explain
    assert planned.text.splitlines() == [
        "profile: document_first full",
        "result",
        "└ step 1: ask about body",
        "    AI_FILTER('a?', body)",
    ]


def test_tables_are_named_as_stored(catalog: MemoryCatalog) -> None:
    sql = "WITH products AS (SELECT 1) SELECT 1 FROM Tickets, open_tickets, products WHERE"
    assert plan(f"{sql} AI_FILTER('a?', body)", catalog, OPTIONS).tables == ("tickets", "open_tickets")


def test_aggregate_names_are_duckdbs(database: duckdb.DuckDBPyConnection) -> None:
    rows = database.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
    ).fetchall()
    assert {row[0] for row in rows} == AGGREGATES


def test_planning_is_quick(catalog: MemoryCatalog) -> None:
    sql = (
        "SELECT p.cat, count(*) AS n FROM tickets t JOIN products p ON t.product = p.id"
        " AND AI_FILTER(PROMPT('{0} is about {1}', t.body, p.description))"
        " WHERE AI_FILTER('a?', t.body) AND t.id > 3 GROUP BY p.cat ORDER BY n DESC LIMIT 5"
    )
    plan(sql, catalog, OPTIONS)
    spent = []
    for _ in range(5):
        begun = time.thread_time()
        plan(sql, catalog, OPTIONS)
        spent.append(time.thread_time() - begun)
    assert min(spent) < 0.02
    begun = time.thread_time()
    for _ in range(1000):
        plan("SELECT 1", catalog, OPTIONS)
    assert time.thread_time() - begun < 0.2
