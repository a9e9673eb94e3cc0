"""Hint options of calls reach the planner as data, and change neither the question nor what is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from covey_planner.binding.bind import bind
from covey_planner.call import Call
from covey_planner.language.parse import parse, scan
from covey_planner.logical import Ask, filters, leaves
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog


def call_of(catalog: MemoryCatalog, call: str, literals: Sequence[str] = ()) -> Call:
    scanned = scan(f"SELECT id FROM tickets t WHERE {call}")
    assert scanned is not None
    (block,) = bind(parse(scanned, literals), catalog).blocks
    (leaf,) = leaves(filters(block.plan)[1][0])
    assert isinstance(leaf, Ask)
    return leaf.call


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ("", None),
        (", {'selectivity': 0.25}", 0.25),
        (", selectivity => 1", 1.0),
        (", selectivity := (0)", 0.0),
        (", {'anchor': 't'}", None),
    ],
)
def test_selectivity(catalog: MemoryCatalog, options: str, share: float | None) -> None:
    call = call_of(catalog, f"AI_FILTER('a?', t.body{options})")
    assert call.selectivity == share
    assert call.anchor == ("t" if "anchor" in options else None)


def test_selectivity_from_a_parameter(catalog: MemoryCatalog) -> None:
    assert (
        call_of(catalog, "AI_FILTER('a?', body, selectivity => ?)", ["CAST('0.5' AS DOUBLE)"]).selectivity
        == 0.5
    )


def test_a_hint_is_no_part_of_the_question(catalog: MemoryCatalog) -> None:
    hinted, plain = (
        call_of(catalog, f"AI_FILTER('a?', body{options})") for options in (", selectivity => 0.1", "")
    )
    assert hinted.identity == plain.identity
    twice = "SELECT AI_FILTER('a?', body, selectivity => 0.1), AI_FILTER('a?', body) FROM tickets"
    (step,) = plan(twice, catalog, PlanOptions(DOCUMENT_FIRST)).physical.steps
    assert len(step.questions) == 1


@pytest.mark.parametrize("name", ["main.AI_FILTER", "snowflake.cortex.ai_filter", "CORTEX.AI_FILTER"])
def test_qualified_names(catalog: MemoryCatalog, name: str) -> None:
    call = call_of(catalog, f"{name}('a?', body)")
    assert call.text == f"{name}('a?', body)"
    assert call.identity == call_of(catalog, "AI_FILTER('a?', body)").identity
