"""The types of a statement's parameters, read from the words around them; never runs a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from covey_planner.binding.scope import Catalog
from covey_planner.language.parameters import Placeholder, parameter_keys
from covey_planner.language.parse import SITE, site_type

_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "//"})
_COMPARISONS = frozenset({"=", "==", "<", "<=", ">", ">=", "<>", "!=", "LIKE", "ILIKE"})
_RESULTS = {
    **dict.fromkeys(("AVG", "SQRT"), "DOUBLE"),
    **dict.fromkeys(("COUNT", "COUNT_IF", "COUNTIF", "LENGTH", "LEN"), "BIGINT"),
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE"), "BIGINT"),
}
"""The types of what functions give."""
_SAME = frozenset({"MAX", "MIN", "ANY_VALUE", "FIRST", "LAST", "ABS"})
"""Functions that give what they are given."""


def infer_types(
    tokens: Sequence[Token], placeholders: Sequence[Placeholder], catalog: Catalog
) -> dict[int | str, str]:
    """The DuckDB type of each parameter: of the column, the function's result or the value of a subquery that it is
    compared or calculated with, a number's beside a number, BIGINT for a count of rows, else VARCHAR.
    """
    types: dict[int | str, str] = dict.fromkeys(parameter_keys(placeholders), "VARCHAR")
    columns: dict[str, set[str]] = {}
    said = {token.text.lower() for token in tokens} - set(_ctes(tokens))
    for table, kinds in catalog.columns().items():
        for name, kind in kinds.items() if table.lower().rpartition(".")[2] in said else ():
            columns.setdefault(name.lower(), set()).add(kind)
    for place, at, end in _placed(tokens, placeholders):
        found = _type_around(tokens, at, end, columns)
        if found is not None:
            types[place.key] = found
    return types


def _ctes(tokens: Sequence[Token]) -> Iterator[str]:
    """The names of CTEs, which hide stored tables."""
    texts = [token.text.upper() for token in tokens]
    for at in range(1, len(texts) - 2):
        named = texts[at - 1] in {"WITH", "RECURSIVE", ","} and texts[at + 1] == "AS"
        if named and texts[at + 2] in {"(", "MATERIALIZED", "NOT"}:
            yield tokens[at].text.lower()


def typed_nulls(
    tokens: Sequence[Token], placeholders: Sequence[Placeholder], types: Mapping[int | str, str]
) -> tuple[str, ...]:
    """A NULL in the place of each parameter, as SQL; of no type beside a comparison with what has none for sure."""
    return tuple(
        "NULL"
        if types[place.key] == "VARCHAR" and _is_compared(tokens, at, end)
        else f"CAST(NULL AS {types[place.key]})"
        for place, at, end in _placed(tokens, placeholders)
    )


def _placed(
    tokens: Sequence[Token], placeholders: Sequence[Placeholder]
) -> Iterator[tuple[Placeholder, int, int]]:
    """Each placeholder with the numbers of its first and last token."""
    by_start = {token.start: at for at, token in enumerate(tokens)}
    for place in placeholders:
        at = by_start[place.start]
        yield place, at, next((n for n in range(at, len(tokens)) if tokens[n].end >= place.end - 1), at)


def _is_compared(tokens: Sequence[Token], at: int, end: int) -> bool:
    """Whether the placeholder of these tokens is a side of a comparison or a bound of a range."""
    before = [token.text.upper() for token in tokens[max(0, at - 3) : at]]
    beside = [*before[-1:], *(token.text.upper() for token in tokens[end + 1 : end + 2])]
    return not _COMPARISONS.isdisjoint(beside) or "BETWEEN" in (*before[-1:], *before[-3:-2])


def _type_around(tokens: Sequence[Token], at: int, end: int, columns: Mapping[str, set[str]]) -> str | None:
    """The type that the neighbours of a placeholder (tokens at … end) suggest."""
    before = [token.text.upper() for token in tokens[max(0, at - 2) : at]]
    after = tokens[end + 1 : end + 3]
    if before[-1:] in (["LIMIT"], ["OFFSET"]):
        return "BIGINT"
    if after and after[0].token_type == TokenType.DCOLON and len(after) > 1:
        return after[1].text.upper()
    if len(before) == 2 and before[-1] in _COMPARISONS:
        return _type_before(tokens, at - 2, columns)
    for back in (1, 3):  # x BETWEEN ? AND ?
        if at > back and tokens[at - back].text.upper() == "BETWEEN":
            negated = tokens[at - back - 1].text.upper() == "NOT"
            return _type_before(tokens, at - back - 1 - negated, columns)
    opening = at - 1
    while opening > 1 and tokens[opening].token_type in {TokenType.COMMA, TokenType.PLACEHOLDER}:
        opening -= 1
    if opening > 1 and tokens[opening].text == "(" and tokens[opening - 1].text.upper() == "IN":
        negated = tokens[opening - 2].text.upper() == "NOT"
        return _type_before(tokens, opening - 2 - negated, columns)
    if after and after[0].text.upper() in _COMPARISONS:
        return _type_behind(tokens, end + 2, columns)
    beside = [tokens[at - 2]] if len(before) == 2 and before[-1] in _ARITHMETIC else []
    beside += [after[1]] if len(after) == 2 and after[0].text in _ARITHMETIC else []
    return next(filter(None, (_operand_type(token, columns) for token in beside)), None)


def _type_before(tokens: Sequence[Token], at: int, columns: Mapping[str, set[str]]) -> str | None:
    """The type of the operand whose last token is there."""
    if at < 0:
        return None
    if tokens[at].text != ")":
        return _only(columns.get(tokens[at].text.lower()))
    depth, opening = 1, at
    while depth and opening:
        opening -= 1
        depth += (tokens[opening].text == ")") - (tokens[opening].text == "(")
    if depth:
        return None
    name = tokens[opening - 1].text.upper() if opening else ""
    if name in _RESULTS or name in _SAME or tokens[opening - 1].text.startswith(SITE):
        return _type_behind(tokens, opening - 1, columns)
    if name == "OVER":
        return _type_before(tokens, opening - 2, columns)
    return _type_behind(tokens, opening, columns)


def _type_behind(tokens: Sequence[Token], at: int, columns: Mapping[str, set[str]]) -> str | None:
    """The type of the operand whose first token is there: a column, a call, a subquery, or something in brackets."""
    while at + 1 < len(tokens) and tokens[at].text.upper() in {"(", "SELECT"}:
        at += 1
    while at + 2 < len(tokens) and tokens[at + 1].token_type == TokenType.DOT:
        at += 2
    if at >= len(tokens):
        return None
    name, called = tokens[at].text.upper(), at + 1 < len(tokens) and tokens[at + 1].text == "("
    if not called:
        return _only(columns.get(tokens[at].text.lower()))
    if tokens[at].text.startswith(SITE):
        return site_type(tokens[at].text)
    return _type_behind(tokens, at + 2, columns) if name in _SAME else _RESULTS.get(name)


def _operand_type(token: Token, columns: Mapping[str, set[str]]) -> str | None:
    """The type of a number or of a column, where it is certain."""
    if token.token_type == TokenType.NUMBER:
        return "BIGINT" if token.text.isdigit() else "DOUBLE"
    return _only(columns.get(token.text.lower()))


def _only(kinds: set[str] | None) -> str | None:
    return next(iter(kinds)) if kinds is not None and len(kinds) == 1 else None
