"""Questions about pairs that a statement asks twice: from which side both are asked, from statistics written down."""

from __future__ import annotations

import numpy as np
import pytest
from covey_planner.cost.statistics import Pinned, TokenCount
from covey_planner.ordering import arrange
from covey_planner.ordering.agreeing import Attempt, agree
from covey_planner.ordering.costs import Costs
from covey_planner.ordering.problem import Documents, Predicate, Problem, Prompt, Relation, Share, Side
from covey_planner.physical import AskStep
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, words


def statistics(tickets: tuple[float, float], products: tuple[float, float]) -> Pinned:
    """Rows of both tables, and tokens of a text."""
    counts = {}
    for column, (rows, mean) in ((("tickets", "body"), tickets), (("products", "description"), products)):
        counts[column] = TokenCount(rows, rows, rows * mean, rows * mean**2, mean, exact=True)
    return Pinned(tables={"tickets": tickets[0], "products": products[0]}, texts=counts)


OPTIONS = PlanOptions(DOCUMENT_FIRST, encode=words, price=lambda work: work.fresh)


def about(question: str, column: str, share: float) -> str:
    return f"AI_FILTER('{question} ?', {column}, {{'selectivity': {share}}})"


def pair(question: str, ticket: str, product: str, share: float, more: str = "") -> str:
    documents = f"{ticket}.body, {product}.description"
    return f"AI_FILTER(PROMPT('{question} {{0}} {{1}}', {documents}), {{'selectivity': {share}{more}}})"


def statement(tickets: float, fits: float, other: float, products: float, more: str = "") -> str:
    """A chain whose first and last pairs are asked alike. Shares: of tickets, like pairs, others, products."""
    parts = (
        about("open", "t1.body", tickets),
        about("sold", "p1.description", products),
        pair("fits", "t1", "p1", fits, more.format("t1", "p1")),
        about("open", "t2.body", tickets),
        pair("other", "t2", "p1", other),
        about("sold", "p2.description", products),
        pair("fits", "t2", "p2", fits, more.format("t2", "p2")),
    )
    return (
        f"SELECT count(*) FROM tickets t1, products p1, tickets t2, products p2 WHERE {' AND '.join(parts)}"
    )


@pytest.fixture
def planned(catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch):
    """Steps of a statement, and the fresh tokens that its order is expected to take."""
    attempts: list[Attempt] = []

    def noted(*arguments):
        found = agree(*arguments)
        attempts.append(found[0])
        return found

    monkeypatch.setattr(arrange, "agree", noted)

    def planned(sql: str, known: Pinned) -> tuple[list[AskStep], float]:
        steps = list(plan(sql, catalog, OPTIONS, (), known).physical.steps)
        return steps, attempts[-1].found.work.fresh

    return planned


def anchors(steps: list[AskStep]) -> set[str]:
    """The anchors of the question that is asked twice, by column."""
    asked = [step for step in steps if "fits" in step.questions[0].call]
    assert len(asked) == 2
    return {step.anchors.arguments[0].expression.partition(".")[2] for step in asked}


@pytest.mark.parametrize(
    ("known", "shares", "anchor"),
    [
        (statistics((40, 30), (30, 80)), (0.125, 0.9, 0.05, 0.033), "description"),
        (statistics((30, 80), (40, 30)), (0.033, 0.9, 0.05, 0.125), "body"),
        (statistics((40, 300), (30, 30)), (0.5, 0.1, 0.5, 0.5), "body"),
        (statistics((200, 30), (30, 300)), (0.9, 0.2, 0.01, 0.9), "description"),
    ],
)
def test_alike_questions_are_asked_from_the_side_that_costs_both_less(
    planned, known: Pinned, shares: tuple[float, float, float, float], anchor: str
) -> None:
    """Whichever side that is: an option that pins one for both makes nothing cheaper."""
    steps, tokens = planned(statement(*shares), known)
    assert anchors(steps) == {anchor}
    for pinned in ("{0}", "{1}"):
        assert tokens <= 1.0001 * planned(statement(*shares, f", 'anchor': '{pinned}'"), known)[1]


def test_an_anchor_is_asked_only_in_a_pair() -> None:
    """Of a side that one text in a hundred is left of, the other side's long texts are hardly ever needed."""
    documents = (Documents(0, 10.0, 1_000.0), Documents(1, 10.0, 5.0))
    rare = Predicate((Side(1, None, Prompt(shared="filter")),), Share.sure(0.001))
    join = Predicate((Side(0, 1, Prompt(shared="pairs")),), Share.sure(0.5))
    problem = Problem((Relation("a", 10.0), Relation("b", 10.0)), documents, (rare, join))
    first, then = Costs(problem).of(np.array([0, 1]))[:, 1, 0, 0]
    assert first == pytest.approx(10 * 1_000 + 100 * 5)
    assert then == pytest.approx(0.1 * 1_000 + 0.1 * 5, rel=0.05)
