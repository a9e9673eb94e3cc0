"""Texts longer than the context: an error before any work, NULL, or a cut; and what each leaves alone."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest
from covey_engine.operators.errors import ContextOverflow
from covey_engine.operators.executor import Executor
from covey_planner.physical import AnchorText, AskStep, PartnerText, Text
from covey_storage.catalog import Database
from covey_storage.tokenizer import Tokenizer
from support.fake_engine import FakeEngine, truth
from support.hand_plans import HEAD, TAIL, ai, column_domain, key, question, rows, start

pytestmark = pytest.mark.usefixtures("leftovers")
LIMIT = 96
GRAIN = LIMIT // 32
SHORT, LONG = Text("?"), Text(" Is that so, all in all?")
TEXTS = """
CREATE TABLE long (id INTEGER, body VARCHAR);
INSERT INTO long SELECT i, repeat(chr(CAST(96 + i AS INTEGER)), 10 * i) FROM range(1, 13) r(i);
"""


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(context_length=LIMIT)


@pytest.fixture
def cursor(database: Database) -> duckdb.DuckDBPyConnection:
    cursor = database.cursor()
    cursor.execute(TEXTS)
    return cursor


def fixed(tokenizer: Tokenizer, *texts: Text) -> int:
    return sum(len(tokenizer.encode(text.text, special=True)) for text in (HEAD, *texts, Text(TAIL)))


def answer(tokenizer: Tokenizer, *parts: Text | str) -> bool | None:
    """The answer to the prompt; None where it does not fit."""
    tokens = [
        token
        for part in (HEAD, *parts, Text(TAIL))
        for token in (
            tokenizer.encode(part.text, special=True) if isinstance(part, Text) else tokenizer.encode(part)
        )
    ]
    return truth(tokens) if len(tokens) <= LIMIT else None


def bodies(cursor: duckdb.DuckDBPyConnection) -> dict[int, str]:
    return dict(cursor.sql("SELECT id, body FROM long").fetchall())


def filter_plan(*questions: Text, **options: object):
    asks = tuple(
        question(f"a{i}", text, keep="all", **(options if i + 1 < len(questions) else {}))
        for i, text in enumerate(questions)
    )
    step = AskStep((HEAD, AnchorText()), asks, column_domain("long", "body"))
    joins = "".join(f" LEFT JOIN a{i} ON a{i}.k0 = {key('d.body')}" for i in range(len(asks)))
    columns = ", ".join(f"a{i}.answer AS a{i}" for i in range(len(asks)))
    types = ", ".join(f"true AS a{i}" for i in range(len(asks)))
    return ai(f"SELECT d.id, {columns} FROM long d{joins}", f"SELECT id, {types} FROM long", step)


def join_plan():
    step = AskStep(
        (HEAD, AnchorText(), SHORT),
        (question("a0", PartnerText(), keep="all"),),
        column_domain("long", "body"),
        column_domain("terms", "name"),
    )
    on = f"a0.k0 = {key('d.body')} AND a0.k1 = {key('t.name')}"
    residual = f"SELECT d.id, t.name, a0.answer FROM long d, terms t, a0 WHERE {on}"
    return ai(residual, "SELECT d.id, t.name, true AS answer FROM long d, terms t", step)


def test_error_names_the_longest(
    executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection
) -> None:
    with pytest.raises(ContextOverflow) as caught:
        rows(start(executor, filter_plan(SHORT), cursor))
    message = str(caught.value)
    assert message.startswith(f"long.body '{'l' * 60}…': the prompt has ")
    assert f"over the model's context of {LIMIT}" in message
    assert "\n" not in message
    assert engine.orders == []


def test_error_names_both_texts_of_a_pair(
    executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection
) -> None:
    with pytest.raises(
        ContextOverflow, match=r"^long.body 'l{60}…' and terms.name 'term \d': the prompt has"
    ):
        rows(start(executor, join_plan(), cursor))
    assert engine.orders == []


def test_template_over_the_context(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    plan = filter_plan(Text("Why? " * 40))
    for mode in ("error", "null", "truncate"):
        with pytest.raises(
            ContextOverflow, match=r"the prompt of AI_FILTER\(a0\) has \d+ tokens of fixed text"
        ):
            rows(start(executor, plan, cursor, overflow=mode))


def test_null(executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection) -> None:
    found = rows(start(executor, filter_plan(SHORT), cursor, overflow="null"))
    expected = [(id, answer(tokenizer, body, SHORT)) for id, body in bodies(cursor).items()]
    assert found == sorted(expected, key=repr)
    assert {value for _, value in found} == {True, False, None}


@pytest.mark.parametrize("follow", [{"on_true": 1}, {"on_false": 1}])
@pytest.mark.parametrize("questions", [(LONG, SHORT), (SHORT, LONG)])
def test_null_in_a_program(
    questions: tuple[Text, Text],
    follow: dict[str, int],
    executor: Executor,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    """A question that does not fit is NULL, and the program goes on; the other question is answered."""
    found = rows(start(executor, filter_plan(*questions, **follow), cursor, overflow="null"))
    expected = []
    for id, body in bodies(cursor).items():
        first, second = (answer(tokenizer, body, text) for text in questions)
        asked = first is None or first == ("on_true" in follow)
        expected.append((id, first, second if asked else None))
    assert found == sorted(expected, key=repr)
    assert any(first is None and second is not None for _, first, second in expected) == (
        questions[0] is LONG
    )


def test_truncated_filter(
    executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    found = rows(start(executor, filter_plan(SHORT), cursor, overflow="truncate"))
    room = LIMIT - -(-fixed(tokenizer, SHORT) // GRAIN) * GRAIN
    whole = LIMIT - fixed(tokenizer, SHORT)
    expected = [
        (id, answer(tokenizer, body if len(body) <= whole else body[:room], SHORT))
        for id, body in bodies(cursor).items()
    ]
    assert found == sorted(expected, key=repr)


def test_truncated_pairs(
    executor: Executor, engine: FakeEngine, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    """Only pairs that do not fit are cut, the longer text first, whatever other rows there are."""
    found = rows(start(executor, join_plan(), cursor, overflow="truncate"))
    room = LIMIT - -(-fixed(tokenizer, SHORT) // GRAIN) * GRAIN
    names = [name for (name,) in cursor.sql("SELECT name FROM terms WHERE name IS NOT NULL").fetchall()]
    expected = []
    for (id, body), name in product(bodies(cursor).items(), names):
        whole = answer(tokenizer, body, SHORT, name)
        cut = body[: room - -(-len(name) // GRAIN) * GRAIN]
        expected.append((id, name, whole if whole is not None else answer(tokenizer, cut, SHORT, name)))
    assert found == sorted(expected, key=repr)
    assert all(value is not None for *_, value in found)
    assert len(engine.orders) == 2


def test_two_long_texts_share_the_room(
    executor: Executor, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    from covey_planner.physical import Domain
    from support.hand_plans import computed, stored

    other = "repeat('z', 200 - t.id)"
    sql = f"SELECT DISTINCT {key('t.body')} AS k0, {key(other)} AS k1 FROM long t"
    domain = Domain(sql, (stored("long", "body"), computed(other, "long t")))
    step = AskStep((HEAD, AnchorText(0), SHORT, AnchorText(1)), (question("a0", keep="all"),), domain)
    residual = f"SELECT d.id, a0.answer FROM long d JOIN a0 ON a0.k0 = {key('d.body')}"
    planned = ai(residual, "SELECT id, true AS answer FROM long", step)
    found = rows(start(executor, planned, cursor, overflow="truncate"))
    room = LIMIT - -(-fixed(tokenizer, SHORT) // GRAIN) * GRAIN
    expected = []
    for id, body in bodies(cursor).items():
        second = room - len(body) if len(body) < room // 2 else room // 2
        expected.append((id, answer(tokenizer, body[: room // 2], SHORT, "z" * second)))
    assert found == sorted(expected, key=repr)


def test_pairs_that_fit_are_no_error(
    executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection
) -> None:
    """The longest anchor and the longest partner would not fit together, but they are no pair."""
    cursor.execute(
        "CREATE TABLE other AS SELECT id, repeat('y', CAST(110 - 10 * id AS BIGINT)) AS body FROM long"
    )
    keys = f"{key('d.body')} AS a0, {key('o.body')} AS p0"
    pairs = f"SELECT {keys} FROM long d JOIN other o USING (id) WHERE id < 9"
    step = AskStep(
        (AnchorText(),),
        (question("a0", PartnerText(), keep="all"),),
        column_domain("long", "body", "t.id < 9"),
        column_domain("other", "body"),
        pairs,
    )
    engine._context_length = 120
    planned = ai("SELECT count(*) AS n FROM a0", "SELECT 1::BIGINT AS n", step)
    assert rows(start(executor, planned, cursor)) == [(8,)]
