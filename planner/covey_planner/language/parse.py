"""From SQL text to a syntax tree in which every AI call is a numbered site; never looks at a catalog.

Tokens are changed before sqlglot parses them: an AI function's name becomes `__covey_call_<site>`, so that
every dialect's spelling parses alike and a site keeps its place in the text; parameters become literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from covey_planner.errors import BindError, ParseError, Position, Unsupported
from covey_planner.language.dialects import parse_error, to_duckdb
from covey_planner.language.explained import Explain, strip_explain
from covey_planner.language.functions import COUNT, GENERATING, KNOWN, LABEL, MENTION, OTHERS, SCORE
from covey_planner.language.parameters import Placeholder, find_placeholders
from covey_planner.language.refusals import lost_in_limit, statement_refused
from covey_planner.language.writing import Writing, find_writing
from covey_planner.physical import Above

SITE = "__covey_call_"
_TYPES = {"b": "BOOLEAN", "d": "DOUBLE", "v": "VARCHAR", "i": "BIGINT"}
RESERVED = "__covey_"

_QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN, TokenType.VALUES})


@dataclass(frozen=True)
class Site:
    """An AI call as written: its number in the text, its function, the type of its answer, and where it stands.

    above, accepted: where it stands in the tree for a comparison of its answer, the bound or the labels of that.
    repeated: another site in the tree stands for it.
    """

    number: int
    function: str
    type: str
    start: int
    end: int
    position: Position
    above: Above | None = None
    accepted: tuple[str, ...] | None = None
    repeated: bool = False

    @property
    def is_comparison(self) -> bool:
        """Whether it stands for a comparison of its answer."""
        return self.above is not None or self.accepted is not None

    @property
    def null(self) -> str:
        """NULL of its type, as SQL."""
        return f"CAST(NULL AS {self.type})"


@dataclass(frozen=True)
class Scan:
    """What the tokens tell: AI calls, parameters, and which kind of statement it is.

    explain: how it is to be explained, None where it is to run. unbound: its parameters have no values, and are read
    as typed NULLs. writing: what it writes, if it does.
    """

    sql: str
    tokens: tuple[Token, ...]
    sites: tuple[Site, ...]
    placeholders: tuple[Placeholder, ...]
    explain: Explain | None
    unbound: bool = False
    writing: Writing | None = None


@dataclass(frozen=True)
class Statement:
    """A query with AI calls. names: the text of each projection of the outermost SELECT, as written."""

    scan: Scan
    tree: exp.Query
    names: tuple[str, ...]


def scan(sql: str, dialect: str = "duckdb") -> Scan | None:
    """The tokens of a statement with AI calls; None for any other text, whether or not it is SQL."""
    if not MENTION.search(sql):
        return None
    text, explain = strip_explain(sql)
    tokens = _tokenize(text, dialect)
    if len(tokens) == 2 and tokens[0].token_type not in _QUERIES and MENTION.search(tokens[1].text):
        tokens = [tokens[0], *_tokenize(tokens[1].text, dialect)]
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    tokens, sites = _find_sites(sql, tokens)
    if not sites:
        return None
    writing = find_writing(tokens, sql)
    _check_statement(tokens, sites, writing is not None)
    places = find_placeholders(tokens, sql)
    return Scan(sql, tuple(tokens), sites, places, explain, writing=writing)


def readable_tokens(sql: str, dialect: str = "duckdb") -> list[Token]:
    """The tokens of a statement, with names for AI calls that any parser can read. Raises PlanError."""
    tokens = _tokenize(strip_explain(sql)[0], dialect)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    return _find_sites(sql, tokens)[0]


def parse(scanned: Scan, literals: Sequence[str], dialect: str = "duckdb") -> Statement:
    """The syntax tree of a scanned statement; `literals` are the parameters' values as SQL text, one per
    placeholder.
    """
    tree = parse_tree(scanned, literals, dialect)
    if isinstance(tree, exp.Subquery):
        tree = tree.unnest() if not tree.args.get("alias") else tree
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree, copy=False)
    if not isinstance(tree, exp.Query):
        raise Unsupported(
            f"an AI call in {scanned.tokens[0].text.upper()} is not supported",
            token_position(scanned.tokens[0]),
        )
    return Statement(scanned, tree, _projection_texts(scanned))


def parse_tree(scanned: Scan, literals: Sequence[str], dialect: str = "duckdb") -> exp.Expr | None:
    """The syntax tree of one statement of any kind; None where there is none."""
    tokens = substitute(scanned, literals)
    try:
        trees = Dialect.get_or_raise(dialect).parser().parse(tokens, scanned.sql)
    except SqlglotParseError as error:
        raise parse_error(error) from None
    except SqlglotError as error:
        raise ParseError(str(error).splitlines()[0]) from None
    tree = trees[0] if len(trees) == 1 else None
    return to_duckdb(tree, dialect) if tree is not None and dialect != "duckdb" else tree


def site_number(node: exp.Expr) -> int | None:
    """The number of the AI call that this node is, or None."""
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.startswith(SITE):
        return int(node.this[len(SITE) : -1])
    return None


def sites_of(node: exp.Expr) -> tuple[int, ...]:
    """The sites in an expression, in the order of the text."""
    found = (site_number(part) for part in node.walk(bfs=False))
    return tuple(number for number in found if number is not None)


def site_name(number: int, function: str) -> str:
    """What the call at a site is named in the tree: its number, and a letter for the type of its answer."""
    letter = "d" if function in SCORE else "v" if function in LABEL else "i" if function in COUNT else "b"
    return f"{SITE}{number}{letter}"


def site_type(name: str) -> str:
    """The type of what the AI call of that name gives."""
    return _TYPES[name[-1]]


def site_null(node: exp.Expr) -> str:
    """NULL of the type of the AI call that this node is, as SQL."""
    return f"CAST(NULL AS {site_type(str(node.this))})"


def splice(sql: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """`sql` with the spans [start, end) replaced; spans inside another span are ignored."""
    pieces: list[str] = []
    last = 0
    for start, end, text in sorted(changes):
        if start >= last:
            pieces += [sql[last:start], text]
            last = end
    return "".join([*pieces, sql[last:]])


def describe_text(
    scanned: Scan, literals: Sequence[str], stand_in: Callable[[Site], str] = lambda site: site.null
) -> str:
    """The statement with each AI call replaced by a typed NULL, or by `stand_in`, everything else verbatim.

    Projections that hold an AI call and have no alias keep their text as the name.
    """
    changes = [(site.start, site.end, stand_in(site)) for site in scanned.sites]
    changes += [
        (place.start, place.end, text)
        for place, text in zip(scanned.placeholders, literals, strict=True)
        if literals
    ]
    for item in projections(scanned):
        if any(item.start <= site.start < item.end for site in scanned.sites) and not item.aliased:
            changes.append((item.end, item.end, f" AS {quote(item.text)}"))
    body = scanned.tokens[0].start
    return splice(scanned.sql[: scanned.tokens[-1].end + 1], [(0, body, ""), *changes])


@dataclass(frozen=True)
class Projection:
    """One item of the outermost SELECT list: its span [start, end) and text."""

    start: int
    end: int
    text: str
    aliased: bool


def projections(scanned: Scan) -> tuple[Projection, ...]:
    """The items of the first SELECT list that stands outside all parentheses."""
    tokens, depth, first = scanned.tokens, 0, -1
    items: list[list[Token]] = []
    for at, token in enumerate(tokens):
        depth += (
            {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
            if token.token_type in _BRACKETS
            else 0
        )
        if depth == 0 and token.token_type == TokenType.SELECT and first < 0:
            first = at
            items.append([])
        elif first >= 0 and depth == 0 and token.token_type in _END_OF_LIST and not _compares(tokens, at):
            break
        elif first >= 0 and depth == 0 and token.token_type == TokenType.COMMA:
            items.append([])
        elif first >= 0 and (items[-1] or token.token_type not in {TokenType.DISTINCT, TokenType.ALL}):
            items[-1].append(token)
    return tuple(_projection(scanned.sql, item) for item in items if item)


def _compares(tokens: Sequence[Token], at: int) -> bool:
    """Whether a FROM is that of IS DISTINCT FROM."""
    return tokens[at].token_type == TokenType.FROM and tokens[at - 1].token_type == TokenType.DISTINCT


_BRACKETS = frozenset(
    {
        TokenType.L_PAREN,
        TokenType.R_PAREN,
        TokenType.L_BRACKET,
        TokenType.R_BRACKET,
        TokenType.L_BRACE,
        TokenType.R_BRACE,
    }
)
_END_OF_LIST = frozenset(
    {
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.GROUP_BY,
    }
    | {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.HAVING, TokenType.QUALIFY, TokenType.OFFSET}
)


def _projection(sql: str, tokens: Sequence[Token]) -> Projection:
    start, end = tokens[0].start, tokens[-1].end + 1
    aliased = len(tokens) > 1 and tokens[-1].token_type in {TokenType.VAR, TokenType.IDENTIFIER}
    aliased = aliased and tokens[-2].token_type != TokenType.DOT
    aliased = aliased or any(token.token_type == TokenType.ALIAS for token in tokens[-2:-1])
    return Projection(start, end, sql[start:end], aliased)


def quote(name: str) -> str:
    """A name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _projection_texts(scanned: Scan) -> tuple[str, ...]:
    return tuple(item.text for item in projections(scanned))


def token_position(token: Token) -> Position:
    """Where a token begins."""
    return Position(token.line, token.col - (token.end - token.start))


def _find_sites(sql: str, tokens: Sequence[Token]) -> tuple[list[Token], tuple[Site, ...]]:
    """Merge `AI . IF (` into one name and number the calls; the text is only read."""
    out: list[Token] = []
    opened: list[int | None] = []
    found: list[tuple[str, Token, int]] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        name, width = _function_name(tokens, at)
        if name in KNOWN:
            _check_function(name, token_position(token))
            out.append(
                Token(
                    TokenType.VAR,
                    site_name(len(found), name),
                    token.line,
                    token.col,
                    token.start,
                    tokens[at + width - 1].end,
                )
            )
            out.append(tokens[at + width])
            opened.append(len(found))
            found.append((name, token, -1))
            at += width + 1
            continue
        if token.token_type == TokenType.L_PAREN:
            opened.append(None)
        elif token.token_type == TokenType.R_PAREN and opened:
            number = opened.pop()
            if number is not None:
                found[number] = (*found[number][:2], token.end + 1)
        out.append(token)
        at += 1
    for name, token, end in found:
        if end < 0:
            raise ParseError(f"{name} has no closing parenthesis", token_position(token))
    sites = [
        Site(n, name, _TYPES[site_name(n, name)[-1]], token.start, end, token_position(token))
        for n, (name, token, end) in enumerate(found)
    ]
    return out, tuple(sites)


def _function_name(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """The AI function called at a token and how many tokens its name takes; ("", 0) where none is.

    A schema in which other systems, or a tool's generated SQL, look for it belongs to its name.
    """
    if tokens[at].text[:2].upper() not in _BEGINNINGS or (at and tokens[at - 1].token_type == TokenType.DOT):
        return "", 0
    texts = [token.text.upper() for token in tokens[at : at + 8]]
    for schema in _SCHEMAS:
        start = len(schema)
        if tuple(texts[:start]) != schema or tokens[at + start].token_type == TokenType.IDENTIFIER:
            continue
        for width in (1, 3):
            name = "".join(texts[start : start + width])
            if name in KNOWN and texts[start + width : start + width + 1] == ["("]:
                return name, start + width
    return "", 0


_SCHEMAS = ((), ("MAIN", "."), ("CORTEX", "."), ("SNOWFLAKE", "."), ("SNOWFLAKE", ".", "CORTEX", "."))
_BEGINNINGS = frozenset({"AI", "MA", "CO", "SN"})


def _check_function(name: str, position: Position) -> None:
    if name in GENERATING:
        raise Unsupported(
            f"{name} generates text, which is not supported by a prefill-only engine; {GENERATING[name]}",
            position,
        )
    if name in OTHERS:
        raise Unsupported(f"{name} is not supported; {OTHERS[name]} instead", position)


def _tokenize(text: str, dialect: str) -> list[Token]:
    """The tokens; `?::`, which sqlglot reads as one operator, is a parameter and a cast."""
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(text)
    except SqlglotError as error:
        raise _token_error(error) from None
    out: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.QDCOLON:
            line, col, start, end = token.line, token.col, token.start, token.end
            out.append(Token(TokenType.PLACEHOLDER, "?", line, col - 2, start, start))
            out.append(Token(TokenType.DCOLON, "::", line, col, start + 1, end))
        else:
            out.append(token)
    return out


def _check_statement(tokens: Sequence[Token], sites: Sequence[Site], writes: bool) -> None:
    if not tokens:
        raise ParseError("the statement is empty")
    first = tokens[0]
    if first.text.startswith(SITE):
        raise Unsupported(
            "an AI call is no statement of its own: write SELECT before it", token_position(first)
        )
    if first.token_type not in _QUERIES and not writes:
        raise statement_refused(tokens, sites[0].function, sites[0].position, sites[0].start)
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise Unsupported(
                "an AI statement stands alone: send one statement at a time", token_position(token)
            )
    for token, said in lost_in_limit(tokens):
        raise Unsupported(said, token_position(token))
    for token in tokens:
        if (
            token.text.startswith(RESERVED)
            and not token.text.startswith(SITE)
            and token.token_type != TokenType.STRING
        ):
            raise BindError(
                f"{token.text}: names that begin with {RESERVED} are reserved", token_position(token)
            )


def substitute(scanned: Scan, literals: Sequence[str]) -> list[Token]:
    """The tokens with each placeholder replaced by those of its literal."""
    starts = {place.start: (place, text) for place, text in zip(scanned.placeholders, literals, strict=True)}
    tokens: list[Token] = []
    skip = -1
    for token in scanned.tokens:
        if token.start <= skip:
            continue
        if token.start in starts:
            place, text = starts[token.start]
            skip = place.end - 1
            for part in Dialect.get_or_raise("duckdb").tokenize(text):
                tokens.append(
                    Token(part.token_type, part.text, token.line, token.col, token.start, place.end - 1)
                )
            continue
        tokens.append(token)
    return tokens


def _token_error(error: SqlglotError) -> ParseError:
    """What the tokenizer missed and where the unfinished text begins."""
    found = re.fullmatch(r"Missing (.+) from (\d+):(\d+)", str(error.__cause__))
    if found is None:
        return ParseError("a comment or a string has no end")
    return ParseError(f"a closing {found[1]} is missing", Position(int(found[2]), int(found[3])))
