"""What EXPLAIN expects of a statement against what running it cost: equal wherever nothing has to be guessed."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest
from covey_engine.operators.executor import Executor
from covey_engine.prefill.api import Figures
from covey_engine.prefill.process.local import LocalEngine
from covey_planner.cost.estimate import StepEstimate
from covey_planner.cost.statistics import Selectivity
from covey_planner.cost.stored import StoredStatistics
from covey_planner.physical import CallKey
from covey_planner.plan import Planned, PlanOptions, plan
from covey_planner.profiles import PromptProfile, load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.fake_runner import FakeRunner
from support.hand_plans import rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

Expect = Callable[..., list[StepEstimate]]
Run = Callable[[str], Figures]


@pytest.fixture(params=["smollm2_question_first", "smollm2_document_first", "smollm2_short"])
def profile(request: pytest.FixtureRequest) -> PromptProfile:
    return load_profile(request.param)


@pytest.fixture
def expect(
    database: Database,
    library: TokenLibrary,
    tokenizer: Tokenizer,
    profile: PromptProfile,
    cursor: duckdb.DuckDBPyConnection,
) -> Expect:
    """Explains a statement: its steps' estimates."""
    options = PlanOptions(profile, encode=tokenizer.encode, anchor="first")

    def explained(sql: str, answers: dict[CallKey, Selectivity] | None = None) -> list[StepEstimate]:
        statistics = StoredStatistics(cursor, library, answers=answers or {})
        return list(plan(f"EXPLAIN {sql}", database, options, (), statistics).estimates)

    return explained


@pytest.fixture
def run(executor: Executor, planned: Callable[..., Planned], cursor: duckdb.DuckDBPyConnection) -> Run:
    """Runs a statement: what it cost."""

    def ran(sql: str) -> Figures:
        result = start(executor, planned(sql), cursor)
        rows(result)
        return result.figures()

    return ran


EXACT = [
    "SELECT id FROM docs WHERE AI_FILTER('Is it old?', body)",
    "SELECT id FROM docs WHERE lang = 'de' AND AI_FILTER('Is it old?', body) ORDER BY id",
    "SELECT AI_FILTER('Is it old?', body) FROM docs WHERE id < 20",
    "SELECT AI_FILTER('Is it old?', body), AI_FILTER('Is it new?', body), AI_SCORE('Is it?', body) FROM docs",
    "SELECT id FROM docs WHERE AI_FILTER(PROMPT('Is {0} in {1}?', body, lang))",
    "SELECT count(*) FROM docs JOIN terms ON AI_FILTER(PROMPT('Does {0} say {1}?', docs.body, terms.name))",
    "SELECT count(*) FROM docs d JOIN terms t ON d.id = t.id AND AI_FILTER(PROMPT('Is {1} in {0}?', d.body, t.name))",
    "SELECT lang FROM docs GROUP BY lang HAVING AI_FILTER('Is it German?', lang)",
    "SELECT id FROM docs WHERE id < 0 AND AI_FILTER('Is it old?', body)",
    "SELECT id FROM nothing WHERE AI_FILTER('Is it old?', body)",
    "SELECT id, AI_FILTER('Is it old?', body), AI_COUNT_TOKENS(body) FROM docs ORDER BY id DESC LIMIT 7 OFFSET 2",
    "SELECT AI_COUNT_TOKENS(body) FROM docs",
]


@pytest.mark.parametrize("sql", EXACT)
def test_estimates_are_the_actual_figures_where_all_is_known(sql: str, expect: Expect, run: Run) -> None:
    figures = run(sql)
    found = expect(sql)
    assert all(step.rows_exact and step.exact for step in found)
    assert sum(step.prompts for step in found) == figures.prompts
    assert sum(step.work.fresh for step in found) == pytest.approx(figures.fresh_tokens, abs=1e-6)
    assert sum(step.prompt_tokens for step in found) == pytest.approx(figures.prompt_tokens, abs=1e-6)
    assert sum(step.shared for step in found) == pytest.approx(figures.shared_tokens, abs=1e-6)


@pytest.mark.parametrize("sql", [EXACT[0], EXACT[3], EXACT[5]])
def test_attention_pairs_are_exact_too(sql: str, expect: Expect, run: Run) -> None:
    figures = run(sql)
    assert sum(step.work.pairs for step in expect(sql)) == pytest.approx(figures.attention_pairs, rel=1e-9)


OLD, NEW = (CallKey(f"{text}\n{{0}}", ("docs.body",)) for text in ("Is it old?", "Is it new?"))


def test_tokens_are_estimated_from_bytes_before_they_are_built(expect: Expect, run: Run) -> None:
    sql = EXACT[0]
    (before,) = expect(sql)
    figures = run(sql)
    assert before.rows_exact
    assert not before.tokens_exact
    assert before.prompts == figures.prompts
    assert before.work.fresh == pytest.approx(figures.fresh_tokens, rel=0.02)


def test_a_computed_text_is_estimated_from_bytes(expect: Expect, run: Run) -> None:
    sql = "WITH few AS (SELECT body AS b FROM docs WHERE lang = 'en') SELECT b FROM few WHERE AI_FILTER('Old?', b)"
    figures = run(sql)
    (found,) = expect(sql)
    assert (found.rows_exact, found.tokens_exact) == (True, False)
    assert found.prompts == figures.prompts
    assert found.work.fresh == pytest.approx(figures.fresh_tokens, rel=0.02)


def test_what_passes_one_question_is_asked_the_next(expect: Expect, run: Run) -> None:
    sql = "SELECT id FROM docs WHERE AI_FILTER('Is it old?', body) AND AI_FILTER('Is it new?', body)"
    asked = run(sql).prompts
    passed = asked - 42
    known = {key: Selectivity(passed / 42, 0, 1, "remembered") for key in (OLD, NEW)}
    found = expect(sql, known)
    assert sum(step.prompts for step in found) == pytest.approx(asked)
    assert not found[-1].exact
    assert [question.items for step in found for question in step.questions] == pytest.approx([42, passed])


def test_a_filter_before_a_join_leaves_fewer_anchors(expect: Expect, run: Run) -> None:
    sql = (
        "SELECT count(*) FROM docs JOIN terms ON AI_FILTER(PROMPT('Does {0} say {1}?', body, name))"
        " WHERE AI_FILTER('Is it old?', body)"
    )
    asked = run(sql).prompts
    passed = (asked - 42) / 7
    filtered, joined = expect(sql, {OLD: Selectivity(passed / 42, 0, 1, "remembered")})
    assert filtered.rows_exact
    assert not joined.rows_exact
    assert joined.anchors == pytest.approx(passed)
    assert (joined.partners, joined.items) == (7, pytest.approx(7 * passed))


def test_the_last_join_is_asked_of_what_the_first_left(expect: Expect) -> None:
    """Of 42 documents, those with a match among 7 terms; of 7 terms, those with a match among 42 documents."""
    sql = (
        "SELECT count(*) FROM docs d JOIN terms t ON AI_FILTER(PROMPT('Does {0} say {1}?', d.body, t.name))"
        " JOIN docs e ON AI_FILTER(PROMPT('Is {0} in {1}?', t.name, e.body))"
    )
    key = CallKey("Does {0} say {1}?", ("docs.body", "terms.name"))
    first, second = expect(sql, {key: Selectivity(0.01, 0, 1, "remembered")})
    assert first.items == 42 * 7
    assert second.anchors == pytest.approx(7 * (1 - 0.99**42))
    assert second.partners == 42


def test_an_anti_join_leaves_the_other_rows(expect: Expect, run: Run) -> None:
    sql = "SELECT id, AI_FILTER('Is it new?', body) FROM docs WHERE NOT AI_FILTER('Is it old?', body)"
    asked = run(sql).prompts
    found = expect(sql, {OLD: Selectivity(1 - (asked - 42) / 42, 0, 1, "remembered")})
    assert sum(step.prompts for step in found) == pytest.approx(asked)


def test_a_limit_is_expected_to_end_the_step(expect: Expect) -> None:
    sql = "SELECT id FROM docs WHERE AI_FILTER('Is it old?', body) LIMIT 4"
    (found,) = expect(sql, {OLD: Selectivity(0.25, 0, 1, "remembered")})
    assert found.items == pytest.approx(16)
    assert not found.rows_exact
    (rare,) = expect(sql, {OLD: Selectivity(0.01, 0, 1, "remembered")})
    assert rare.items == 42


def test_exists_is_expected_to_end_with_an_anchors_first_match(expect: Expect) -> None:
    sql = (
        "SELECT id FROM docs WHERE EXISTS (SELECT 1 FROM terms"
        " WHERE AI_FILTER(PROMPT('Does {0} say {1}?', docs.body, terms.name)))"
    )
    key = CallKey("Does {0} say {1}?", ("docs.body", "terms.name"))
    (found,) = expect(sql, {key: Selectivity(0.5, 0, 1, "remembered")})
    assert found.items == pytest.approx(42 * (1 - 0.5**7) / 0.5)


def test_labels_cost_their_inner_tokens(
    database: Database, library: TokenLibrary, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    """Through the real scheduler, which also shares what the documents begin with alike."""
    sql = "SELECT AI_CLASSIFY(body, ['letter', 'less', 'number']), AI_SENTIMENT(body) FROM docs"
    options = PlanOptions(load_profile("smollm2_document_first"), encode=tokenizer.encode)
    engine = LocalEngine(FakeRunner(arena_tokens=20_000, chunk_tokens=512))
    executor = Executor(database, library, tokenizer, engine)
    result = start(executor, plan(sql, database, options), cursor)
    rows(result)
    figures = result.figures()
    engine.close()
    explained = plan(f"EXPLAIN {sql}", database, options, (), StoredStatistics(cursor, library))
    (found,) = explained.estimates
    assert found.exact
    assert found.prompts == figures.prompts
    alike = 39 * len("document number ")
    assert found.work.fresh == pytest.approx(figures.fresh_tokens + alike)
    assert found.prompt_tokens == pytest.approx(figures.prompt_tokens)


@pytest.mark.parametrize("part", ["id < 1000", "id % 3 = 1", "id % 10 = 0"])
@pytest.mark.parametrize("name", ["smollm2_document_first", "smollm2_question_first"])
def test_what_documents_begin_with_alike_is_expected_to_be_computed_once(
    name: str,
    part: str,
    database: Database,
    library: TokenLibrary,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    """Turns of ten conversations, each the turn before and more, told apart by their first word."""
    cursor.execute(
        "CREATE TABLE turns AS SELECT i AS id, i // 10 || ' talks' || repeat(' of a matter', i // 10 + 5)"
        " || repeat(' and of another one that he told her about on that day', i % 10) AS body FROM range(100) r(i)"
    )
    sql = f"SELECT id FROM turns WHERE {part} AND AI_FILTER('Is it long?', body)"
    options = PlanOptions(load_profile(name), encode=tokenizer.encode)
    engine = LocalEngine(FakeRunner(arena_tokens=100_000, chunk_tokens=2048))
    result = start(Executor(database, library, tokenizer, engine), plan(sql, database, options), cursor)
    rows(result)
    figures = result.figures()
    engine.close()
    (found,) = plan(f"EXPLAIN {sql}", database, options, (), StoredStatistics(cursor, library)).estimates
    assert found.alike == (part != "id % 10 = 0")
    assert found.work.fresh == pytest.approx(figures.fresh_tokens, rel=0.1)
    assert found.work.pairs == pytest.approx(figures.attention_pairs, rel=0.1)
    assert found.shared == pytest.approx(figures.shared_tokens, rel=0.1)


def test_a_transaction_sees_its_own_rows_and_stays_usable(
    database: Database, library: TokenLibrary, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    options = PlanOptions(load_profile("smollm2_short"), encode=tokenizer.encode)
    cursor.begin()
    cursor.execute("INSERT INTO nothing VALUES (1, 'one'), (2, 'two')")
    statistics = StoredStatistics(cursor, library, in_transaction=True)
    sql = "EXPLAIN SELECT id FROM nothing WHERE AI_FILTER('Is it?', body)"
    (found,) = plan(sql, database, options, (), statistics).estimates
    assert (found.items, found.rows_exact) == (2, True)
    assert cursor.execute("SELECT count(*) FROM nothing").fetchall() == [(2,)]
    cursor.rollback()


def test_explaining_builds_no_token_column(expect: Expect, library: TokenLibrary) -> None:
    before = sorted(library.root.rglob("*"))
    expect(EXACT[0])
    assert sorted(library.root.rglob("*")) == before


def test_nothing_is_estimated_without_statistics(planned: Callable[..., Planned]) -> None:
    explained = planned(f"EXPLAIN {EXACT[0]}")
    assert explained.estimates == ()
    assert all(step.anchors.given is None for step in explained.physical.steps)
