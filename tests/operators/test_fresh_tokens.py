"""The law of sharing, through the real scheduler: what enters the embedding is what the layout says."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from covey_engine.operators.executor import Executor
from covey_engine.prefill.process.local import LocalEngine
from covey_planner.physical import AnchorText, AskStep, PartnerText, Question, Segment, Text
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_planner.prompts import Prompt, filter_prompt, join_prompt, parse_template
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.fake_runner import FakeRunner
from support.hand_plans import ai, column_domain, rows, start

pytestmark = pytest.mark.usefixtures("leftovers")
QUESTIONS = ("Is it about a document?", "Is it a letter from Zoë?")
DOCUMENTS = 42
ALIKE = 39 * len("document number ")
"""Tokens that forty documents begin with alike, but for the first of them."""


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner(arena_tokens=20_000, chunk_tokens=512)


@pytest.fixture
def executor(
    database: Database, library: TokenLibrary, tokenizer: Tokenizer, runner: FakeRunner
) -> Iterator[Executor]:
    engine = LocalEngine(runner)
    yield Executor(database, library, tokenizer, engine)
    engine.close()


def length(tokenizer: Tokenizer, segments: tuple[Segment, ...]) -> int:
    """Tokens of the fixed text."""
    return sum(len(tokenizer.encode(s.text, special=True)) for s in segments if isinstance(s, Text))


def prompts(profile: str) -> list[Prompt]:
    return [filter_prompt(parse_template(text + " {0}", 1), load_profile(profile)) for text in QUESTIONS]


def asked(prompt: Prompt, table: str, **follow: int) -> Question:
    return Question("AI_FILTER", prompt.suffix, table, "all", **follow)


def document_tokens(cursor: duckdb.DuckDBPyConnection) -> int:
    total = cursor.sql(
        "SELECT CAST(sum(strlen(body)) AS BIGINT) FROM (SELECT DISTINCT body FROM docs)"
    ).fetchall()
    return int(total[0][0]) - ALIKE


COUNT = "SELECT (SELECT count(*) FROM a0) + (SELECT count(*) FROM a1) AS n"


def test_document_first(
    executor: Executor, runner: FakeRunner, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    first, second = prompts("smollm2_document_first")
    assert first.prefix == second.prefix
    asks = (asked(first, "a0", on_true=1, on_false=1), asked(second, "a1"))
    step = AskStep(first.prefix, asks, column_domain("docs", "body"))
    result = start(executor, ai(COUNT, "SELECT 1::BIGINT AS n", step), cursor)
    assert rows(result) == [(2 * DOCUMENTS,)]
    tails = length(tokenizer, first.suffix) + length(tokenizer, second.suffix)
    before_document = length(tokenizer, first.prefix[: first.prefix.index(AnchorText())])
    after_document = length(tokenizer, first.prefix) - before_document
    fresh = before_document + document_tokens(cursor) + DOCUMENTS * (after_document + tails)
    assert result.figures().fresh_tokens == runner.embedded == fresh
    assert result.figures().prompts == 2 * DOCUMENTS
    assert result.figures().prefix_tokens_saved == ALIKE
    assert result.figures().recomputed_tokens == 0


def test_question_first(
    executor: Executor, runner: FakeRunner, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    fresh = 0
    steps = []
    for number, prompt in enumerate(prompts("smollm2_question_first")):
        segments = (*prompt.prefix, *prompt.suffix)
        at = segments.index(AnchorText())
        steps.append(AskStep(prompt.prefix, (asked(prompt, f"a{number}"),), column_domain("docs", "body")))
        fresh += length(tokenizer, segments[:at]) + document_tokens(cursor)
        fresh += DOCUMENTS * length(tokenizer, segments[at:])
    result = start(executor, ai(COUNT, "SELECT 1::BIGINT AS n", *steps), cursor)
    assert rows(result) == [(2 * DOCUMENTS,)]
    assert result.figures().fresh_tokens == runner.embedded == fresh
    assert result.figures().prefix_tokens_saved == 2 * ALIKE


def test_labels(
    executor: Executor, runner: FakeRunner, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    """Two sets of labels asked of a document: the document once, and each distinct inner token of the labels."""
    sql = "SELECT AI_CLASSIFY(body, ['letter', 'less', 'number']), AI_SENTIMENT(body) FROM docs"
    profile = load_profile("smollm2_document_first")
    planned = plan(sql, executor.database, PlanOptions(profile))
    result = start(executor, planned, cursor)
    assert len(rows(result)) == 63
    (step,) = planned.physical.steps
    at = step.prefix.index(AnchorText())
    fresh = length(tokenizer, step.prefix[:at]) + document_tokens(cursor)
    fresh += DOCUMENTS * length(tokenizer, step.prefix[at:])
    for question in step.questions:
        end = tokenizer.encode(question.end, special=True)
        labels = [tokenizer.encode(text) + end for _, text in question.labels]
        inner = {label[:n] for label in labels for n in range(1, len(label))}
        assert len(inner) < sum(len(label) - 1 for label in labels)
        fresh += DOCUMENTS * (length(tokenizer, question.suffix) + len(inner))
    assert result.figures().fresh_tokens == runner.embedded == fresh
    assert result.figures().recomputed_tokens == 0


@pytest.mark.parametrize("profile", ["smollm2_document_first", "smollm2_question_first", "smollm2_short"])
def test_join(
    profile: str,
    executor: Executor,
    runner: FakeRunner,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    """20 anchors of 200 tokens, 50 partners: the anchors once and a thousand suffixes."""
    cursor.execute(
        "CREATE TABLE anchors AS SELECT i, rpad('anchor ' || i, 200, '.') AS body FROM range(20) r(i)"
    )
    cursor.execute(
        "CREATE TABLE partners AS SELECT i, rpad('partner ' || i, CAST(10 + i % 5 AS INTEGER), '!') AS name"
        " FROM range(50) r(i)"
    )
    prompt = join_prompt(parse_template("Does {0} mention {1}?", 2), load_profile(profile), (0,), (1,))
    step = AskStep(
        prompt.prefix,
        (asked(prompt, "a0"),),
        column_domain("anchors", "body"),
        column_domain("partners", "name"),
    )
    result = start(executor, ai("SELECT count(*) AS n FROM a0", "SELECT 1::BIGINT AS n", step), cursor)
    assert rows(result) == [(1000,)]
    segments = (*prompt.prefix, *prompt.suffix)
    anchor, partner = segments.index(AnchorText()), segments.index(PartnerText())
    anchors = length(tokenizer, segments[:anchor]) + 20 * (200 + length(tokenizer, segments[anchor:partner]))
    names = cursor.sql("SELECT CAST(sum(strlen(name)) AS BIGINT) FROM partners").fetchall()[0][0]
    suffixes = 20 * names + 1000 * length(tokenizer, segments[partner:])
    # The names begin alike.
    saved = result.figures().prefix_tokens_saved
    assert saved == 20 * 49 * len("partner ")
    assert result.figures().fresh_tokens == runner.embedded == anchors + suffixes - saved


CASES = {
    "CASE": "CASE WHEN {a} THEN 1 WHEN {b} THEN 2 END",
    "IF": "IF({a}, 1, IF({b}, 2, 3))",
    "OR": "{a} OR {b}",
    "coalesce": "coalesce({a} OR NULL, {b})",
}


@pytest.mark.parametrize("form", CASES)
def test_a_question_that_another_guards(
    executor: Executor, runner: FakeRunner, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection, form: str
) -> None:
    """Each document is computed once, and asked the second question where the first one's answer is no."""
    calls = [f"AI_FILTER(PROMPT('{text} {{0}}', body))" for text in QUESTIONS]
    sql = f"SELECT {CASES[form].format(a=calls[0], b=calls[1])} AS n FROM docs"
    profile = load_profile("smollm2_document_first")
    result = start(executor, plan(sql, executor.database, PlanOptions(profile)), cursor)
    assert len(rows(result)) == 63
    (step,) = result.steps()
    (both, true), (rest, _) = step.questions
    assert both == DOCUMENTS
    assert 0 < true < both
    assert rest == both - true
    first, second = prompts("smollm2_document_first")
    before_document = length(tokenizer, first.prefix[: first.prefix.index(AnchorText())])
    after_document = length(tokenizer, first.prefix) - before_document
    fresh = before_document + document_tokens(cursor) + DOCUMENTS * after_document
    fresh += DOCUMENTS * length(tokenizer, first.suffix) + rest * length(tokenizer, second.suffix)
    assert result.figures().fresh_tokens == runner.embedded == fresh
