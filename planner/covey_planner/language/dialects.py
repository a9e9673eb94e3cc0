"""SQL of another dialect in, the same as DuckDB's out, as a tree or a text; knows no catalog and no AI function.

A statement is read once by its own dialect's parser, written as DuckDB's SQL and read again: from then on it is like
any other statement, except that places in its text are lost.
"""

from __future__ import annotations

import logging

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import UnsupportedError as SqlglotUnsupportedError

from covey_planner.errors import ParseError, Position, Unsupported
from covey_planner.language.explained import opening

# The parser's warnings are about statements that are refused below, and carry their text.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


DIALECTS = ("duckdb", "snowflake", "bigquery")
"""The dialects a client may write, the default first."""

_TRANSLATED = frozenset(
    [
        "SELECT",
        "WITH",
        "FROM",
        "VALUES",
        "(",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "DROP",
        "ALTER",
    ]
)
"""First words of statements whose meaning a dialect has a say in; all others are about the session, or DuckDB's own."""


def translate(sql: str, dialect: str) -> str:
    """An AI-free statement as DuckDB's SQL; statements that are no queries, DML or DDL stay as they are.

    Raises ParseError, and Unsupported for what DuckDB has no word for.
    """
    explain = opening(sql)
    body = sql[len(explain) :]
    try:
        words = [token.text.upper() for token in Dialect.get_or_raise(dialect).tokenize(body)[:1]]
    except SqlglotError:
        words = []
    if dialect == "duckdb" or not _TRANSLATED.intersection(words):
        return sql
    try:
        trees = Dialect.get_or_raise(dialect).parse(body)
    except SqlglotParseError as error:
        raise parse_error(error) from None
    except SqlglotError as error:
        raise ParseError(str(error).splitlines()[0]) from None
    texts = [_written(tree, dialect) for tree in trees if tree is not None]
    return f"{explain} " * bool(explain) + "; ".join(texts)


def to_duckdb(tree: exp.Expr, dialect: str) -> exp.Expr:
    """A tree that a dialect's parser made, as DuckDB's parser would have made it, without places in a text."""
    try:
        read = Dialect.get_or_raise("duckdb").parse(_written(tree, dialect))[0]
    except SqlglotError:
        raise Unsupported(f"a part of this {dialect} statement has no counterpart in DuckDB") from None
    assert read is not None, "what was written is a statement"
    for node in read.walk():
        node._meta = None
    return read


def _written(tree: exp.Expr, dialect: str) -> str:
    if isinstance(tree, exp.Command):
        raise Unsupported(f"{str(tree.this).upper()} of this form is not understood in the dialect {dialect}")
    if dialect == "snowflake":
        holder = exp.Paren(this=tree)
        for node in list(holder.find_all(exp.JSONExtract)):
            _path(node)
        tree = holder.this
    else:
        for table in tree.find_all(exp.Table):
            _information_schema(table)
    for counted in list(tree.find_all(exp.CountIf)):
        _count_if(counted)
    # Names of functions that are not known keep their letters: the binder's sites are such names.
    generator = Dialect.get_or_raise("duckdb").generator(
        comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE
    )
    try:
        return generator.generate(tree, copy=False)
    except SqlglotUnsupportedError as error:
        said = str(error).splitlines()[0]
        raise Unsupported(
            f"a part of this {dialect} statement has no counterpart in DuckDB: {said}"
        ) from None


def _path(node: exp.JSONExtract) -> None:
    """`value:path` reads any value as JSON and yields a text, not a text in quotes."""
    if isinstance(node.parent, exp.JSONExtract):
        return
    base: exp.Expr = node
    while isinstance(base.this, exp.JSONExtract):
        base = base.this
    if not isinstance(base.this, exp.ParseJSON):
        base.set("this", exp.cast(base.this.copy(), "JSON"))
    node.replace(exp.JSONExtractScalar(this=node.this.copy(), expression=node.expression.copy()))


def _count_if(node: exp.CountIf) -> None:
    """Elsewhere the number of no rows is zero, where DuckDB's COUNT_IF gives NULL."""
    if not isinstance(node.this, exp.Distinct):
        true = exp.If(this=node.this.copy(), true=exp.Literal.number(1))
        node.replace(exp.Count(this=exp.Case(ifs=[true])))


def _information_schema(table: exp.Table) -> None:
    """`information_schema.tables`, which BigQuery's parser makes one name."""
    schema, _, name = table.name.partition(".")
    if schema.lower() == "information_schema" and name:
        table.set("this", exp.to_identifier(name))
        table.set("db", exp.to_identifier(schema))


def parse_error(error: SqlglotParseError) -> ParseError:
    """A parser's complaint in one line, with its place."""
    first = error.errors[0] if error.errors else {}
    description = str(first.get("description") or error).splitlines()[0].split(". Line ")[0]
    if description.startswith("Required keyword"):
        description = "an expression is missing"
    line, column = first.get("line"), first.get("col")
    width = len(str(first.get("highlight") or " "))
    near = f" near {first['highlight']!r}" if first.get("highlight") else ""
    return ParseError(
        f"{description}{near}", Position(line, max(1, column - width + 1)) if line and column else None
    )
