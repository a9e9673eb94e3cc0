"""Orders and anchors of whole statements, from statistics written down."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest
from covey_planner.cost.statistics import Count, KeyOverlap, Pinned, TokenCount
from covey_planner.ordering import arrange
from covey_planner.physical import AskStep
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, Dice, MemoryCatalog, words


def texts(rows: float, mean: float) -> TokenCount:
    return TokenCount(rows, rows, rows * mean, rows * mean, mean, exact=True)


LONG = Pinned(
    tables={"tickets": 1_000, "products": 50, "defects": 400},
    texts={
        ("tickets", "body"): texts(1_000, 300),
        ("tickets", "note"): texts(1_000, 40),
        ("products", "name"): texts(50, 4),
        ("products", "description"): texts(50, 900),
        ("defects", "title"): texts(400, 12),
    },
    overlaps={(("tickets", "product"), ("products", "id")): KeyOverlap(50, 50, 50, exact=True)},
)
OPTIONS = PlanOptions(DOCUMENT_FIRST, encode=words)
FIRST = replace(OPTIONS, anchor="first")


@pytest.fixture
def asked(catalog: MemoryCatalog):
    def steps(sql: str, options: PlanOptions = OPTIONS) -> list[AskStep]:
        return list(plan(sql, catalog, options, (), LONG).physical.steps)

    return steps


def calls(steps: list[AskStep]) -> list[list[str]]:
    """The questions' first words, by step."""
    return [[question.call.split("'")[1].split()[0] for question in step.questions] for step in steps]


def ask(name: str, column: str, selectivity: float) -> str:
    return f"AI_FILTER('{name} ?', {column}, {{'selectivity': {selectivity}}})"


def pair(name: str, one: str, other: str, selectivity: float, more: str = "") -> str:
    return f"AI_FILTER(PROMPT('{name} {{0}} {{1}}', {one}, {other}), {{'selectivity': {selectivity}{more}}})"


def test_the_filter_that_leaves_the_least_comes_first(asked) -> None:
    sql = f"SELECT id FROM tickets WHERE {ask('most', 'body', 0.9)} AND {ask('few', 'body', 0.05)}"
    assert calls(asked(sql)) == [["few", "most"]]


def test_a_short_text_comes_before_a_long_one(asked) -> None:
    sql = f"SELECT id FROM tickets WHERE {ask('body', 'body', 0.3)} AND {ask('note', 'note', 0.3)}"
    assert calls(asked(sql)) == [["note"], ["body"]]
    assert calls(asked(sql, replace(OPTIONS, encode=None))) == [["body"], ["note"]]


def test_a_join_that_leaves_little_comes_before_a_filter_that_leaves_most(asked) -> None:
    join, filter_ = pair("join", "t.body", "p.name", 0.001), ask("filter", "t.body", 0.95)
    sql = f"SELECT t.id FROM tickets t JOIN products p ON {join} WHERE {filter_}"
    assert calls(asked(sql)) == [["join"], ["filter"]]
    sql = sql.replace("0.95", "0.2")
    assert calls(asked(sql)) == [["filter"], ["join"]]


def test_an_ordinary_join_limits_the_pairs(asked) -> None:
    """With the equality there are few pairs: then the join costs less than the texts of a filter."""
    join, filter_ = pair("join", "t.note", "p.name", 0.02), ask("filter", "t.body", 0.3)
    sql = f"SELECT t.id FROM tickets t, products p WHERE {filter_} AND {join}"
    assert calls(asked(sql)) == [["filter"], ["join"]]
    assert calls(asked(f"{sql} AND t.product = p.id")) == [["join"], ["filter"]]


def test_the_longer_side_is_the_anchor(asked, catalog: MemoryCatalog) -> None:
    sql = f"SELECT t.id FROM tickets t JOIN products p ON {pair('join', 't.body', 'p.description', 0.5)}"
    (step,) = asked(sql)
    assert step.anchors.arguments[0].expression == "p.description"
    assert step.chosen
    shown = plan(f"EXPLAIN {sql}", catalog, OPTIONS, (), LONG).text
    assert "every pair of p.description (anchor), t.body" in shown
    assert "anchor: chosen by cost" in shown


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pinned_anchor_stays(asked, catalog: MemoryCatalog, pinned: bool) -> None:
    more = ", 'anchor': 't'" if pinned else ""
    join = pair("join", "t.body", "p.description", 0.5, more)
    sql = f"SELECT t.id FROM tickets t JOIN products p ON {join}"
    options = OPTIONS if pinned else FIRST
    (step,) = asked(sql, options)
    assert step.anchors.arguments[0].expression == "t.body"
    assert not step.chosen
    assert "by cost" not in plan(f"EXPLAIN {sql}", catalog, options, (), LONG).text


def test_one_question_has_one_anchor_at_all_places(asked) -> None:
    join = pair("join", "t.body", "p.description", 0.5)
    sql = f"SELECT t.id, {join} FROM tickets t JOIN products p ON t.product = p.id WHERE {join} OR t.id = 3"
    sides = {step.anchors.arguments[0].expression for step in asked(sql)}
    assert sides == {"p.description"}


def test_a_value_about_pairs_has_the_cheaper_anchor(asked) -> None:
    join = pair("join", "t.body", "p.description", 0.5)
    (step,) = asked(f"SELECT t.id, {join} FROM tickets t JOIN products p ON t.product = p.id")
    assert (step.anchors.arguments[0].expression, step.chosen) == ("p.description", True)


def test_what_exists_for_a_row_ends_early_from_its_side(asked) -> None:
    join = pair("join", "p.description", "t.body", 0.2)
    (step,) = asked(f"SELECT id FROM tickets t WHERE EXISTS (SELECT 1 FROM products p WHERE {join})")
    anchor = step.anchors.arguments[0].expression
    assert step.exists == (anchor == "t.body")
    (step,) = asked(
        f"SELECT id FROM tickets t WHERE EXISTS (SELECT 1 FROM products p WHERE {join.replace('0.2', '0.9')})"
    )
    assert step.anchors.arguments[0].expression == "t.body"
    assert step.exists


def test_a_filter_in_exists_leaves_the_join_its_early_end(asked) -> None:
    inner = f"{pair('join', 't.body', 'p.description', 0.4)} AND {ask('filter', 'p.description', 0.5)}"
    steps = asked(f"SELECT id FROM tickets t WHERE EXISTS (SELECT 1 FROM products p WHERE {inner})")
    assert calls(steps) == [["filter"], ["join"]]
    assert steps[-1].exists
    assert steps[-1].anchors.arguments[0].expression == "t.body"


def test_a_subquery_may_come_before_a_filter(asked) -> None:
    join = pair("join", "t.note", "p.name", 0.0005)
    exists = f"EXISTS (SELECT 1 FROM products p WHERE {join})"
    sql = f"SELECT id FROM tickets t WHERE {ask('filter', 't.body', 0.9)} AND {exists}"
    assert calls(asked(sql)) == [["join"], ["filter"]]


def test_either_question_of_or_may_come_first(asked) -> None:
    sql = f"SELECT id FROM tickets WHERE {ask('rare', 'body', 0.05)} OR {ask('often', 'body', 0.8)}"
    assert calls(asked(sql)) == [["often", "rare"]]
    sql = sql.replace("?'", f"{'so ' * 40}'", 1).replace("0.05", "0.75")
    assert calls(asked(sql)) == [["often", "rare"]]


def test_below_a_limit_the_long_texts_come_last(asked) -> None:
    """All notes are asked about, but only few bodies, whatever is true more often."""
    where = f"{ask('body', 'body', 0.05)} AND {ask('note', 'note', 0.9)}"
    steps = asked(f"SELECT id FROM tickets WHERE {where} LIMIT 3")
    assert calls(steps) == [["note"], ["body"]]
    assert steps[-1].enough == 3
    where = f"{ask('body', 'body', 0.05)} AND {ask('note', 'note', 0.9)} AND {ask('other', 'body', 0.5)}"
    assert calls(asked(f"SELECT id FROM tickets WHERE {where} LIMIT 3")) == [["note"], ["body", "other"]]


def test_below_a_limit_a_join_that_finds_enough_soon_comes_last(asked) -> None:
    where = f"{pair('join', 't.body', 'p.name', 0.5)} AND {ask('filter', 't.body', 0.9)}"
    steps = asked(f"SELECT t.id FROM tickets t, products p WHERE {where} LIMIT 3")
    assert calls(steps) == [["filter"], ["join"]]
    assert steps[-1].enough == 3


def test_a_member_that_cannot_be_counted_is_guessed(catalog: MemoryCatalog) -> None:
    class Refusing(Pinned):
        def matching(self, sql: str) -> Count:
            raise duckdb.BinderException(sql)

    sql = f"SELECT 1 FROM (SELECT body FROM tickets) s WHERE {ask('a', 's.body', 0.5)} AND {ask('b', 's.body', 0.1)}"
    (step,) = plan(sql, catalog, OPTIONS, (), Refusing()).physical.steps
    assert calls([step]) == [["b", "a"]]


def test_a_condition_that_changes_from_call_to_call_is_not_counted_on(asked) -> None:
    where = f"{ask('most', 'body', 0.9)} AND {ask('few', 'body', 0.05)} AND random() < 0.5"
    (step,) = asked(f"SELECT id FROM tickets WHERE {where}")
    assert [question.call.split()[0] for question in step.questions] == ["AI_FILTER('few", "AI_FILTER('most"]
    assert "random" not in step.anchors.sql.lower()


def test_equals_stay_as_written(asked) -> None:
    where = " AND ".join(
        ask(name, column, 0.5) for name, column in zip("abc", ("body", "note", "body"), strict=True)
    )
    sql = f"SELECT id FROM tickets WHERE {ask('x', 'note', 0.5)} AND {ask('y', 'note', 0.5)}"
    assert calls(asked(sql)) == [["x", "y"]]
    assert calls(asked(f"SELECT id FROM tickets WHERE {where}")) == [["b"], ["a", "c"]]


def test_without_statistics_nothing_moves(
    catalog: MemoryCatalog, database: duckdb.DuckDBPyConnection
) -> None:
    sql = f"SELECT id FROM tickets WHERE {ask('most', 'body', 0.9)} AND {ask('few', 'body', 0.05)}"
    assert calls(list(plan(sql, catalog, PlanOptions(DOCUMENT_FIRST)).physical.steps)) == [["most", "few"]]


def test_plans_are_the_same_every_time(catalog: MemoryCatalog) -> None:
    sql = (
        f"SELECT t.id FROM tickets t JOIN products p ON {pair('join', 't.body', 'p.name', 0.1)}"
        f" JOIN defects d ON {pair('other', 'd.title', 't.note', 0.2)} WHERE {ask('filter', 't.body', 0.9)}"
    )
    one, other = (plan(sql, catalog, OPTIONS, (), Dice(4)) for _ in range(2))
    assert one == other


def test_what_is_not_about_a_relation_stays_where_it_is(asked) -> None:
    assert len(asked("SELECT 1 WHERE AI_FILTER('a ?', 'text') AND AI_FILTER('b ?', 'other text')")) == 2


PINNED = pair("join", "t.body", "p.name", 0.1, ", 'anchor': 't'")
NOTHING_TO_CHOOSE = (
    f"SELECT id FROM tickets WHERE {ask('body', 'body', 0.3)} AND id > 3",
    f"SELECT id FROM tickets WHERE id > 3 AND NOT {ask('body', 'body', 0.3)} LIMIT 5",
    f"SELECT id, {ask('one', 'body', 0.3)}, {ask('other', 'note', 0.3)} FROM tickets",
    f"SELECT id, {ask('one', 'body', 0.3)} FROM tickets WHERE {ask('one', 'body', 0.3)}",
    f"SELECT t.id FROM tickets t JOIN products p ON {PINNED}",
    f"SELECT id FROM tickets WHERE {ask('body', 'body', 0.3)} UNION ALL "
    f"SELECT id FROM products WHERE {ask('name', 'name', 0.3)}",
)


class Unasked:
    """Statistics that nobody may ask."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"asked for {name}")


@pytest.mark.parametrize("sql", NOTHING_TO_CHOOSE)
def test_nothing_is_counted_where_nothing_is_to_be_chosen(
    sql: str, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(OPTIONS, sampling=True)
    found = plan(sql, catalog, options, (), Unasked())  # type: ignore[arg-type]
    monkeypatch.setattr(arrange, "_one_way", lambda *_: False)
    assert plan(sql, catalog, options, (), LONG).physical == found.physical


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id FROM tickets WHERE {ask('a', 'body', 0.3)} AND {ask('b', 'body', 0.3)}",
        f"SELECT id FROM tickets WHERE {ask('a', 'body', 0.3)} OR {ask('b', 'note', 0.3)}",
        f"SELECT t.id FROM tickets t JOIN products p ON {pair('join', 't.body', 'p.name', 0.1)}",
        f"SELECT {pair('join', 't.body', 'p.name', 0.1)} FROM tickets t, products p",
        f"SELECT id FROM tickets t WHERE EXISTS (SELECT 1 FROM products WHERE {pair('e', 't.body', 'name', 0.1)})",
    ],
)
def test_choices_are_counted(sql: str, catalog: MemoryCatalog) -> None:
    with pytest.raises(AssertionError, match="asked for"):
        plan(sql, catalog, OPTIONS, (), Unasked())  # type: ignore[arg-type]


@pytest.mark.parametrize("empty", ["tickets", "products", "both"])
@pytest.mark.parametrize("derived", ["(SELECT * FROM tickets) t", "tickets t"])
def test_an_empty_table_is_ordered_like_others(catalog: MemoryCatalog, empty: str, derived: str) -> None:
    """Also beside a member of FROM of which no statistics are known."""
    tables = dict.fromkeys(("tickets", "products"), 5.0) | {
        name: 0.0 for name in ("tickets", "products") if empty in (name, "both")
    }
    sql = (
        f"SELECT t.id FROM {derived} JOIN products p ON t.product = p.id"
        f" WHERE {ask('body', 't.body', 0.5)} AND {ask('name', 'p.name', 0.5)}"
    )
    statistics = Pinned(
        tables=tables, queries={"SELECT 1 FROM (SELECT * FROM tickets) AS t": tables["tickets"]}
    )
    found = plan(sql, catalog, OPTIONS, (), statistics).physical.steps
    assert sorted(calls(list(found))) == [["body"], ["name"]]
