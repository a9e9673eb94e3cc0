"""What AI calls mean in another dialect than DuckDB's, told on a tree that is already DuckDB's; never on a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from covey_planner.binding.ctes import without_calls
from covey_planner.errors import PlanError, Position
from covey_planner.language.functions import CLASSIFY
from covey_planner.language.multi import OBJECT, is_list
from covey_planner.language.parse import Statement, site_number, token_position
from covey_planner.language.render import render


def adapt(statement: Statement, dialect: str) -> None:
    """Give the statement's answers the shape, and its results the names, that the dialect's users expect."""
    _name_answers(statement)
    if dialect == "snowflake":
        for node in list(statement.tree.walk()):
            number = site_number(node)
            site = None if number is None else statement.scan.sites[number]
            if site is not None and site.function in CLASSIFY and not site.is_comparison:
                _object(node, lambda label: exp.Array(expressions=[label]))
            elif is_list(node):
                _object(node, lambda labels: labels)


def described(statement: Statement) -> str:
    """The statement with each AI call replaced by a typed NULL."""
    return render(without_calls(statement.tree), copy=False)


def placed(error: PlanError, statement: Statement) -> PlanError:
    """The error with the place of the first name that it quotes, where it has none."""
    found = re.search(r"'([^']+)'", error.message)
    if error.position is not None or found is None:
        return error
    places: Sequence[Position] = [
        token_position(token) for token in statement.scan.tokens if token.text.lower() == found[1].lower()
    ]
    return type(error)(error.message, places[0] if places else None)


def _name_answers(statement: Statement) -> None:
    """Name the computed outputs that have no name by their own text: what was made of it is not the user's."""
    select: exp.Expr = statement.tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select) or len(select.expressions) != len(statement.names):
        return
    for item, name in zip(list(select.expressions), statement.names, strict=True):
        if not isinstance(item, exp.Alias | exp.Column) and not item.is_star:
            item.replace(exp.alias_(item.copy(), name, quoted=True, copy=False))


def _object(answer: exp.Expr, labels: Callable[[exp.Expr], exp.Expr]) -> None:
    """Snowflake's answer to AI_CLASSIFY is an object with a list of labels; NULL stays NULL."""
    pairs = [
        exp.PropertyEQ(this=exp.to_identifier("labels"), expression=labels(exp.Null())) for _ in range(2)
    ]
    known, unknown = (exp.Struct(expressions=[pair]) for pair in pairs)
    made = exp.Nullif(this=known, expression=unknown)
    made.meta[OBJECT] = True
    answer.replace(made)
    pairs[0].set("expression", labels(answer))
