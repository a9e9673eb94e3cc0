"""What is said about AI calls where none can stand: tokens of a statement in, an error with its place out; no tree.

Each says what to write instead, as far as there is something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from covey_planner.errors import PlanError, Position, Unsupported

_STORE = "store its answers in a column: CREATE TABLE … AS SELECT *, {call}(…) AS answer FROM …"
_STATEMENTS = {
    "PIVOT": "write SELECT * FROM (SELECT …, {call}(…) AS answer FROM …) PIVOT (… FOR answer IN (…))",
    "UNPIVOT": "write SELECT * FROM (SELECT …, {call}(…) AS answer FROM …) UNPIVOT (value FOR name IN (…))",
    "SUMMARIZE": "summarize a table of its answers: CREATE TABLE … AS SELECT …, {call}(…) AS answer FROM …",
    "DESCRIBE": "EXPLAIN says what it costs, and a prepared statement its columns",
    "SHOW": "EXPLAIN says what it costs, and a prepared statement its columns",
    "ALTER": _STORE,
}
_IN_TABLES = {
    "CHECK": "a CHECK constraint",
    "DEFAULT": "a DEFAULT",
    "AS": "a generated column",
    "REFERENCES": "a constraint",
}


def statement_refused(tokens: Sequence[Token], call: str, position: Position, start: int) -> PlanError:
    """An AI call in a statement that is neither query nor known to write. call: its function; start: of its text."""
    words = [token.text.upper() for token in tokens]
    kind = words[0]
    if kind == "CREATE" and "INDEX" in words[1:3]:
        return Unsupported(f"an AI call in an index is not supported: {_STORE.format(call=call)}", position)
    if kind == "CREATE" and "TABLE" in words[1:5]:
        before = [word for token, word in zip(tokens, words, strict=True) if token.start < start]
        where = next(
            (_IN_TABLES[word] for word in reversed(before) if word in _IN_TABLES), "a column of a table"
        )
        return Unsupported(
            f"an AI call in {where} is not supported, as a model is asked by statements only: "
            + _STORE.format(call=call),
            position,
        )
    instead = _STATEMENTS.get(kind)
    if instead is not None:
        return Unsupported(f"an AI call in {kind} is not supported: {instead.format(call=call)}", position)
    what = " ".join(words[:2]) if kind == "CREATE" else kind
    return Unsupported(f"{what} with an AI call is not supported; only queries are", position)


def place_refused(tokens: Sequence[Token], call: str, position: Position, start: int) -> PlanError:
    """An AI call beside the query of a statement that writes."""
    before = [
        token.text.upper() for token in tokens if token.start < start and token.token_type != TokenType.STRING
    ]
    if "RETURNING" in before:
        where, instead = "RETURNING", "return the rows, and ask about them in a SELECT"
    elif "CONFLICT" in before:
        where, instead = "ON CONFLICT", "compute it in the query, and read it as excluded.column"
    elif before[:1] == ["MERGE"]:
        where = "MERGE"
        instead = f"compute it in the query behind USING: USING (SELECT *, {call}(…) AS answer FROM …) AS s"
    else:
        return Unsupported(f"{call} at this place is not supported", position)
    return Unsupported(f"an AI call in {where} is not supported: {instead}", position)


def lost_in_limit(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Ties and percentages that DuckDB's LIMIT has no form for, and that would be lost in it; and what is said."""
    words = [token.text.upper() if token.token_type != TokenType.STRING else "" for token in tokens]
    for at, word in enumerate(words):
        if word == "TIES" and words[at - 1] == "WITH":
            yield tokens[at - 1], "WITH TIES is not supported: write QUALIFY rank() OVER (ORDER BY …) <= n"
        if word == "PERCENT" and at > 1 and words[at - 2] in ("FIRST", "NEXT"):
            yield tokens[at], "FETCH … PERCENT is not supported: write LIMIT with a percentage, LIMIT 10%"


def in_lambda(call: str) -> str:
    """What is said about a call in a lambda or a list comprehension."""
    return (
        f"{call} inside a lambda is not supported: ask about the list's values as rows, "
        f"FROM t, UNNEST(t.list) AS u(value) WHERE {call}('…', u.value)"
    )


def in_reduction(call: str) -> str:
    """What is said about a call whose question depends on its own answers."""
    return (
        f"{call} in the lambda of list_reduce is not supported, as what it asks depends on its own answers: ask about"
        " each value before, list_transform(list, lambda x: …), and reduce the answers"
    )


def on_list(what: str) -> str:
    """What is said about a list that rows cannot be read from."""
    return (
        f"a list of {what}, in whose lambda an AI call stands, is not supported: compute the list in a derived table,"
        " FROM (SELECT …, … AS list FROM …)"
    )
