"""AI_CLASSIFY with `output_mode` 'multi' becomes one yes/no question a label; all other calls stay as they are.

Its answer is the list of the labels whose question is answered yes, in the order given: empty where none is, NULL where
the value is NULL.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from covey_planner.language.calls import split_options
from covey_planner.language.functions import CLASSIFY
from covey_planner.language.labels import OPTIONS, categories, is_multi
from covey_planner.language.parse import Scan, Site, Statement, site_name, site_number

LIST = "VARCHAR[]"
_MADE = "covey_labels"
OBJECT = "covey_object"
"""Key in the meta of an answer that has become an object."""


def is_list(node: exp.Expr) -> bool:
    """Whether a node of the tree is such a list of labels."""
    return bool(node.meta_get(_MADE))


def labels_of(node: exp.Expr) -> tuple[str, ...]:
    """The labels of such a list, in the order of their questions."""
    return tuple(node.meta_get(_MADE))


def is_object(node: exp.Expr) -> bool:
    """Whether a node of the tree is an answer in the shape of an object."""
    return bool(node.meta_get(OBJECT))


def listing(scanned: Scan, tree: exp.Expr) -> Scan:
    """A scan that knows which calls of its tree give lists. Raises BindError and Unsupported."""
    sites = list(scanned.sites)
    for node in tree.walk():
        number = site_number(node)
        if number is not None and sites[number].function in CLASSIFY:
            _, options = split_options(node.expressions, sites[number], OPTIONS)
            if is_multi(options, sites[number]):
                sites[number] = replace(sites[number], type=LIST)
    return replace(scanned, sites=tuple(sites))


def ask_each_label(statement: Statement) -> Statement:
    """The statement with such calls replaced in its tree, and their sites. Raises BindError and Unsupported."""
    sites = list(statement.scan.sites)
    for node in list(statement.tree.walk()):
        number = site_number(node)
        if number is None or sites[number].function not in CLASSIFY:
            continue
        values, options = split_options(node.expressions, sites[number], OPTIONS)
        if is_multi(options, sites[number]):
            _replace(node, number, values, options, sites, statement.scan.unbound)
    if len(sites) == len(statement.scan.sites):
        return statement
    return replace(statement, scan=replace(statement.scan, sites=tuple(sites)))


def _replace(
    node: exp.Expr,
    number: int,
    values: list[exp.Expr],
    options: dict[str, exp.Expr],
    sites: list[Site],
    unbound: bool,
) -> None:
    """Put the list of a call's labels in its place; the first question takes its number."""
    (value,), labels = categories(values, options, sites[number], unbound)
    hints = [
        exp.Kwarg(this=exp.Var(this=name), expression=options[name])
        for name in ("anchor",)
        if name in options
    ]
    site = replace(sites[number], function="AI_FILTER", type=LIST)
    items: list[exp.Expr] = []
    for label, question in zip(labels.names, labels.each, strict=True):
        own = number if not items else len(sites)
        asked = exp.Anonymous(this=site_name(own, "AI_FILTER"), expressions=_asking(value, question, site))
        asked.expressions.extend(hint.copy() for hint in hints)
        if items:
            sites.append(replace(site, number=own))
        else:
            sites[number] = site
        items.append(_label_if(asked, label))
    unknown = exp.Array(expressions=[exp.Null() for _ in items])
    known = exp.Nullif(this=exp.Array(expressions=items), expression=unknown)
    chosen = exp.Lambda(
        this=exp.NEQ(this=exp.column("v"), expression=exp.Literal.string("")),
        expressions=[exp.to_identifier("v")],
        colon=True,
    )
    made = exp.Anonymous(this="list_filter", expressions=[known, chosen])
    made.meta[_MADE] = labels.names
    node.replace(made)


def _label_if(asked: exp.Expr, label: str) -> exp.Expr:
    """The label, '' where the answer is no, NULL where it is unknown."""
    case = exp.Case(this=asked)
    case.append("ifs", exp.If(this=exp.true(), true=exp.Literal.string(label)))
    case.append("ifs", exp.If(this=exp.false(), true=exp.Literal.string("")))
    return case


def _asking(value: exp.Expr, question: str, site: Site) -> list[exp.Expr]:
    """The arguments of AI_FILTER that ask a question about what AI_CLASSIFY is about."""
    match value.unnest() if isinstance(value, exp.Paren) else value:
        case exp.Anonymous(this=str(name), expressions=[exp.Literal() as template, *rest]) if (
            name.upper() == "PROMPT" and template.is_string
        ):
            escaped = question.replace("{", "{{").replace("}", "}}")
            said = exp.Literal.string(f"{template.this}\n{escaped}")
            return [exp.Anonymous(this="PROMPT", expressions=[said, *(part.copy() for part in rest)])]
        case exp.Tuple(expressions=parts):
            said = exp.Literal.string(f"\n{question}")
            return [exp.Tuple(expressions=[*(part.copy() for part in parts), said])]
        case _:
            return [exp.Literal.string(question), value.copy()]
