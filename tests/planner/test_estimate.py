"""Estimates by hand: a step's segments, each as often as it is computed, under statistics that are written down."""

from __future__ import annotations

import pytest
from covey_planner.cost.estimate import StepEstimate, estimate
from covey_planner.cost.statistics import Pinned, Selectivity, TokenCount
from covey_planner.cost.work import Work
from covey_planner.physical import (
    MATCH,
    AnchorText,
    AskStep,
    CallKey,
    Domain,
    Given,
    Odds,
    PartnerText,
    PhysicalPlan,
    Question,
    Text,
    TextArgument,
)

HEAD, TAIL, MORE = Text("h" * 10), Text("t" * 5), Text("m" * 7)
DOCS, TERMS = Given("docs", frozenset({"d"})), Given("terms", frozenset({"t"}))
ANCHORS = Domain("", (TextArgument("d.body", "", "docs", "body"),), DOCS)
PARTNERS = Domain("", (TextArgument("t.name", "", "terms", "name"),), TERMS)
FIRST, SECOND = CallKey("first", ("docs.body",)), CallKey("second", ("docs.body",))
STATISTICS = Pinned(
    texts={
        ("docs", "body"): TokenCount(1000, 100, 200_000, 20_000, 200, exact=True),
        ("terms", "name"): TokenCount(50, 50, 200, 200, 4, exact=True),
    },
    queries={"docs": 1000, "terms": 50, "met": 300},
    answers={FIRST: Selectivity(0.25, 0.2, 0.3, "remembered")},
)
CHUNK = 1000


def estimates(*steps: AskStep) -> tuple[StepEstimate, ...]:
    return estimate(PhysicalPlan(steps, ""), STATISTICS, lambda text, _: tuple(map(ord, text)), CHUNK)


def one(step: AskStep) -> StepEstimate:
    (found,) = estimates(step)
    return found


def triangle(tokens: float) -> float:
    return tokens * (tokens + 1) / 2


def test_a_filter() -> None:
    found = one(AskStep((HEAD, AnchorText()), (Question("", (TAIL,), "a"),), ANCHORS))
    assert (found.anchors, found.partners, found.items, found.prompts) == (100, None, 100, 100)
    assert found.prompt_tokens == 100 * (10 + 200 + 5)
    fresh = 10 + 100 * (200 + 5)
    pairs = triangle(10) + 100 * (200 * 10 + triangle(200) + 5 * 210 + triangle(5))
    assert found.work == Work(fresh, pairs, pytest.approx(10 * fresh / CHUNK), held=10)
    assert found.shared == 99 * 10
    assert found.exact
    assert found.remembered == 0


def test_a_second_question_on_a_document_adds_its_own_tokens_where_the_first_is_true() -> None:
    asked = (
        Question("", (TAIL,), "a", on_true=1, key=FIRST),
        Question("", (MORE,), "b", on_true=MATCH, key=SECOND),
    )
    found = one(AskStep((HEAD, AnchorText()), asked, ANCHORS))
    assert [question.items for question in found.questions] == [100, 25]
    assert found.prompts == 125
    assert found.work.fresh == 10 + 100 * (200 + 5) + 25 * 7
    assert found.work.held == 10 + CHUNK
    assert found.work.read == pytest.approx(10 * found.work.fresh / CHUNK + 100 * 200)
    assert [question.exact for question in found.questions] == [True, False]
    assert found.rows_exact
    assert not found.exact


def test_a_join_computes_anchors_once_and_partners_for_each_pair() -> None:
    step = AskStep((HEAD, AnchorText(), MORE), (Question("", (PartnerText(), TAIL), "a"),), ANCHORS, PARTNERS)
    found = one(step)
    assert (found.anchors, found.partners, found.items) == (100, 50, 5000)
    assert found.work.fresh == 10 + 100 * (200 + 7) + 5000 * (4 + 5)
    assert found.work.pairs == pytest.approx(
        triangle(10)
        + 100 * (200 * 10 + triangle(200) + 7 * 210 + triangle(7))
        + 5000 * (4 * 217 + triangle(4) + 5 * 221 + triangle(5))
    )


def test_linked_pairs_are_counted() -> None:
    question = (Question("", (PartnerText(),), "a"),)
    step = AskStep(
        (AnchorText(),), question, ANCHORS, PARTNERS, "pairs", pairs_given=Given("met", frozenset())
    )
    assert one(step).items == 300


def test_answers_of_an_earlier_step_leave_their_share() -> None:
    first = AskStep((AnchorText(),), (Question("", (TAIL,), "a", key=FIRST),), ANCHORS)
    passed = Odds("ask", key=FIRST, anchors=frozenset({"d"}))
    for odds, left in [
        (passed, 25),
        (Odds("not", (passed,)), 75),
        (Odds("all", (passed, Odds("open"))), 12.5),
        (Odds("any", (passed, Odds("not", (passed,)))), 100 * (1 - 0.75 * 0.25)),
        (Odds("all"), 100),
    ]:
        anchors = Domain("", ANCHORS.arguments, Given("docs", frozenset({"d"}), (odds,)))
        _, second = estimates(first, AskStep((AnchorText(),), (Question("", (MORE,), "b"),), anchors))
        assert second.items == pytest.approx(left)
        assert not second.rows_exact


def test_a_side_of_an_answered_join_is_left_where_one_of_its_pairs_is_true() -> None:
    joined = AskStep((AnchorText(),), (Question("", (PartnerText(),), "a", key=FIRST),), ANCHORS, PARTNERS)
    odds = Odds("ask", key=FIRST, anchors=frozenset({"d"}), partners=frozenset({"t"}))
    again = Domain("", PARTNERS.arguments, Given("terms", frozenset({"t"}), (odds,)))
    _, second = estimates(joined, AskStep((AnchorText(),), (Question("", (TAIL,), "b"),), again))
    assert second.items == pytest.approx(50 * (1 - 0.75**100))


def test_another_relations_answer_leaves_rows_with_any_that_passed() -> None:
    """Each document has ten rows here, and each row a partner that passed with a share of a quarter."""
    odds = Odds("ask", key=FIRST, anchors=frozenset({"other"}))
    anchors = Domain("", ANCHORS.arguments, Given("docs", frozenset({"d"}), (odds,)))
    found = one(AskStep((AnchorText(),), (Question("", (TAIL,), "a"),), anchors))
    assert found.items == pytest.approx(100 * (1 - 0.75**10))


def test_tuples_that_were_asked_before_are_left_out() -> None:
    first = AskStep((AnchorText(),), (Question("", (TAIL,), "a"),), ANCHORS)
    again = Domain("", ANCHORS.arguments, Given("docs", frozenset({"d"}), without=("a",)))
    assert estimates(first, AskStep((AnchorText(),), (Question("", (TAIL,), "b"),), again))[1].prompts == 0


def test_matches_that_end_a_step_leave_the_rest_unasked() -> None:
    def limited(enough: int) -> StepEstimate:
        question = Question("", (TAIL,), "a", on_true=MATCH, key=FIRST)
        return one(AskStep((AnchorText(),), (question,), ANCHORS, enough=enough))

    assert limited(10).items == 40
    assert limited(30).items == 100
