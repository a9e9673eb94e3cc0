"""The arguments of AI_CLASSIFY and AI_SENTIMENT go in; their labels and the question's words come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from covey_planner.binding.scope import position_of
from covey_planner.errors import BindError, Position
from covey_planner.language.parse import Site

OPTIONS = ("categories", "task_description", "output_mode", "examples")
"""What AI_CLASSIFY can be told by name."""

_SENTIMENTS = ("positive", "negative", "neutral", "mixed")


@dataclass(frozen=True)
class Labels:
    """What a call chooses from.

    names: the labels, "" for a parameter without a value; words: how they are asked for; each: the words of a yes/no
    question about each label, where several may fit.
    """

    names: tuple[str, ...]
    words: str
    each: tuple[str, ...] = ()


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
    described = described_labels(given, site, unbound)
    task = options.get("task_description")
    said = _text(task) or "" if task is not None else ""
    shown = examples_of(options.get("examples"), tuple(described), site, unbound)
    each = tuple(_question(name, described[name], said, shown) for name in described)
    lines = [_words(described, said), *(["Examples:"] if shown else [])]
    lines += [f"- {example.input}: {', '.join(example.labels)}" for example in shown]
    return values, Labels(tuple(described), "\n".join(lines), each)


def is_multi(options: Mapping[str, exp.Expr], site: Site) -> bool:
    """Whether a call gives all labels that fit, not the best one. Raises BindError for an unknown mode."""
    mode = options.get("output_mode")
    if mode is None:
        return False
    said = _text(mode)
    if said not in ("single", "multi"):
        raise BindError(f"the output_mode of {site.function} is 'single' or 'multi'", _at(mode, site))
    return said == "multi"


@dataclass(frozen=True)
class Example:
    """A text and the labels that fit it."""

    input: str
    labels: tuple[str, ...]


def examples_of(
    option: exp.Expr | None, names: Sequence[str], site: Site, unbound: bool
) -> tuple[Example, ...]:
    """The examples that an option gives: `[{'input': …, 'labels': …}, …]` or `[('text', 'label'), …]`."""
    if option is None or (unbound and isinstance(_bare(option), exp.Null)):
        return ()
    given = _bare(option)
    if not isinstance(given, exp.Array):
        raise BindError(f"the examples of {site.function} must be a list", _at(option, site))
    return tuple(_example(item, n, names, site) for n, item in enumerate(given.expressions, 1))


def _example(item: exp.Expr, number: int, names: Sequence[str], site: Site) -> Example:
    match item:
        case exp.Struct():
            fields = {pair.name.lower(): pair.expression for pair in item.expressions}
        case exp.Tuple(expressions=[said, chosen]):
            fields = {"input": said, "labels": chosen}
        case _:
            fields = {}
    if not {"input", "labels"} <= fields.keys() <= {"input", "labels", "explanation"}:
        raise BindError(
            f"example {number} of {site.function} must be {{'input': 'text', 'labels': ['label']}}",
            _at(item, site),
        )
    chosen = _bare(fields["labels"])
    labels = [_text(part) for part in (chosen.expressions if isinstance(chosen, exp.Array) else [chosen])]
    text = _text(fields["input"])
    for label in labels:
        if label not in names:
            raise BindError(
                f"example {number} of {site.function}: {label!r} is none of its labels", _at(item, site)
            )
    if text is None:
        raise BindError(
            f"example {number} of {site.function}: its input is no string literal", _at(item, site)
        )
    return Example(" ".join(text.split()), tuple(label for label in labels if label is not None))


def _question(name: str, description: str, task: str, examples: Sequence[Example]) -> str:
    """Whether a label fits, as a question of its own."""
    described = f" ({description})" if description else ""
    lines = [f"{task.strip()} Does the label '{name}'{described} fit?".strip()]
    lines += ["Examples:"] if examples else []
    lines += [f"- {example.input}: {'yes' if name in example.labels else 'no'}" for example in examples]
    return "\n".join(lines)


def _check_options(options: Mapping[str, exp.Expr], site: Site) -> None:
    is_multi(options, site)
    task = options.get("task_description")
    if task is not None and _text(task) is None:
        raise BindError(f"the task_description of {site.function} must be a string literal", _at(task, site))


def described_labels(node: exp.Expr, site: Site, unbound: bool) -> dict[str, str]:
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
