"""A query in our SQL in, the bytes of a Substrait plan out; runs nothing, and asks DuckDB for types and names only."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from google.protobuf.json_format import MessageToJson
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from substrait.plan_pb2 import Plan

from covey_planner.binding.scope import Catalog, describe
from covey_planner.errors import BindError, ParseError, Unsupported
from covey_planner.language import foreign
from covey_planner.language.dialects import parse_error
from covey_planner.language.multi import listing
from covey_planner.language.parameter_types import infer_types
from covey_planner.language.parameters import Placeholder, parameter_keys, placeholder_scan
from covey_planner.language.parse import Scan, describe_text, parse, scan, splice, substitute
from covey_planner.substrait.extensions import Declaring
from covey_planner.substrait.scope import Types
from covey_planner.substrait.write_expressions import PARAMETER
from covey_planner.substrait.write_relations import Relations

VERSION = (0, 80, 0)
"""The version of Substrait that is written."""


class _Parser(DuckDBParser):
    """Leaves functions under the names that they are called by, but for those whose arguments are no list."""

    FUNCTIONS = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: DuckDBParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
    }


def write(sql: str, catalog: Catalog, dialect: str = "duckdb") -> bytes:
    """The plan of a query. Raises PlanError, which names what a plan has no room for."""
    try:
        return _plan(sql, catalog, dialect).SerializeToString(deterministic=True)  # type: ignore[no-any-return]
    except RecursionError:
        raise Unsupported("the statement is nested too deeply for a Substrait plan") from None


def to_json(plan: bytes) -> str:
    """A plan as JSON, as protobuf writes it."""
    return str(MessageToJson(Plan.FromString(plan), indent=None))


def _plan(sql: str, catalog: Catalog, dialect: str) -> Any:
    scanned = scan(sql, dialect)
    tokens, places = (scanned.tokens, scanned.placeholders) if scanned else placeholder_scan(sql, dialect)
    keys = parameter_keys(places) if places else ()
    types = infer_types(tokens, places, catalog) if keys else {}
    nulls = [f"CAST(NULL AS {types[place.key]})" for place in places]
    marks = [f"{PARAMETER}({keys.index(place.key)})" for place in places]
    if scanned is None:
        columns = describe(catalog, _replaced(sql, places, nulls))
        tree = _parsed(_replaced(sql, places, marks))
    else:
        columns, tree = _asking(scanned, nulls, marks, catalog, dialect)
    if not isinstance(tree, exp.Query):
        raise Unsupported("only queries can be written as Substrait plans")
    declaring = Declaring()
    numbered = {at: types[key] for at, key in enumerate(keys)}
    sites = scanned.sites if scanned is not None else ()
    relations = Relations(catalog.columns(), Types(catalog), declaring, sites, numbered)
    relation, fields = relations.query(tree, None, {})
    if len(fields) != len(columns) and relations.left_out:
        name, kind = next(iter(relations.left_out.items()))
        raise Unsupported(f"column {name} of type {kind} cannot be written as a Substrait plan")
    if len(fields) != len(columns):
        raise BindError(f"the query has {len(columns)} columns, but {len(fields)} could be found")
    plan = Plan()
    plan.version.major_number, plan.version.minor_number, plan.version.patch_number = VERSION
    plan.version.producer = f"covey {version('covey')}"
    root = plan.relations.add().root
    root.input.CopyFrom(relation)
    root.names.extend(name for name, _ in columns)
    declaring.declare(plan)
    return plan


def _asking(
    scanned: Scan, nulls: Sequence[str], marks: Sequence[str], catalog: Catalog, dialect: str
) -> tuple[Sequence[tuple[str, str]], exp.Expr]:
    """The columns and the tree of a statement with AI calls."""
    if scanned.writing is not None:
        raise Unsupported("only queries can be written as Substrait plans")
    if dialect == "duckdb":
        tree = _tree(substitute(scanned, marks), scanned.sql)
        return describe(catalog, describe_text(listing(scanned, tree), nulls)), tree
    statement = parse(scanned, nulls, dialect)
    foreign.adapt(statement, dialect)
    columns = describe(catalog, foreign.described(statement))
    statement = parse(scanned, marks, dialect)
    foreign.adapt(statement, dialect)
    # Names of functions keep their letters: AI calls are such names.
    text = Dialect.get_or_raise("duckdb").generator(normalize_functions=False).generate(statement.tree)
    return columns, _parsed(text)


def _replaced(sql: str, places: Sequence[Placeholder], texts: Sequence[str]) -> str:
    changes = [(place.start, place.end, text) for place, text in zip(places, texts, strict=True)]
    return splice(sql, changes).rstrip().rstrip(";")


def _parsed(sql: str) -> exp.Expr:
    try:
        return _tree(Dialect.get_or_raise("duckdb").tokenize(sql), sql)
    except SqlglotError as error:
        raise ParseError(str(error).splitlines()[0]) from None


def _tree(tokens: Sequence[Any], sql: str) -> exp.Expr:
    try:
        trees = _Parser(dialect=Dialect.get_or_raise("duckdb")).parse(list(tokens), sql)
    except SqlglotParseError as error:
        raise parse_error(error) from None
    if len(trees) != 1 or trees[0] is None:
        raise ParseError("one statement at a time can be written as a Substrait plan")
    return trees[0]
