"""Each rule on its own: what goes in, what comes out, and where it must not fire (fixtures in rules/, one
file a rule).

A fixture is a chain of filters, the first applied first. `A(x)` stands for AI_FILTER('A?', x), `J(x, y)` for
a question about two documents.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from covey_planner.binding.bind import bind
from covey_planner.language.parse import parse, scan
from covey_planner.language.render import render
from covey_planner.logical import All, Any, Ask, Cheap, Condition, Filter, Logical, Mixed, Node, Not, filters
from covey_planner.optimize import optimize, rewrite
from covey_planner.rules import RULES
from support.plan_reference import MemoryCatalog

FOLDER = Path(__file__).parent / "rules"


def fixtures() -> list[tuple[str, str, str]]:
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        for part in path.read_text(encoding="utf-8").split("\n\n"):
            if not part.startswith("--"):
                given, _, expected = part.strip().partition("\n=>")
                found.append((path.stem, given, expected.strip()))
    return found


def bound(catalog: MemoryCatalog, where: str) -> Logical:
    def call(found: re.Match[str]) -> str:
        name, values = found[1], found[2]
        if name in "JK":
            return f"AI_FILTER(PROMPT('{name} {{0}} {{1}}', {values}))"
        return f"AI_FILTER('{name}?', {values})"

    text = re.sub(r"\b([A-K])\(((?:[^()]|\([^()]*\))*)\)", call, where)
    sql = (
        "SELECT 1 FROM tickets t, (SELECT id AS pid, description FROM products) p"
        f" WHERE AI_FILTER('never?', t.body) OR {text}"
    )
    scanned = scan(sql)
    assert scanned is not None
    return bind(parse(scanned, ()), catalog)


def condition(catalog: MemoryCatalog, where: str) -> Condition:
    (block,) = bound(catalog, f"({where})").blocks
    _, (tree,) = filters(block.plan)
    assert isinstance(tree, Any)
    return tree.parts[1] if len(tree.parts) == 2 else Any(tree.parts[1:])


def show(tree: Condition, inside: bool = False) -> str:
    match tree:
        case Ask(call):
            first = call.template.parts[0]
            documents = ", ".join(argument.text for argument in call.arguments)
            return f"{str(first).strip()[0]}({documents})"
        case Not(part):
            return f"NOT {show(part, True)}"
        case All(parts) | Any(parts):
            text = (" AND " if isinstance(tree, All) else " OR ").join(show(part, True) for part in parts)
            return f"({text})" if inside else text
        case Cheap(expr) | Mixed(expr):
            text = re.sub(r"__COVEY_CALL_\d+B\('(\w)\?', ", r"\1(", render(expr))
            return re.sub(r"\b[tp]\.", "", text)


def plan_of(catalog: MemoryCatalog, lines: list[str]) -> Node:
    (block,) = bound(catalog, "false").blocks
    node: Node = filters(block.plan)[0]
    for number, line in enumerate(lines):
        node = Filter(node, _renumbered(condition(catalog, line), 10 * number))
    return node


def _renumbered(tree: Condition, by: int) -> Condition:
    match tree:
        case Ask(call):
            return Ask(replace(call, site=call.site + by))
        case Not(part):
            return Not(_renumbered(part, by))
        case All(parts) | Any(parts):
            return type(tree)(tuple(_renumbered(part, by) for part in parts))
    return tree


@pytest.mark.parametrize(("name", "given", "expected"), fixtures())
def test_rule(catalog: MemoryCatalog, name: str, given: str, expected: str) -> None:
    (rule,) = [rule for rule in RULES if rule.__name__ == name]
    node = plan_of(catalog, given.splitlines())
    before = [show(part) for part in filters(node)[1]]
    after = [show(part) for part in filters(rewrite(node, (rule,)))[1]]
    assert after == (before if expected == "no change" else expected.splitlines())


def test_every_rule_has_fixtures_and_a_case_where_it_must_not_fire() -> None:
    for rule in RULES:
        cases = [expected for name, _, expected in fixtures() if name == rule.__name__]
        assert len(cases) >= 4
        assert "no change" in cases


def test_a_rule_that_loses_a_filter_is_blamed(catalog: MemoryCatalog) -> None:
    def lose(node: Node) -> Node | None:
        return node.input if isinstance(node, Filter) else None

    with pytest.raises(AssertionError, match="rule lose changed what the plan reads or asks"):
        rewrite(plan_of(catalog, ["A(body)", "id > 3"]), (lose,))


def test_a_rule_without_end_is_blamed(catalog: MemoryCatalog) -> None:
    def swap(node: Node) -> Node | None:
        match node:
            case Filter(Filter(below, first), second):
                return Filter(Filter(below, second), first)
        return None

    with pytest.raises(AssertionError, match="rule swap does not come to an end"):
        rewrite(plan_of(catalog, ["A(body)", "id > 3"]), (swap,))


def test_the_trace_names_the_rules_that_changed_something(catalog: MemoryCatalog) -> None:
    said: list[str] = []
    logical = bound(catalog, "(B(body) AND id > 3)")
    optimize(logical, trace=lambda rule, node: said.append(rule))
    assert said == ["order_parts"]
