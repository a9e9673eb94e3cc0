"""SQL text in, a checked statement out, or a refusal that says what is not allowed; never runs anything.

SQL users get no files, no network, no attachments and no settings. DuckDB itself is locked when the database
is opened; this module closes what a locked DuckDB leaves open: attaching databases in memory, macros that
replace built-in functions, functions that show settings and paths, and functions that only block a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import duckdb
from covey_planner.language.explained import without_verbose
from covey_planner.language.fragile import SAID, fragile_text
from covey_planner.substrait.asked import Form
from covey_planner.substrait.read import Consumed

from covey_server import lifecycle
from covey_server.errors import BadRequest, Refused
from covey_server.options import Assignment, assignment


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TABLE_FUNCTIONS = _words(
    """generate_series histogram histogram_values icu_calendar_names json_each json_tree pg_timezone_names
    pragma_show pragma_table_info pragma_version range repeat repeat_row summary test_all_types unnest
    duckdb_columns duckdb_constraints duckdb_functions duckdb_indexes duckdb_keywords duckdb_schemas
    duckdb_sequences duckdb_tables duckdb_types duckdb_views"""
)
"""What may stand in FROM with arguments; every other table function is refused, whichever DuckDB adds."""

_RESERVED = ("covey_", "__covey_")
"""Beginnings of names that are the server's own: a table of such a name would be hidden by it."""

_TWOFOLD = _words("version")
"""Scalar functions that are for everybody, although a pragma or a table function has the same name."""

REFUSED_FUNCTIONS = _words("current_setting getenv pg_sleep sleep_ms write_log")
"""Scalar functions that show settings, block a thread or write the log."""

REFUSED_RELATIONS = _words("duckdb_databases duckdb_logs pg_settings pragma_database_list sqlite_temp_master")
"""Views that show settings and paths."""

_CREATABLE = _words("table view schema index sequence type")
_CREATE_WORDS = _words("or replace temp temporary unique recursive persistent")
_TEMPORARY = _words("temp temporary")
_STATEMENTS = _words("SELECT INSERT UPDATE DELETE MERGE_INTO CREATE DROP ALTER EXPLAIN TRANSACTION VACUUM")
_NAMES_FOLLOW = _words("into table as view with exists recursive")
_EXPLAINABLE = _words(
    """select with from values table insert update delete merge create pivot unpivot describe show
    summarize"""
)
_OUTER = _words("left right full semi anti")
_TRANSACTION: dict[str, Literal["begin", "commit", "rollback"]] = {
    "begin": "begin",
    "start": "begin",
    "commit": "commit",
    "end": "commit",
    "rollback": "rollback",
    "abort": "rollback",
}


@dataclass(frozen=True)
class Token:
    """A word of the statement, of a kind that DuckDB's lexer tells; names are unquoted and lower case."""

    kind: str
    text: str


@dataclass(frozen=True)
class Checked:
    """A statement that may run.

    kind: "plain" goes to DuckDB as it is, "ai" to the planner; "begin", "commit" and "rollback" are about
    the session's transaction, "option" sets what `assignment` says. names: the identifiers in it. eager: it
    has effects of its own although it reads like a query. temporary: it creates something that lives as long
    as its connection. dialect: of the text of an AI statement; written: the client's text, where `sql` is another.
    optimize: whether the planner may look for the cheapest way; anchor: how it chooses the anchors of questions about
    pairs. settled: whether all that it reads is committed, so that something may be learned from it; sampling: whether
    a sample may be asked first. consumed: the Substrait plan that it was read from; plan_form: its own plan is asked
    for, in this form.
    """

    sql: str
    kind: Literal["plain", "ai", "begin", "commit", "rollback", "option"]
    names: frozenset[str]
    eager: bool = False
    temporary: bool = False
    assignment: Assignment | None = None
    dialect: str = "duckdb"
    written: str | None = None
    optimize: bool = True
    anchor: Literal["cheapest", "first"] = "cheapest"
    consumed: Consumed | None = None
    plan_form: Form | None = None
    settled: bool = True
    sampling: bool = False

    @property
    def ordinary(self) -> str:
        """What DuckDB runs of a statement without AI calls."""
        return without_verbose(self.sql)

    @property
    def text(self) -> str:
        """What the client wrote."""
        return self.sql if self.written is None else self.written

    @property
    def of_session(self) -> bool:
        """Whether it is about the session alone, and DuckDB never sees it."""
        return self.kind in ("begin", "commit", "rollback", "option")


class Guard:
    """Checks statements against the functions that this DuckDB has."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        rows = cursor.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
            "WHERE function_type IN ('table', 'table_macro', 'pragma')"
        ).fetchall()
        self._refused = frozenset(name for (name,) in rows) - TABLE_FUNCTIONS - _TWOFOLD | REFUSED_FUNCTIONS
        # Parsing needs no tables, and a parser error must not abort anyone's transaction.
        self._parser = duckdb.connect()
        self._parsing = threading.Lock()

    def check(self, sql: str) -> Checked:
        """The one statement of a text. Raises BadRequest, Refused or DuckDB's parser error."""
        if "\0" in sql:
            # DuckDB takes it for the end of the text.
            raise BadRequest(
                f"character {sql.index(chr(0)) + 1} of the statement is NUL: write chr(0) for it"
            )
        tokens = tuple(tokenize(sql))
        while tokens and tokens[-1].text == ";":
            tokens = tokens[:-1]
        if not tokens:
            raise BadRequest("the statement is empty")
        if any(token.text == ";" and token.kind == "operator" for token in tokens):
            raise BadRequest("one statement at a time: the text holds several")
        self.refuse_functions(tokens)
        names = frozenset(token.text for token in tokens if token.kind in ("identifier", "keyword"))
        asks = _has_ai_call(tokens)
        if not asks and _may_be_fragile(tokens) and fragile_text(sql):
            raise BadRequest(SAID)
        try:
            with self._parsing:
                kind = self._parser.extract_statements(sql if asks else without_verbose(sql))[0].type.name
        except (duckdb.ParserException, duckdb.NotImplementedException):
            if not asks:
                raise
            # Some AI calls are no SQL to DuckDB: it would not run the text either.
            return Checked(sql, "ai", names)
        checked = _check_kind(sql, kind, tokens, names)
        return replace(checked, kind="ai") if asks and checked.kind == "plain" else checked

    def close(self) -> None:
        """Let go of the parser."""
        self._parser.close()

    def refuse_functions(self, tokens: Sequence[Token]) -> None:
        """Refuse calls of functions, and names of relations, that are not for SQL users."""
        for index, token in enumerate(tokens):
            if token.kind not in ("identifier", "keyword"):
                continue
            if token.text in REFUSED_RELATIONS:
                raise Refused(f"{token.text} is not available to SQL users")
            called = index + 1 < len(tokens) and tokens[index + 1].text == "("
            if not called or (index and tokens[index - 1].text in _NAMES_FOLLOW):
                continue
            if token.text in self._refused or token.text.startswith("__internal"):
                raise Refused(f"the function {token.text} is not available to SQL users")


def tokenize(sql: str) -> Iterator[Token]:
    """The statement's tokens without comments."""
    # DuckDB's lexer counts bytes.
    text = sql.encode()
    raw = duckdb.tokenize(sql)
    ends = [offset for offset, _ in raw[1:]] + [len(text)] * bool(raw)
    for (start, kind), end in zip(raw, ends, strict=True):
        word = text[start:end].decode().strip()
        if kind.name == "comment":
            continue
        if kind.name in ("identifier", "keyword"):
            word = word[1:-1].replace('""', '"').lower() if word.startswith('"') else word.lower()
        yield Token(kind.name, word)


def _has_ai_call(tokens: Sequence[Token]) -> bool:
    for token, following in pairwise(tokens):
        if token.kind not in ("identifier", "keyword"):
            continue
        if (token.text.startswith("ai_") or token.text == "prompt") and following.text == "(":
            return True
        if token.text in ("ai", "cortex") and following.text == ".":
            return True
    return False


def _may_be_fragile(tokens: Sequence[Token]) -> bool:
    """Whether it is worth a look if DuckDB fails on the statement for good."""
    words = [token.text for token in tokens if token.kind in ("identifier", "keyword")]
    return "join" in words and words.count("select") > 1 and not _OUTER.isdisjoint(words)


def _check_kind(sql: str, kind: str, tokens: Sequence[Token], names: frozenset[str]) -> Checked:
    words = [token.text for token in tokens]
    if kind == "MULTI" and words[0] in ("pivot", "from", "with"):
        return Checked(sql, "plain", names)
    if kind == "SET":
        return Checked(sql, "option", names, assignment=assignment(words))
    if kind not in _STATEMENTS:
        raise Refused(f"{_opening(words)} is not available to SQL users")
    match kind:
        case "CREATE":
            what = next((word for word in words[1:] if word not in _CREATE_WORDS), "")
            if what not in _CREATABLE:
                raise Refused(f"CREATE {what.upper()} is not available to SQL users")
            if what in ("table", "view"):
                refuse_reserved(_created(words[words.index(what) + 1 :]))
            if what == "view" and lifecycle.TABLE in names:
                raise BadRequest(
                    f"a view cannot read {lifecycle.TABLE}: it is there for single statements only"
                )
            return Checked(sql, "plain", names, temporary=not _TEMPORARY.isdisjoint(words[1:4]))
        case "DROP" if len(words) < 2 or words[1] not in _CREATABLE:
            raise Refused(f"{_opening(words)} is not available to SQL users")
        case "ALTER" if ("rename", "to") in pairwise(words):
            refuse_reserved(words[-1])
            return Checked(sql, "plain", names)
        case "EXPLAIN":
            return Checked(sql, "plain", names, eager=_check_explain(words))
        case "TRANSACTION":
            return Checked(sql, _TRANSACTION[words[0]], names)
        case _:
            return Checked(sql, "plain", names)


def refuse_reserved(name: str) -> None:
    """Refuse to create a table or view of a name that the server keeps for itself."""
    if name.lower().startswith(_RESERVED):
        raise BadRequest(f"{name}: names that begin with {' or '.join(_RESERVED)} are reserved")


def _created(words: Sequence[str]) -> str:
    """The name, without its schema, at the beginning of what follows CREATE TABLE or CREATE VIEW."""
    at = 3 if list(words[:3]) == ["if", "not", "exists"] else 0
    while words[at + 1 : at + 2] == ["."]:
        at += 2
    return words[at] if at < len(words) else ""


def _check_explain(words: Sequence[str]) -> bool:
    """Whether the explained statement runs."""
    at = 1
    runs = False
    while words[at : at + 1] in (["analyze"], ["analyse"], ["verbose"]):
        at, runs = at + 1, runs or words[at] != "verbose"
    if words[at : at + 1] == ["("]:
        runs = runs or "analyze" in words[at : words.index(")", at)]
        at = words.index(")", at) + 1
    if at >= len(words) or words[at] not in _EXPLAINABLE:
        raise Refused(f"EXPLAIN of {_opening(words[at:])} is not available to SQL users")
    return runs


def _opening(words: Sequence[str]) -> str:
    return " ".join(words[:1]).upper() or "this statement"
