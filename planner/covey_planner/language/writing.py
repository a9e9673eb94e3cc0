"""From a statement that writes to the query whose AI calls are answered, and back to the statement that DuckDB runs.

CREATE TABLE AS, INSERT, MERGE and CREATE VIEW hold a query as it is: their own text around it goes to DuckDB verbatim.
UPDATE and DELETE are read as a SELECT of the rows they change. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from covey_planner.errors import Position, Unsupported

WRITTEN = "covey_written"
"""Key in a SELECT's meta: it stands for a statement with its own FROM, into which nothing can be joined."""

VIEW_MARK = "covey: "
"""How the comment of a view that holds AI calls begins; its query follows as written."""

_CREATE_WORDS = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY"})
_QUERY_STARTS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True)
class Writing:
    """A statement that writes. first, last: the tokens of its query, all of them for UPDATE and DELETE; name: of a
    view, as written; view: the same in lower case, without its schema.
    """

    kind: Literal["table", "insert", "view", "change"]
    first: int
    last: int
    name: str = ""
    view: str = ""


def find_writing(tokens: Sequence[Token], sql: str) -> Writing | None:
    """What a statement writes, by its tokens; None for a query, or what is not known. Raises Unsupported."""
    match tokens[0].text.upper() if tokens else "":
        case "CREATE":
            return _create(tokens, sql)
        case "INSERT":
            return _insert(tokens)
        case "UPDATE" | "DELETE":
            return Writing("change", 0, len(tokens))
        case "WITH":
            return _with(tokens)
        case "MERGE":
            return _merge(tokens)
    return None


def _with(tokens: Sequence[Token]) -> Writing | None:
    """WITH before UPDATE or DELETE; before INSERT it would not stand where the query is."""
    for at, token in _outside(tokens):
        if at and tokens[at - 1].text == ")" and token.token_type in {TokenType.UPDATE, TokenType.DELETE}:
            return Writing("change", 0, len(tokens))
        if at and tokens[at - 1].text == ")" and token.token_type == TokenType.INSERT:
            raise Unsupported("with AI calls, WITH stands behind INSERT INTO …", _position(token))
    return None


def _create(tokens: Sequence[Token], sql: str) -> Writing | None:
    at = 1
    while at < len(tokens) and tokens[at].text.upper() in _CREATE_WORDS:
        at += 1
    kind = tokens[at].text.upper() if at < len(tokens) else ""
    as_ = next((n for n, token in _outside(tokens) if n > at and token.token_type == TokenType.ALIAS), None)
    if kind not in {"TABLE", "VIEW"} or as_ is None:
        return None
    last = len(tokens)
    if [token.text.upper() for token in tokens[-2:]] == ["NO", "DATA"]:
        last -= 3
    if kind == "TABLE":
        return Writing("table", as_ + 1, last)
    named = [token for n, token in _outside(tokens) if at < n < as_ and token.text != "("]
    words = [token.text.upper() for token in named]
    if words[:3] == ["IF", "NOT", "EXISTS"]:
        raise Unsupported(
            "CREATE VIEW IF NOT EXISTS with an AI call is not supported: write CREATE OR REPLACE VIEW",
            _position(named[0]),
        )
    if "." in words and words[0] not in {"MAIN", "TEMP"}:
        raise Unsupported("a view with AI calls belongs in the schema main", _position(named[0]))
    return Writing("view", as_ + 1, last, sql[named[0].start : named[-1].end + 1], named[-1].text.lower())


def _insert(tokens: Sequence[Token]) -> Writing | None:
    first = last = None
    for at, token in _outside(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        inner = following is not None and (_starts(following) or following.text == "(")
        if first is None and (_starts(token) or (token.text == "(" and inner)):
            first = at
        conflict = token.text.upper() == "ON" and following is not None
        conflict = conflict and following is not None and following.text.upper() == "CONFLICT"
        if first is not None and last is None and (conflict or token.text.upper() == "RETURNING"):
            last = at
    return None if first is None else Writing("insert", first, len(tokens) if last is None else last)


def _starts(token: Token) -> bool:
    """Whether a query may start with a token; VALUES is no keyword in every dialect."""
    return token.token_type in _QUERY_STARTS or (
        token.token_type == TokenType.VAR and token.text.upper() == "VALUES"
    )


def _merge(tokens: Sequence[Token]) -> Writing:
    """The query behind USING; nothing where a table stands there."""
    using = next((at for at, token in _outside(tokens) if token.text.upper() == "USING"), len(tokens))
    if [token.text for token in tokens[using + 1 : using + 2]] != ["("]:
        return Writing("insert", len(tokens), len(tokens))
    inside = using + 2
    depth = 1
    last = inside
    while last < len(tokens) and depth:
        text = "" if tokens[last].token_type == TokenType.STRING else tokens[last].text
        depth += (text in _OPEN) - (text in _CLOSE)
        last += 1
    return Writing("insert", inside, last - 1)


def _outside(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """The tokens that stand outside all brackets, and the brackets that open there."""
    found: list[tuple[int, Token]] = []
    depth = 0
    for at, token in enumerate(tokens):
        if token.token_type != TokenType.STRING and token.text in _CLOSE:
            depth -= 1
        elif depth == 0:
            found.append((at, token))
        if token.token_type != TokenType.STRING and token.text in _OPEN:
            depth += 1
    return found


def _position(token: Token) -> Position:
    return Position(token.line, token.col - (token.end - token.start))


@dataclass(frozen=True)
class Change:
    """An UPDATE or DELETE. select: of the rows it changes, yielding the values that it sets."""

    tree: exp.Expr
    select: exp.Select

    @staticmethod
    def of(tree: exp.Expr, position: Position) -> Change:
        """Read one. Raises Unsupported for any other statement."""
        if not isinstance(tree, exp.Update | exp.Delete) or not isinstance(tree.this, exp.Table):
            raise Unsupported(f"an AI call in this {tree.key.upper()} is not supported", position)
        values = [part.expression.copy() for part in tree.expressions] if isinstance(tree, exp.Update) else []
        clause = tree.args.get("from_")
        more = [clause.this] if clause is not None else list(tree.args.get("using") or [])
        select = exp.Select(
            expressions=values or [exp.Literal.number(1)],
            from_=exp.From(this=tree.this.copy()),
            joins=[join for table in more for join in _joins(table.copy())],
        )
        for key in ("where", "with_"):
            if tree.args.get(key) is not None:
                select.set(key, tree.args[key].copy())
        select.meta[WRITTEN] = True
        return Change(tree, select)

    def statement(self) -> exp.Expr:
        """The statement, made of the SELECT's own parts: they know what they were found to be."""
        changed = self.tree.copy()
        if isinstance(changed, exp.Update):
            for part, value in zip(changed.expressions, self.select.expressions, strict=True):
                part.args["expression"] = value
        for key in ("where", "with_"):
            if changed.args.get(key) is not None:
                changed.args[key] = self.select.args[key]
        joins = self.select.args.get("joins") or []
        if joins:
            first = _alone(joins[0].this).copy()
            first.set("joins", [*(first.args.get("joins") or []), *(join.copy() for join in joins[1:])])
            if isinstance(changed, exp.Update):
                changed.args["from_"].args["this"] = first
            else:
                changed.args["using"] = [first]
        return changed


def _joins(table: exp.Expr) -> list[exp.Join]:
    """A member of the statement's FROM, and what is joined to it, as joins of a SELECT; where a RIGHT or FULL join
    would take in the changed table too, in parentheses.
    """
    joins: list[exp.Join] = list(table.args.get("joins") or [])
    for join in joins:
        if not any(join.args.get(key) for key in ("kind", "side", "method", "on", "using")):
            join.set("kind", "CROSS")
    if any(str(join.side).upper() in {"RIGHT", "FULL"} for join in joins):
        return [exp.Join(this=exp.Subquery(this=table), kind="CROSS")]
    table.set("joins", None)
    return [exp.Join(this=table, kind="CROSS"), *joins]


def _alone(member: exp.Expr) -> exp.Expr:
    """A member of FROM without the parentheses that kept it together."""
    inner: exp.Expr = member.this
    return inner if isinstance(member, exp.Subquery) and isinstance(inner, exp.Table) else member


def refusing(name: str, kind: str, in_window: bool = False) -> str:
    """What stands for an AI call in the view that DuckDB keeps: it has the type, and no value.

    in_window: it stands in the order or the partitions of a window, where nothing volatile may.
    """
    said = f"the view {name} asks a model: it can only be read by a statement that the planner has seen"
    text = f"'{said.replace(chr(39), chr(39) * 2)}'"
    if in_window:
        return f"CAST(CAST({text} AS INTEGER{'[]' if kind.endswith('[]') else ''}) AS {kind})"
    return f"CAST(error({text}) AS {kind})"


def windows(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Where the descriptions of windows, OVER (…) and WINDOW w AS (…), begin and end in the text."""
    found: list[tuple[int, int]] = []
    opened: list[int | None] = []
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.STRING:
            continue
        if token.text in _OPEN:
            before, after = (tokens[n].text.upper() if 0 <= n < len(tokens) else "" for n in (at - 1, at + 1))
            describes = before == "OVER" or (before == "AS" and after.startswith(("PARTITION", "ORDER")))
            opened.append(token.start if describes else None)
        elif token.text in _CLOSE and opened:
            start = opened.pop()
            if start is not None:
                found.append((start, token.end))
    return found


def view(text: str, name: str, query: str) -> str:
    """The statements that create a view. text: CREATE VIEW … for DuckDB; query: its query as written."""
    comment = (VIEW_MARK + query).replace("'", "''")
    return f"{text}; COMMENT ON VIEW {name} IS '{comment}'"
