"""From an AI call as written to a bound call: its template, its arguments and their types; never evaluates
anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from covey_planner.binding.columns import qualify
from covey_planner.binding.scope import Scope, position_of
from covey_planner.binding.volatile import shown, volatile
from covey_planner.call import Argument, Call
from covey_planner.errors import BindError, PlanError, Position, Unsupported
from covey_planner.language.functions import AGGREGATES, CLASSIFY, COUNT, LABEL, SCORE
from covey_planner.language.labels import OPTIONS, Labels, categories, sentiments
from covey_planner.language.parse import Scan, Site, site_number
from covey_planner.language.refusals import in_lambda
from covey_planner.language.render import render
from covey_planner.physical import Kind
from covey_planner.prompts import Template, parse_template

_NO_TEXT = re.compile(r"(.*\]|(STRUCT|MAP|UNION)\(.*|BLOB|BIT|GEOMETRY.*|VARIANT)", re.DOTALL)
_OPTIONS = ("anchor", "selectivity")

TypeOf = Callable[[exp.Expr], str]
"""The DuckDB type of an expression over the relations of the scope."""


def bind_call(node: exp.Expr, scan: Scan, scope: Scope, type_of: TypeOf) -> Call:
    """Bind the call at a site's node. Raises BindError or Unsupported with the place of what does not fit."""
    number = site_number(node)
    assert number is not None
    site = scan.sites[number]
    if node.find_ancestor(exp.Lambda, exp.Comprehension) is not None:
        raise Unsupported(in_lambda(site.function), site.position)
    if site.function in COUNT:
        return _count(node, site, scan, scope, type_of)
    choosing = site.function in CLASSIFY
    values, options = split_options(node.expressions, site, OPTIONS if choosing else ())
    labels = None
    if choosing:
        values, labels = categories(values, options, site, scan.unbound)
    elif site.function in LABEL:
        labels = sentiments(values, site)
    template, written = _template(values, site) if labels is None else _choice(values, labels, site)
    arguments = tuple(_argument(expr, n, site, scan, scope, type_of) for n, expr in enumerate(written))
    anchor = _anchor(options, arguments, site)
    is_score = site.function in SCORE and site.above is None
    kind: Kind = "label" if labels is not None else "score" if is_score else "boolean"
    text, names = scan.sql[site.start : site.end], labels.names if labels is not None else ()
    share = _selectivity(options.get("selectivity"), scan, site)
    accepted = None if site.accepted is None else tuple(name for name in names if name in site.accepted)
    call = Call(number, text, template, arguments, site.position, anchor, kind, names, share)
    return replace(call, above=site.above, accepted=accepted)


def _count(node: exp.Expr, site: Site, scan: Scan, scope: Scope, type_of: TypeOf) -> Call:
    """A call that counts the tokens of one value and asks nothing."""
    number = site_number(node)
    assert number is not None
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Kwarg | exp.PropertyEQ):
        raise BindError(
            f"{site.function} counts the tokens of one text: {site.function}(column)", site.position
        )
    argument = _argument(node.expressions[0], 0, site, scan, scope, type_of)
    text = scan.sql[site.start : site.end]
    return Call(number, text, Template((0,)), (argument,), site.position, kind="count")


def split_options(
    args: Sequence[exp.Expr], site: Site, more: Sequence[str]
) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
    """Positional values, and options given as a trailing `{…}` or as `name => value`. more: names of options."""
    known = (*_OPTIONS, *more)
    values: list[exp.Expr] = []
    options: dict[str, exp.Expr] = {}
    for at, arg in enumerate(args):
        pairs: list[exp.Expr] = []
        if isinstance(arg, exp.Kwarg | exp.PropertyEQ):
            pairs = [arg]
        elif isinstance(arg, exp.Struct) and at == len(args) - 1 and at > 0:
            pairs = arg.expressions
        else:
            values.append(arg)
        for pair in pairs:
            name = pair.this.name.lower()
            if name in {"prompt", *(["input"] if more else [])} and not values:
                values.append(pair.expression)
            elif name not in known:
                raise BindError(
                    f"{site.function} has no option {name!r} (there is {', '.join(known)})",
                    _at(pair, site),
                )
            else:
                options[name] = pair.expression
    return values, options


def _selectivity(option: exp.Expr | None, scan: Scan, site: Site) -> float | None:
    """The share of true answers that an option says; None without one, or for a parameter without a value."""
    if option is None:
        return None
    node = option
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if scan.unbound and isinstance(node, exp.Null):
        return None
    try:
        share = float(node.this) if isinstance(node, exp.Literal) else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise BindError("selectivity is a number from 0 to 1", _at(option, site))
    return share


def _template(values: list[exp.Expr], site: Site) -> tuple[Template, list[exp.Expr]]:
    """The template and its arguments, from any of the accepted forms."""
    match [value.unnest() if isinstance(value, exp.Paren) else value for value in values]:
        case [exp.Anonymous() as prompt] if str(prompt.this).upper() == "PROMPT":
            return _prompt(prompt, site)
        case [exp.Tuple() as parts]:
            return _tuple(parts, site)
        case [exp.Expr() as question, exp.Expr() as value] if (text := _text(question)) is not None:
            if not text.strip():
                raise BindError(f"the question of {site.function} is empty", _at(question, site))
            return Template((text.rstrip() + "\n", 0)), [value]
        case [exp.Anonymous() as prompt, *_] if str(prompt.this).upper() == "PROMPT":
            raise BindError(f"{site.function}(PROMPT(…)) takes no further arguments", site.position)
        case [exp.Expr() as only] if _text(only) is not None:
            raise BindError(
                f"{site.function} asks about no value: write {site.function}('question', column)",
                site.position,
            )
        case []:
            raise BindError(f"{site.function} has no arguments", site.position)
        case [exp.Expr() as first, _, _, *_] if _text(first) is not None:
            raise BindError(
                f"{site.function} takes a question and one value; "
                f"for more, write {site.function}(PROMPT('… {{0}} … {{1}} …', a, b))",
                site.position,
            )
        case [first, *_]:
            raise BindError(
                f"the question of {site.function} must be a string literal: "
                f"{site.function}('question', column) or "
                f"{site.function}(PROMPT('… {{0}} …', column))",
                _at(first, site),
            )
    raise AssertionError("every list of values is matched")


def _choice(values: list[exp.Expr], labels: Labels, site: Site) -> tuple[Template, list[exp.Expr]]:
    """The template and its arguments of a call that chooses a label."""
    match [value.unnest() if isinstance(value, exp.Paren) else value for value in values]:
        case [exp.Anonymous() as prompt] if str(prompt.this).upper() == "PROMPT":
            template, written = _prompt(prompt, site)
        case [exp.Tuple() as parts]:
            template, written = _tuple(parts, site)
        case [exp.Expr() as only]:
            return Template((labels.words + "\n", 0)), [only]
    return Template((*template.parts, "\n" + labels.words)), written


def _prompt(prompt: exp.Anonymous, site: Site) -> tuple[Template, list[exp.Expr]]:
    if not prompt.expressions:
        raise BindError("PROMPT has no template", site.position)
    first, *written = prompt.expressions
    text = _text(first)
    if text is None:
        raise BindError("the template of PROMPT must be a string literal", _at(first, site))
    if not text.strip():
        raise BindError("the template of PROMPT is empty", site.position)
    return parse_template(text, len(written), site.position), written


def _tuple(parts: exp.Tuple, site: Site) -> tuple[Template, list[exp.Expr]]:
    """`('text ', column, ' text')`: literals are the question's text, everything else its documents."""
    said: list[str | int] = []
    written: list[exp.Expr] = []
    for part in parts.expressions:
        text = _text(part)
        if text is None:
            said.append(len(written))
            written.append(part)
        elif said and isinstance(said[-1], str):
            said[-1] += text
        else:
            said.append(text)
    if not written:
        raise BindError(f"{site.function} asks about no value: the tuple has no column", site.position)
    if len(written) == len(said):
        raise BindError(f"{site.function} asks nothing: the tuple has no text", site.position)
    return Template(tuple(said)), written


def _text(node: exp.Expr) -> str | None:
    """The value of a string literal, else None."""
    if isinstance(node, exp.Paren):
        return _text(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return str(node.this) if isinstance(node, exp.RawString | exp.Heredoc) else None


def _argument(node: exp.Expr, number: int, site: Site, scan: Scan, scope: Scope, type_of: TypeOf) -> Argument:
    _check_argument(node, number, site)
    text, expr = _written(node, scan), _expand_aliases(node.copy(), scope)
    relations = qualify(expr, scope)
    table = column = None
    try:
        kind, table, column = _type(expr, scope, type_of)
    except PlanError as error:
        raise BindError(
            f"argument {number} of {site.function}: {error.message}", error.position or _at(node, site)
        ) from None
    if _NO_TEXT.fullmatch(kind.upper()):
        raise BindError(
            f"argument {number} of {site.function}: {text} is {kind}, which cannot be asked about as text",
            _at(node, site),
        )
    stored = kind.upper() == "VARCHAR"
    return Argument(expr, text, relations, table if stored else None, column if stored else None)


def _check_argument(node: exp.Expr, number: int, site: Site) -> None:
    for part in node.walk():
        what = None
        if site_number(part) is not None:
            what = "another AI call"
        elif isinstance(part, exp.Query):
            what = "a subquery"
        elif isinstance(part, exp.Window):
            what = "a window function"
        elif isinstance(part, exp.Star):
            what = "*"
        elif isinstance(part, exp.Columns):
            what = "COLUMNS"
        elif volatile(part) is part:
            raise Unsupported(
                f"{shown(part)} changes from call to call: in argument {number} of {site.function} "
                "it is not supported; "
                "store its values in a table first",
                _at(part, site),
            )
        if what is not None:
            raise Unsupported(
                f"{what} in argument {number} of {site.function} is not supported; "
                "compute it in a subquery first",
                _at(part, site),
            )


def _expand_aliases(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Replace a name that only the SELECT list defines by its expression."""

    def expand(part: exp.Expr) -> exp.Expr:
        if (
            isinstance(part, exp.Column)
            and not part.table
            and part.name.lower() in scope.aliases
            and scope.find(part) is None
        ):
            return exp.Paren(this=scope.aliases[part.name.lower()].copy())
        return part

    return node.transform(expand, copy=False)


def _type(expr: exp.Expr, scope: Scope, type_of: TypeOf) -> tuple[str, str | None, str | None]:
    """The type of an argument and, where it is a stored column, its table and column."""
    if isinstance(expr, exp.Column):
        owner = scope.find(expr)
        found = owner[1].columns.get(expr.name.lower()) if owner is not None else None
        if owner is not None and found is not None and len(expr.parts) <= 2:
            return found[1], owner[1].table, found[0]
    return type_of(expr), None, None


def _written(node: exp.Expr, scan: Scan) -> str:
    """The text of an argument as the user wrote it, as far as its tokens are known."""
    spans = [
        (part.meta["start"], part.meta["end"] + 1)
        for part in node.walk()
        if part.meta_get("start") is not None
    ]
    if isinstance(node, exp.Column) and spans:
        return scan.sql[min(start for start, _ in spans) : max(end for _, end in spans)]
    return render(node)


def _anchor(options: dict[str, exp.Expr], arguments: Sequence[Argument], site: Site) -> str | None:
    """The relation that an `anchor` option names: by its alias, or by the number of an argument."""
    option = options.get("anchor")
    if option is None:
        return None
    name = option.name.lower()
    if isinstance(option, exp.Literal) and option.is_int and int(name) < len(arguments):
        return min(arguments[int(name)].relations, default=None)
    relations = frozenset().union(*(argument.relations for argument in arguments))
    if name not in relations:
        raise BindError(f"anchor: {name!r} is no relation that {site.function} asks about", _at(option, site))
    return name


def _at(node: exp.Expr, site: Site) -> Position:
    return position_of(node) or site.position


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate function's call that makes its SELECT an aggregation (no window)."""
    named = isinstance(node, exp.Anonymous) and str(node.this).lower() in AGGREGATES
    if not (named or isinstance(node, exp.AggFunc)):
        return False
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        parent = parent.parent
    return not isinstance(parent, exp.Window)
