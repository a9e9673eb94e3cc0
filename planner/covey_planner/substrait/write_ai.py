"""AI calls of our SQL in, calls of the AI extension's functions out; see `ai_functions.yaml`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from substrait.algebra_pb2 import Expression, FunctionArgument

from covey_planner.errors import BindError
from covey_planner.language.calls import split_options
from covey_planner.language.functions import BOOLEAN, CLASSIFY, COUNT, SCORE
from covey_planner.language.labels import OPTIONS, described_labels, examples_of, is_multi
from covey_planner.language.parse import Site, site_number
from covey_planner.substrait.functions import AI
from covey_planner.substrait.literals import text_map
from covey_planner.substrait.read_ai import TYPES
from covey_planner.substrait.scope import Scope, Typed, unsupported

if TYPE_CHECKING:
    from covey_planner.substrait.write_expressions import Expressions


def ai_call(writer: Expressions, node: exp.Anonymous, scope: Scope) -> Typed:
    """The call at a site's node. Raises BindError and Unsupported."""
    number = site_number(node)
    assert number is not None
    site = writer.sites[number]
    name = _name(site)
    values, options = split_options(node.expressions, site, OPTIONS if name == "ai_classify" else ())
    labels: list[Any] = []
    names: tuple[str, ...] = ()
    if name == "ai_classify":
        given = options.pop("categories", None)
        if given is None and len(values) > 1:
            *values, given = values
        if given is None:
            raise BindError(f"{site.function} needs its labels", site.position)
        found = described_labels(given, site, False)
        names, labels = tuple(found), [_labels(found)]
    arguments = [*_values(writer, values, site, scope), *labels]
    said = _options(options, values, names, site)
    words = ["map" if argument.value.literal.HasField("map") else "any" for argument in arguments]
    if said:
        arguments.append(FunctionArgument(value=Expression(literal=text_map(said))))
        words.append("map")
    kind = "VARCHAR[]" if name == "ai_classify" and is_multi(options, site) else TYPES[name]
    return writer.apply(AI, f"{name}:{'_'.join(words)}", arguments, kind)


def _name(site: Site) -> str:
    function = site.function
    if function in BOOLEAN:
        return "ai_filter"
    if function in SCORE:
        return "ai_score"
    if function in CLASSIFY:
        return "ai_classify"
    return "ai_count_tokens" if function in COUNT else "ai_sentiment"


def _values(writer: Expressions, values: Sequence[exp.Expr], site: Site, scope: Scope) -> list[Any]:
    """The question and its values, a tuple as the prompt that it is."""
    bare = [value.unnest() if isinstance(value, exp.Paren) else value for value in values]
    match bare:
        case [exp.Anonymous() as prompt] if str(prompt.this).upper() == "PROMPT" and prompt.expressions:
            template, *written = prompt.expressions
            return [_prompt(writer, template, written, scope)]
        case [exp.Tuple() as parts]:
            written = [part for part in parts.expressions if not _is_text(part)]
            marks = iter(range(len(written)))
            texts = [
                part.name.replace("{", "{{").replace("}", "}}") if _is_text(part) else f"{{{next(marks)}}}"
                for part in parts.expressions
            ]
            return [_prompt(writer, exp.Literal.string("".join(texts)), written, scope)]
    if not bare:
        raise BindError(f"{site.function} has no arguments", site.position)
    return [FunctionArgument(value=writer.write(value, scope).node) for value in bare]


def _prompt(writer: Expressions, template: exp.Expr, written: Sequence[exp.Expr], scope: Scope) -> Any:
    if not _is_text(template):
        raise unsupported("a PROMPT whose template is no literal", template)
    parts = [FunctionArgument(value=writer.write(part, scope).node) for part in (template, *written)]
    signature = f"prompt:{'_'.join(['str', 'any'][: len(parts)])}"
    return FunctionArgument(value=writer.apply(AI, signature, parts, "VARCHAR").node)


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _labels(found: Mapping[str, str]) -> Any:
    if any(found.values()):
        return FunctionArgument(value=Expression(literal=text_map(dict(found))))
    texts = [Expression.Literal(string=name) for name in found]
    made = Expression.Literal(list=Expression.Literal.List(values=texts))
    return FunctionArgument(value=Expression(literal=made))


def _options(
    options: Mapping[str, exp.Expr], values: Sequence[exp.Expr], names: Sequence[str], site: Site
) -> dict[str, str]:
    """Options as texts: an anchor is the number of a value, since relations have no names in a plan."""
    said = {}
    for name, value in options.items():
        bare = value
        while isinstance(bare, exp.Paren | exp.Cast):
            bare = bare.this
        if name == "examples":
            shown = examples_of(value, names, site, False)
            items = [{"input": example.input, "labels": list(example.labels)} for example in shown]
            said[name] = json.dumps(items, ensure_ascii=False)
        elif name == "anchor" and not (isinstance(bare, exp.Literal) and bare.is_int):
            said[name] = str(_anchor(bare.name.lower(), values, site))
        else:
            said[name] = bare.name
    return said


def _anchor(relation: str, values: Sequence[exp.Expr], site: Site) -> int:
    given = values[0] if values else exp.Null()
    inner = given.unnest() if isinstance(given, exp.Paren) else given
    written = [part for part in inner.expressions if not _is_text(part)]
    for number, part in enumerate(written):
        if any(column.table.lower() == relation for column in part.find_all(exp.Column)):
            return number
    raise BindError(f"anchor: {relation!r} is no relation that {site.function} asks about", site.position)
