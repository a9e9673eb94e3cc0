"""The arguments of AI_CLASSIFY and AI_SENTIMENT go in; their labels and the question's words come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from covey_planner.errors import BindError, Position, Unsupported
from covey_planner.parse import Site
from covey_planner.scope import position_of

OPTIONS = ("categories", "task_description", "output_mode", "examples")
"""What AI_CLASSIFY can be told by name."""

_SENTIMENTS = ("positive", "negative", "neutral", "mixed")


@dataclass(frozen=True)
class Labels:
    """What a call chooses from.

    names: the labels, "" for a parameter without a value; words: how they are asked for.
    """

    names: tuple[str, ...]
    words: str


def sentiments(values: Sequence[exp.Expr], site: Site) -> Labels:
    """The labels of AI_SENTIMENT, which takes one value."""
    if len(values) != 1:
        raise BindError(f"{site.function} takes one text: {site.function}(column)", site.position)
    return Labels(_SENTIMENTS, _words(dict.fromkeys(_SENTIMENTS, ""), "What is the sentiment of the text?"))


def categories(
    values: list[exp.Expr], options: dict[str, exp.Expr], site: Site, unbound: bool
) -> tuple[list[exp.Expr], Labels]:
    """What is left of AI_CLASSIFY's values without the labels, and the labels.

    unbound: the statement's parameters have no values yet. Raises BindError and Unsupported.
    """
    _check_options(options, site)
    given = options.get("categories")
    if given is None:
        if len(values) < 2:
            raise BindError(
                f"{site.function} needs its labels: {site.function}(column, ['first', 'second'])",
                site.position,
            )
        *values, given = values
    if len(values) != 1:
        raise BindError(
            f"{site.function} takes one value and its labels; for more values, write "
            f"{site.function}(PROMPT('… {{0}} … {{1}} …', a, b), ['first', 'second'])",
            site.position,
        )
    described = _described(given, site, unbound)
    task = options.get("task_description")
    return values, Labels(tuple(described), _words(described, _text(task) or "" if task is not None else ""))


def _check_options(options: Mapping[str, exp.Expr], site: Site) -> None:
    if "examples" in options:
        raise Unsupported(
            f"examples of {site.function} are not supported yet; describe the labels instead",
            _at(options["examples"], site),
        )
    mode = options.get("output_mode")
    if mode is not None and _text(mode) != "single":
        raise Unsupported(
            f"{site.function} gives one label a value, output_mode 'single'; "
            "ask for several with one AI_FILTER per label",
            _at(mode, site),
        )
    task = options.get("task_description")
    if task is not None and _text(task) is None:
        raise BindError(f"the task_description of {site.function} must be a string literal", _at(task, site))


def _described(node: exp.Expr, site: Site, unbound: bool) -> dict[str, str]:
    """The labels with their descriptions, "" for none."""
    node = _bare(node)
    if unbound and isinstance(node, exp.Null):
        return {"": ""}
    if not isinstance(node, exp.Array):
        raise BindError(
            f"the labels of {site.function} must be a list of string literals: ['first', 'second']",
            _at(node, site),
        )
    found: dict[str, str] = {}
    for number, item in enumerate(node.expressions, 1):
        name, description = _category(item, number, site, unbound)
        if name in found and name:
            raise BindError(f"label {name!r} of {site.function} is given twice", _at(item, site))
        found[name] = description
    if len(node.expressions) < 2:
        raise BindError(f"{site.function} needs at least two labels to choose from", _at(node, site))
    return found


def _category(item: exp.Expr, number: int, site: Site, unbound: bool) -> tuple[str, str]:
    """One label and its description: `'label'`, `('label', 'description')` or `{'label': …, 'description': …}`."""
    match item:
        case exp.Struct():
            fields = {pair.name.lower(): pair.expression for pair in item.expressions}
            if not {"label"} <= fields.keys() <= {"label", "description"}:
                raise BindError(
                    f"label {number} of {site.function} must have a label and may have a description, nothing else",
                    _at(item, site),
                )
            said = [fields["label"], *([fields["description"]] if "description" in fields else [])]
        case exp.Tuple() if 1 <= len(item.expressions) <= 2:
            said = item.expressions
        case _:
            said = [item]
    texts = []
    for part in map(_bare, said):
        text = "" if unbound and isinstance(part, exp.Null) else _text(part)
        if text is None:
            raise BindError(f"label {number} of {site.function} is no string literal", _at(item, site))
        texts.append(text.strip())
    if not texts[0] and not (unbound and isinstance(_bare(said[0]), exp.Null)):
        raise BindError(f"label {number} of {site.function} is empty", _at(item, site))
    return texts[0], texts[1] if len(texts) > 1 else ""


def _words(described: Mapping[str, str], task: str) -> str:
    """The question for a label; one label a line where one is described, or holds a comma or a line break."""
    task = task.strip() or "Which label fits best?"
    if not any(described.values()) and not any("," in name or "\n" in name for name in described):
        return f"{task} Answer with one of these labels: {', '.join(described)}."
    lines = [
        f"- {name}: {description}" if description else f"- {name}" for name, description in described.items()
    ]
    return "\n".join([f"{task} Answer with one of these labels:", *lines])


def _bare(node: exp.Expr) -> exp.Expr:
    """Without parentheses and casts, which a parameter's value may stand in."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node


def _text(node: exp.Expr) -> str | None:
    node = _bare(node)
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def _at(node: exp.Expr, site: Site) -> Position:
    return position_of(node) or site.position
