"""SQL whose answers are probabilities and labels; the oracle: plain DuckDB, calls as functions of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from covey_engine.operators.errors import ContextOverflow, RowFailed
from covey_engine.operators.executor import Executor
from covey_planner.errors import BindError
from covey_planner.physical import AnchorText, Text
from covey_planner.plan import Planned
from covey_planner.profiles import PromptProfile, load_profile
from covey_planner.prompts import Template, filter_prompt, for_labels
from covey_storage.tokenizer import Tokenizer
from support.fake_engine import FakeEngine, Faults, margin
from support.hand_plans import TABLES, rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

Run = Callable[..., list[tuple[Any, ...]]]
END = {"smollm2_document_first": "<|im_end|>", "smollm2_raw": "\n"}
LEAD = {"smollm2_document_first": "", "smollm2_raw": " "}


@pytest.fixture(params=END)
def profile(request: pytest.FixtureRequest) -> PromptProfile:
    return load_profile(request.param)


@pytest.fixture
def covey(executor: Executor, planned: Callable[..., Planned], cursor: duckdb.DuckDBPyConnection) -> Run:
    def run(sql: str, *parameters: object, **settings: Any) -> list[tuple[Any, ...]]:
        return rows(start(executor, planned(sql, parameters), cursor, **settings))

    return run


@pytest.fixture
def oracle(tokenizer: Tokenizer, profile: PromptProfile) -> Run:
    connection = duckdb.connect()
    connection.execute(TABLES)

    def prompt(words: str, text: str, used: PromptProfile) -> list[int]:
        made = filter_prompt(Template((words + "\n", 0)), used)
        tokens: list[int] = []
        for segment in (*made.prefix, *made.suffix):
            match segment:
                case Text(fixed):
                    tokens += tokenizer.encode(fixed, special=True)
                case AnchorText():
                    tokens += tokenizer.encode(text)
        return tokens

    def ai_filter(question: str, text: str | None) -> bool | None:
        return None if text is None else margin(prompt(question, text, profile)) > 0

    def ai_score(question: str, text: str | None) -> float | None:
        return None if text is None else 1 / (1 + math.exp(-margin(prompt(question, text, profile))))

    def choose(text: str | None, labels: Sequence[str], task: str = "Which label fits best?") -> str | None:
        if text is None:
            return None
        words = f"{task} Answer with one of these labels: {', '.join(labels)}."
        tokens = prompt(words, text, for_labels(profile))
        end = tokenizer.encode(END[profile.name], special=True)
        said = {label: tokenizer.encode(LEAD[profile.name] + label) for label in labels}
        return max(labels, key=lambda label: margin([*tokens, *said[label], *end], 0.0))

    def ai_sentiment(text: str | None) -> str | None:
        return choose(
            text, ("positive", "negative", "neutral", "mixed"), "What is the sentiment of the text?"
        )

    def ai_count_tokens(text: str | None) -> int | None:
        return None if text is None else len(tokenizer.encode(text))

    for function, arguments, kind in (
        (ai_filter, ["VARCHAR", "VARCHAR"], "BOOLEAN"),
        (ai_score, ["VARCHAR", "VARCHAR"], "DOUBLE"),
        (ai_sentiment, ["VARCHAR"], "VARCHAR"),
        (ai_count_tokens, ["VARCHAR"], "BIGINT"),
    ):
        connection.create_function(function.__name__, function, arguments, kind, null_handling="special")  # type: ignore[arg-type]
    connection.create_function(
        "ai_classify",
        lambda text, labels: choose(text, labels),
        ["VARCHAR", "VARCHAR[]"],  # type: ignore[list-item]
        "VARCHAR",  # type: ignore[arg-type]
        null_handling="special",
    )
    return lambda sql: sorted(connection.execute(sql).fetchall(), key=repr)


STATEMENTS = {
    title: sql
    for title, _, sql in (
        part.partition("\n")
        for part in (Path(__file__).parent / "answers.sql").read_text("utf-8").split("\n-- ")[1:]
    )
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_same_rows_as_the_oracle(name: str, covey: Run, oracle: Run) -> None:
    found, wanted = covey(STATEMENTS[name]), oracle(STATEMENTS[name])
    assert len(found) == len(wanted)
    assert wanted or name == "nobody"
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs, nan_ok=True) if None not in theirs else ours == theirs


def test_labels_from_parameters(covey: Run, oracle: Run, planned: Callable[..., Planned]) -> None:
    wanted = oracle("SELECT id, AI_CLASSIFY(body, ['it''s long', 'short']) FROM docs")
    assert covey("SELECT id, AI_CLASSIFY(body, [?, ?]) FROM docs", "it's long", "short") == wanted
    assert covey("SELECT id, AI_CLASSIFY(body, ?) FROM docs", ["it's long", "short"]) == wanted
    described = planned("SELECT id, AI_CLASSIFY(body, ['a', ?]) AS label FROM docs")
    assert described.unbound
    assert described.columns == (("id", "INTEGER"), ("label", "VARCHAR"))
    assert planned("SELECT AI_CLASSIFY(body, ?) AS label FROM docs").columns == (("label", "VARCHAR"),)
    for wrong, message in (
        (None, "label 2 of AI_CLASSIFY is no string literal"),
        ("a", "label 'a' of AI_CLASSIFY is given twice"),
        (" ", "label 2 of AI_CLASSIFY is empty"),
        (3, "label 2 of AI_CLASSIFY is no string literal"),
    ):
        with pytest.raises(BindError, match=message):
            covey("SELECT AI_CLASSIFY(body, ['a', ?]) FROM docs", wrong)


@pytest.mark.parametrize(
    "call",
    [
        "AI_CLASSIFY(body, ['long', 'short'])",
        "AI_CLASSIFY(body, [{'label': 'long'}, 'short'])",
        "AI_CLASSIFY(body, [('long'), 'short'], {'output_mode': 'single'})",
        "AI_CLASSIFY(body, categories => ['long', 'short'])",
        "AI.CLASSIFY(input => body, categories => ['long', 'short'], output_mode => 'single')",
        "AI_CLASSIFY(PROMPT('Which label fits best? Answer with one of these labels: long, short. {0}', body),"
        " ['long', 'short'])",
    ],
)
def test_spellings(call: str, covey: Run, engine: FakeEngine, oracle: Run) -> None:
    found = covey(f"SELECT id, {call} FROM docs")
    assert {label for _, label in found} == {"long", "short", None}
    if "PROMPT" not in call:
        assert found == oracle("SELECT id, AI_CLASSIFY(body, ['long', 'short']) FROM docs")


def test_descriptions_and_task_are_part_of_the_question(planned: Callable[..., Planned]) -> None:
    call = "AI_CLASSIFY(body, [('a', 'is long'), {'label': 'b', 'description': 'is short'}, 'c'], "
    physical = planned(f"SELECT {call} {{'task_description': 'Look closely.'}}) FROM docs").physical
    (question,) = physical.steps[0].questions
    said = "".join(part.text for part in question.suffix if isinstance(part, Text))
    assert "Look closely. Answer with one of these labels:\n- a: is long\n- b: is short\n- c" in said
    assert "Yes" not in said
    assert [label for label, _ in question.labels] == ["a", "b", "c"]


def test_labels_of_pairs(covey: Run, engine: FakeEngine) -> None:
    sql = (
        "SELECT d.id, t.id, AI_CLASSIFY(PROMPT('{0} and {1}', d.body, t.name), ['same', 'other', 'unlike'])"
        " FROM docs d JOIN terms t ON d.id % 7 = t.id WHERE d.id < 30"
    )
    found = covey(sql)
    assert len(found) == 30
    assert {label for *_, label in found} == {"same", "other", "unlike"}
    (order,) = engine.orders
    assert order.pairs is not None
    assert order.items == 30


def test_a_score_and_a_filter_on_one_document_are_one_order(covey: Run, engine: FakeEngine) -> None:
    covey("SELECT id, AI_SCORE('Is it short?', body) FROM docs WHERE AI_FILTER('Is it long?', body)")
    (order,) = engine.orders
    assert len(order.asks) == 2


def test_two_label_sets_on_one_document_are_one_order(covey: Run, engine: FakeEngine) -> None:
    covey("SELECT AI_CLASSIFY(body, ['a', 'b']), AI_SENTIMENT(body), AI_CLASSIFY(body, ['a', 'b']) FROM docs")
    (order,) = engine.orders
    assert len(order.asks) == 2


def test_scores_are_probabilities_and_half_is_the_threshold(covey: Run) -> None:
    found = covey("SELECT AI_SCORE('Is it long?', body), AI_FILTER('Is it long?', body) FROM docs")
    known = [(score, answer) for score, answer in found if score is not None]
    assert all(0 < score < 1 and (score > 0.5) == answer for score, answer in known)
    assert {answer for _, answer in known} == {True, False}


def test_announced_types(executor: Executor, planned: Callable[..., Planned], cursor: Any) -> None:
    sql = "SELECT AI_SCORE('Is it?', body) AS s, AI_CLASSIFY(body, ['a', 'b']) AS l, AI_SENTIMENT(body) FROM docs"
    result = start(executor, planned(sql), cursor)
    assert [str(kind) for kind in result.schema.types] == ["double", "string", "string"]
    assert result.schema.names == ["s", "l", "AI_SENTIMENT(body)"]
    assert all(batch.schema == result.schema for batch in result.batches)


def test_a_row_without_a_finite_answer(covey: Run, engine: FakeEngine, tokenizer: Tokenizer) -> None:
    marked = b"".join(token.to_bytes(4, "little") for token in tokenizer.encode("number 7"))
    engine.faults = Faults(poison=lambda data: marked in data)
    sql = "SELECT id, AI_CLASSIFY(body, ['a', 'b']) FROM docs WHERE id < 10"
    with pytest.raises(RowFailed, match="'document number 7': no answer"):
        covey(sql)
    found = dict(covey(sql, overflow="null"))
    assert [id for id, label in found.items() if label is None] == [7]


def test_long_labels_count_as_part_of_the_prompt(executor: Executor, engine: FakeEngine, covey: Run) -> None:
    engine._context_length = 700
    covey("SELECT AI_CLASSIFY(body, ['a', 'b']) FROM docs")
    with pytest.raises(ContextOverflow, match=r"over the model's context of 700"):
        covey(f"SELECT AI_CLASSIFY(body, ['a', '{'b' * 300}']) FROM docs")


def test_counting_tokens_asks_the_model_nothing(covey: Run, engine: FakeEngine) -> None:
    sql = (
        "SELECT id, AI_COUNT_TOKENS(body), AI_COUNT_TOKENS(upper(body)) FROM docs WHERE AI_COUNT_TOKENS(body) > 5"
        " AND AI_COUNT_TOKENS(body) < AI_COUNT_TOKENS(body || lang)"
    )
    assert covey(sql)
    assert engine.orders == []
    wide = "SELECT AI_COUNT_TOKENS(repeat(body, 2000)) AS n FROM docs WHERE body IS NOT NULL"
    engine._context_length = 700
    assert max(n for (n,) in covey(wide)) > 700


def test_token_counts_decide_who_is_asked(covey: Run, engine: FakeEngine, oracle: Run) -> None:
    sql = "SELECT id FROM docs WHERE AI_FILTER('Is it long?', body) AND AI_COUNT_TOKENS(body) < 18"
    assert covey(sql) == oracle(sql)
    (order,) = engine.orders
    few = "SELECT DISTINCT body FROM docs WHERE AI_COUNT_TOKENS(body) < 18"
    assert order.items == len(oracle(few)) < len(oracle("SELECT DISTINCT body FROM docs"))


def test_a_score_decides_who_is_asked(covey: Run, engine: FakeEngine) -> None:
    sql = "SELECT CASE WHEN AI_SCORE('Is it long?', body) > 0.9 THEN AI_FILTER('Is it short?', body) END FROM docs"
    covey(sql)
    first, second = engine.orders
    assert 0 < second.items < first.items


def test_the_announced_type_of_a_count(
    executor: Executor, planned: Callable[..., Planned], cursor: Any
) -> None:
    result = start(executor, planned("SELECT AI_COUNT_TOKENS(body) AS n FROM docs"), cursor)
    assert result.schema.names == ["n"]
    assert [str(kind) for kind in result.schema.types] == ["int64"]
    assert all(batch.schema == result.schema for batch in result.batches)


MULTI = "list_filter([if(ai_filter({0}, {2}), 'long', ''), if(ai_filter({1}, {2}), 'short', '')], lambda v: v <> '')"
FITS = "'Does the label ''long'' fit?'", "'Does the label ''short'' fit?'"


def test_all_labels_that_fit(covey: Run, engine: FakeEngine, oracle: Run) -> None:
    call = "AI_CLASSIFY(body, ['long', 'short'], {'output_mode': 'multi'})"
    same = f"CASE WHEN body IS NOT NULL THEN {MULTI.format(*FITS, 'body')} END"
    assert covey(f"SELECT id, {call} AS l FROM docs") == oracle(f"SELECT id, {same} FROM docs")
    (order,) = engine.orders
    assert len(order.asks) == 2
    found = [labels for _, labels in covey(f"SELECT id, {call} FROM docs")]
    assert {len(labels) for labels in found if labels is not None} == {0, 1, 2}


def test_all_labels_as_a_condition_a_key_and_an_element(covey: Run, engine: FakeEngine, oracle: Run) -> None:
    call = "AI_CLASSIFY(body, ['long', 'short'], {'output_mode': 'multi'})"
    same = f"CASE WHEN body IS NOT NULL THEN {MULTI.format(*FITS, 'body')} END"
    for sql in (
        "SELECT id FROM docs WHERE list_contains({}, 'short')",
        "SELECT {} AS l, count(*) FROM docs GROUP BY l HAVING count(*) > 1",
        "SELECT label, count(*) FROM (SELECT unnest({}) AS label FROM docs) GROUP BY label",
        "SELECT id, len({}) FROM docs ORDER BY len({}), id",
    ):
        engine.orders.clear()
        assert covey(sql.replace("{}", call)) == oracle(sql.replace("{}", same))
        (order,) = engine.orders
        assert len(order.asks) == 2


def test_examples_are_part_of_the_question(planned: Callable[..., Planned]) -> None:
    call = "AI_CLASSIFY(body, ['a', ('b', 'is short')], {'examples': [{'input': 'an owl', 'labels': ['a']}, ('x', 'b')]"

    def said(mode: str) -> list[str]:
        (step,) = planned(f"SELECT {call}, 'output_mode': '{mode}'}}) FROM docs").physical.steps
        return ["".join(p.text for p in q.suffix if isinstance(p, Text)) for q in step.questions]

    assert "\n- b: is short\nExamples:\n- an owl: a\n- x: b" in said("single")[0]
    first, second = said("multi")
    assert "Does the label 'a' fit?\nExamples:\n- an owl: yes\n- x: no" in first
    assert "Does the label 'b' (is short) fit?\nExamples:\n- an owl: no\n- x: yes" in second
