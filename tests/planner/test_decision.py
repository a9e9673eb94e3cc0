"""Decision programs: they end as soon as the truth is known, and evaluate as three-valued logic does."""

from __future__ import annotations

import itertools

import pytest
from covey_planner.call import Call
from covey_planner.errors import Position
from covey_planner.logical import All, Any, Ask, Condition, Not
from covey_planner.lowering.decision import decide
from covey_planner.physical import MATCH
from covey_planner.prompts import Template


def call(name: str) -> Ask:
    return Ask(Call(ord(name), name, Template((name, 0)), (), Position(1)))


A, B, C, D = map(call, "abcd")


def value(tree: Condition, known: dict[str, bool]) -> bool | None:
    match tree:
        case Ask(one):
            return known.get(one.text)
        case Not(part):
            inner = value(part, known)
            return None if inner is None else not inner
        case All(parts) | Any(parts):
            ends = isinstance(tree, Any)
            values = [value(part, known) for part in parts]
            return ends if ends in values else None if None in values else not ends
    raise AssertionError


@pytest.mark.parametrize(
    "tree",
    [
        A,
        Not(A),
        All((A, B, C)),
        Any((A, B, C)),
        All((Any((A, B)), Any((C, D)))),
        Any((All((A, B)), All((C, B)), All((Not(A), Not(C))))),
        All((Any((A, Not(B))), Any((Not(A), C)), Any((B, Not(C), D)))),
        Not(Any((All((A, B)), Not(All((C, D)))))),
        All((A, A, Not(B))),
        Any((A, Not(A))),
    ],
)
def test_programs_decide_what_the_tree_says_and_ask_no_more(tree: Condition) -> None:
    program = decide(tree)
    for answers in itertools.product([False, True], repeat=4):
        truth = dict(zip("abcd", answers, strict=True))
        known: dict[str, bool] = {}
        at = 0
        while at >= 0:
            assert value(tree, known) is None, "nothing is asked once the truth is known"
            name = program[at].call.text
            assert name not in known
            known[name] = truth[name]
            following = program[at].on_true if truth[name] else program[at].on_false
            assert following in (-1, MATCH) or following > at
            at = following
        assert value(tree, known) == value(tree, truth) == (at == MATCH)


def test_a_chain_has_one_node_a_call() -> None:
    program = decide(All((A, B, C)))
    assert [(d.call.text, d.on_true, d.on_false) for d in program] == [
        ("a", 1, -1),
        ("b", 2, -1),
        ("c", MATCH, -1),
    ]


def test_too_large_a_tree_is_asked_without_short_circuit() -> None:
    names = "abcdefghijklmnop"
    pairs = [All((call(names[i]), Not(call(names[i + 8])))) for i in range(8)]
    mixed = Any((*pairs, *(All((Not(call(names[i])), call(names[15 - i]))) for i in range(8))))
    program = decide(mixed)
    assert {decision.call.text for decision in program} <= set(names)
    linear = [(n + 1, n + 1) for n in range(15)] + [(-1, -1)]
    assert [(d.on_true, d.on_false) for d in program] == linear
