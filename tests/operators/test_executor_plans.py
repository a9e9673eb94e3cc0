"""Handwritten plans against Python loops over the same rows and the same hash."""

from __future__ import annotations

from collections import Counter
from itertools import product

import duckdb
import numpy as np
import pytest
from covey_engine.operators.executor import Executor
from covey_planner.physical import AnchorText, AskStep, CallKey, Domain, PartnerText, Text
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.fake_engine import FakeEngine, truth
from support.hand_plans import (
    HEAD,
    PROFILE,
    TAIL,
    ai,
    column_domain,
    computed,
    key,
    plain,
    question,
    rows,
    start,
    stored,
)

pytestmark = pytest.mark.usefixtures("leftovers")
ASK_A, ASK_B = Text("\nIs it A?"), Text("\nIs it B?")


def answer(tokenizer: Tokenizer, *parts: Text | str) -> bool:
    """The answer to a prompt of template texts and documents, each tokenized on its own."""
    tokens: list[int] = []
    for part in parts:
        tokens += (
            tokenizer.encode(part.text, special=True) if isinstance(part, Text) else tokenizer.encode(part)
        )
    return truth(tokens)


def filter_step(**options: object) -> AskStep:
    anchors = column_domain("docs", "body")
    return AskStep((HEAD, AnchorText()), (question("a0", ASK_A, **options),), anchors)


FILTER = "SELECT d.id FROM docs d JOIN a0 ON a0.k0 = " + key("d.body")


def test_filter(
    executor: Executor,
    engine: FakeEngine,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    result = start(executor, ai(FILTER, "SELECT id FROM docs", filter_step()), cursor)
    docs = cursor.sql("SELECT id, body FROM docs WHERE body IS NOT NULL").fetchall()
    expected = [(id,) for id, body in docs if answer(tokenizer, HEAD, body, ASK_A, Text(TAIL))]
    assert 5 < len(expected) < 55
    assert result.schema.names == ["id"]
    assert engine.orders == [], "nothing runs before the first batch is asked for"
    assert rows(result) == sorted(expected, key=repr)
    texts = {body for _, body in docs}
    figures = result.figures()
    assert figures.prompts == len(texts)
    head, tail = (len(tokenizer.encode(text, special=True)) for text in (HEAD.text, ASK_A.text + TAIL))
    assert figures.fresh_tokens == head + sum(len(body.encode()) for body in texts) + len(texts) * tail
    assert result.progress().tokens_to_come == 0
    assert len(engine.orders) == 1


def test_all_answers_are_kept(
    executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    residual = "SELECT d.id, a0.answer FROM docs d LEFT JOIN a0 ON a0.k0 = " + key("d.body")
    result = start(
        executor, ai(residual, "SELECT id, true AS answer FROM docs", filter_step(keep="all")), cursor
    )
    expected = [
        (id, None if body is None else answer(tokenizer, HEAD, body, ASK_A, Text(TAIL)))
        for id, body in cursor.sql("SELECT id, body FROM docs").fetchall()
    ]
    assert rows(result) == sorted(expected, key=repr)


@pytest.mark.parametrize("connective", ["and", "or"])
def test_program(
    connective: str,
    executor: Executor,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    follow = {"on_true": 1} if connective == "and" else {"on_false": 1}
    asks = (question("a0", ASK_A, **follow), question("a1", ASK_B))
    step = AskStep((HEAD, AnchorText()), asks, column_domain("docs", "body"))
    where = f"{key('d.body')} IN (FROM a0 SELECT k0) {connective} {key('d.body')} IN (FROM a1 SELECT k0)"
    result = start(
        executor, ai(f"SELECT d.id FROM docs d WHERE {where}", "SELECT id FROM docs", step), cursor
    )
    found = rows(result)
    expected, prompts = [], set()
    for id, body in cursor.sql("SELECT id, body FROM docs WHERE body IS NOT NULL").fetchall():
        a, b = (answer(tokenizer, HEAD, body, ask, Text(TAIL)) for ask in (ASK_A, ASK_B))
        if (a and b) if connective == "and" else (a or b):
            expected.append((id,))
        prompts |= {(body, 0)} | ({(body, 1)} if a == (connective == "and") else set())
    assert found == sorted(expected, key=repr)
    assert result.figures().prompts == len(prompts)


def join_step(pairs: str | None = None, **options: object) -> AskStep:
    return AskStep(
        (HEAD, AnchorText(), ASK_A),
        (question("a0", PartnerText(), **options),),
        column_domain("docs", "body"),
        column_domain("terms", "name"),
        pairs,
    )


JOIN = (
    "SELECT d.id, t.id AS term FROM docs d JOIN terms t ON true"
    f" JOIN a0 ON a0.k0 = {key('d.body')} AND a0.k1 = {key('t.name')}"
)
DESCRIBE_JOIN = "SELECT d.id, t.id AS term FROM docs d, terms t"


def expected_pairs(tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection) -> list[tuple[int, int]]:
    docs = cursor.sql("SELECT id, body FROM docs WHERE body IS NOT NULL").fetchall()
    terms = cursor.sql("SELECT id, name FROM terms WHERE name IS NOT NULL").fetchall()
    return [
        (d, t)
        for (d, body), (t, name) in product(docs, terms)
        if answer(tokenizer, HEAD, body, ASK_A, name, Text(TAIL))
    ]


def test_join_of_all_pairs(
    executor: Executor, engine: FakeEngine, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    result = start(executor, ai(JOIN, DESCRIBE_JOIN, join_step()), cursor)
    assert rows(result) == sorted(expected_pairs(tokenizer, cursor), key=repr)
    assert engine.orders[0].pairs is None
    assert result.figures().prompts == 42 * 7


def test_join_of_some_pairs(
    executor: Executor, engine: FakeEngine, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    # The order of the rows is unlike that of the domains, and the last documents meet nobody.
    some = (
        f"SELECT DISTINCT {key('d.body')} AS a0, {key('t.name')} AS p0 FROM docs d, terms t"
        " WHERE (d.id + t.id) % 3 = 0 AND d.id < 30 AND d.body IS NOT NULL AND t.name IS NOT NULL"
        " ORDER BY 2, 1"
    )
    result = start(
        executor,
        ai(JOIN + " WHERE (d.id + t.id) % 3 = 0 AND d.id < 30", DESCRIBE_JOIN, join_step(some)),
        cursor,
    )
    expected = [(d, t) for d, t in expected_pairs(tokenizer, cursor) if (d + t) % 3 == 0 and d < 30]
    assert rows(result) == sorted(expected, key=repr)
    (order,) = engine.orders
    assert order.anchor_count == 30, "an anchor without partners is left out"
    assert order.items == cursor.sql(f"SELECT count(*) FROM ({some})").fetchall()[0][0]


def test_join_keeps_all_answers(
    executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    residual = JOIN.replace("SELECT d.id, t.id AS term", "SELECT count(*) AS n, count_if(a0.answer) AS yes")
    planned = ai(residual, "SELECT 1::BIGINT AS n, 1::HUGEINT AS yes", join_step(keep="all"))
    assert rows(start(executor, planned, cursor)) == [(62 * 8, len(expected_pairs(tokenizer, cursor)))]


def test_computed_text_and_two_arguments(
    executor: Executor,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
    library: TokenLibrary,
) -> None:
    """One argument is computed, one is an integer column, cast; both belong to the anchor."""
    text, number = "upper(d.lang) || ': ' || d.body", "d.id % 5"
    sql = f"SELECT DISTINCT {key(text)} AS k0, {key(number)} AS k1 FROM docs d WHERE d.body IS NOT NULL"
    step = AskStep(
        (HEAD, AnchorText(1)),
        (question("a0", Text("/"), AnchorText(0), keep="all"),),
        Domain(sql, (computed(text, "docs d WHERE d.body IS NOT NULL"), computed(number, "docs d"))),
    )
    residual = (
        f"SELECT d.id FROM docs d JOIN a0 ON a0.answer AND a0.k0 = {key(text)} AND a0.k1 = {key('d.id % 5')}"
    )
    result = start(executor, ai(residual, "SELECT id FROM docs", step), cursor)
    next_rows = rows(result)
    expected = [
        (id,)
        for id, lang, body in cursor.sql("SELECT id, lang, body FROM docs WHERE body IS NOT NULL").fetchall()
        if answer(tokenizer, HEAD, str(id % 5), Text("/"), f"{lang.upper()}: {body}", Text(TAIL))
    ]
    assert next_rows == sorted(expected, key=repr)


def test_texts_that_repeat_in_a_domain_are_tokenized_once(
    executor: Executor, library: TokenLibrary, cursor: duckdb.DuckDBPyConnection
) -> None:
    sql = f"SELECT DISTINCT {key('t.lang')} AS k0, {key('t.body')} AS k1 FROM docs t WHERE t.body IS NOT NULL"
    domain = Domain(sql, (stored("docs", "lang"), stored("docs", "body")))
    step = AskStep((HEAD, AnchorText(0)), (question("a0", AnchorText(1), keep="all"),), domain)
    result = start(executor, ai("SELECT count(*) AS n FROM a0", "SELECT 1::BIGINT AS n", step), cursor)
    assert rows(result) == cursor.sql(f"SELECT count(*) FROM ({sql})").fetchall()
    columns = [library.column("docs", name, keys=np.empty(0, "V16")) for name in ("lang", "body")]
    assert [len(column) for column in columns] == [3, 42]


def test_two_steps_the_second_asks_about_survivors(
    executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    survivors = column_domain("docs", "body", where=f"{key('t.body')} IN (FROM a0 SELECT k0)")
    second = AskStep((HEAD, AnchorText()), (question("a1", ASK_B),), survivors)
    residual = FILTER + " JOIN a1 ON a1.k0 = " + key("d.body")
    result = start(executor, ai(residual, "SELECT id FROM docs", filter_step(), second), cursor)
    found = rows(result)
    docs = cursor.sql("SELECT id, body FROM docs WHERE body IS NOT NULL").fetchall()
    first = {body for _, body in docs if answer(tokenizer, HEAD, body, ASK_A, Text(TAIL))}
    expected = [
        (id,) for id, body in docs if body in first and answer(tokenizer, HEAD, body, ASK_B, Text(TAIL))
    ]
    assert found == sorted(expected, key=repr)
    assert result.figures().prompts == 42 + len(first)


def test_literal_prompt(executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection) -> None:
    step = AskStep((HEAD,), (question("a0", ASK_A, keep="all"),), Domain("SELECT 1", ()))
    result = start(executor, ai("SELECT answer FROM a0", "SELECT true AS answer", step), cursor)
    assert rows(result) == [(answer(tokenizer, HEAD, ASK_A, Text(TAIL)),)]


@pytest.mark.parametrize(
    "step",
    [
        AskStep((HEAD, AnchorText()), (question("a0", ASK_A),), column_domain("nothing", "body")),
        AskStep(
            (HEAD, AnchorText()),
            (question("a0", PartnerText()),),
            column_domain("docs", "body"),
            column_domain("nothing", "body"),
        ),
        AskStep(
            (HEAD, AnchorText()),
            (question("a0", PartnerText()),),
            column_domain("nothing", "body"),
            column_domain("docs", "body"),
        ),
        join_step(f"SELECT {key('d.body')} AS a0, {key('t.name')} AS p0 FROM docs d, terms t WHERE false"),
    ],
    ids=["filter", "no partners", "no anchors", "no pairs"],
)
def test_empty_domains_cost_nothing(
    step: AskStep,
    executor: Executor,
    engine: FakeEngine,
    library: TokenLibrary,
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    result = start(
        executor, ai("SELECT count(*) AS n FROM a0", "SELECT count(*) AS n FROM docs", step), cursor
    )
    assert rows(result) == [(0,)]
    assert engine.orders == []
    assert list(library.root.rglob("*.arrow")) == [], "no text was tokenized"


def test_plain_statement_with_parameters(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    result = start(
        executor, plain("SELECT id FROM docs WHERE body = ? AND id < $2"), cursor, ("document number 3", 50)
    )
    assert rows(result) == [(3,), (43,)]


def test_answers_are_counted_for_those_who_learn_from_them(
    executor: Executor, database: Database, cursor: duckdb.DuckDBPyConnection
) -> None:
    """Of labels each by itself; texts, not rows, and none of those that a predicate leaves out."""
    counted: dict[tuple[str, str], tuple[int, int]] = {}
    label = "AI_CLASSIFY(body, ['letter', 'report', 'note'])"

    def learn(key: CallKey, asked: int, true: int) -> None:
        counted[key.kind, key.label] = asked, true

    asked = f"DISTINCT body, {label}, AI_FILTER('Is it short?', body)"
    sql = f"SELECT {asked} FROM docs WHERE id < 50 AND body IS NOT NULL"
    planned = plan(sql, database, PlanOptions(load_profile(PROFILE)))
    found = rows(start(executor, planned, cursor, learn=learn))
    labels = Counter(row[1] for row in found)
    assert len(labels) > 1
    assert counted == {
        **{("label", name): (len(found), labels[name]) for name in ("letter", "report", "note")},
        ("boolean", ""): (len(found), sum(row[2] for row in found)),
    }
