"""Prompt profiles, one TOML file per model family and form, as frozen data; never touches a tokenizer or a
model.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from covey_planner.errors import ProfileError

FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True)
class Chat:
    """The pieces of the model's own chat template; all empty where the prompt is raw text.

    assistant_start is everything that the template adds for a generation prompt; turn_start opens an
    assistant turn that is already answered (a worked example).
    """

    system_start: str = ""
    system_end: str = ""
    user_start: str = ""
    user_end: str = ""
    assistant_start: str = ""
    turn_start: str = ""
    turn_end: str = ""


@dataclass(frozen=True)
class Words:
    """How documents are called: in their labels, and inside a question, alone or numbered ({n} counts from 1,
    {i} from 0).
    """

    label: str = "Document"
    label_numbered: str = "Document {n}"
    the: str = "the document"
    the_numbered: str = "document {n}"


@dataclass(frozen=True)
class FilterForm:
    """The prompt of a filter: before, the documents, after. Each document is shown as `document`.

    full: all of it is the user turn, and the cue follows in the assistant turn. short (document_first only): the
    assistant turn begins after the documents, so that a further question costs its own tokens and little more.
    `{question}` stands in `before` (layout question_first), in `after` (document_first) or in both
    (question_first).
    """

    form: Literal["full", "short"] = "full"
    before: str = ""
    document: str = "{label}: {text}"
    separator: str = "\n\n"
    after: str = ""


@dataclass(frozen=True)
class JoinForm:
    """The prompt of a pair: before, the anchor's documents, between, the partner's, close. `{anchor}` in `between` is
    the label of the anchor's first document.

    full: all of it is the user turn, and the cue follows in the assistant turn. short: the assistant turn
    begins after `between`; `open` ({label}) and the partner stand in it, `close` and the cue follow the
    partner at once.
    """

    form: Literal["full", "short"] = "full"
    before: str = ""
    between: str = ""
    open: str = "{label}: "
    close: str = ""
    cue: str = ""


@dataclass(frozen=True)
class Example:
    """A worked example in the shared head: an answered filter prompt."""

    document: str
    question: str
    answer: str


@dataclass(frozen=True)
class PromptProfile:
    """How a model is asked and how it answers.

    yes, no: texts of exactly one token each, read as the answer. zero_point: an answer is true where the
    margin is above it. default: the family's profile unless another is named. instructions: the texts in system
    message and forms that ask for yes or no; a question for a label is asked without them.
    """

    name: str
    family: str
    layout: Literal["document_first", "question_first"]
    yes: tuple[str, ...]
    no: tuple[str, ...]
    default: bool = False
    system: str = ""
    cue: str = ""
    zero_point: float = 0.0
    chat: Chat = field(default_factory=Chat)
    words: Words = field(default_factory=Words)
    filter: FilterForm = field(default_factory=FilterForm)
    join: JoinForm = field(default_factory=JoinForm)
    examples: tuple[Example, ...] = ()
    instructions: tuple[str, ...] = ()


def profile_names() -> tuple[str, ...]:
    """Names of the shipped profiles."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def load_profile(name: str) -> PromptProfile:
    """The shipped profile called `name`. Raises ProfileError."""
    if name not in profile_names():
        raise ProfileError(f"no prompt profile {name!r}; there are: {', '.join(profile_names())}")
    return load_profile_file(FOLDER / f"{name}.toml")


def find_profile(name: str) -> PromptProfile:
    """The profile in a TOML file where `name` ends in .toml, else the shipped one. Raises ProfileError."""
    return load_profile_file(Path(name).expanduser()) if name.endswith(".toml") else load_profile(name)


def load_profile_file(path: Path) -> PromptProfile:
    """The profile in a TOML file, whose stem is its name. Raises ProfileError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"prompt profile {path.name}: {error}") from None
    profile: PromptProfile = _build(PromptProfile, {"name": path.stem, **table}, path.name)
    _check_layout(profile, path.name)
    _check_places(profile, path.name)
    return profile


def profile_for(family: str) -> PromptProfile:
    """The default profile of a model family. Raises ProfileError where the family has none."""
    profiles = [load_profile(name) for name in profile_names()]
    for profile in profiles:
        if profile.family == family and profile.default:
            return profile
    families = ", ".join(sorted({profile.family for profile in profiles}))
    raise ProfileError(f"no prompt profile for model family {family!r}; there are profiles for: {families}")


def _build(cls: type, table: Mapping[str, object], where: str) -> Any:
    """An instance of a profile dataclass from a TOML table; unknown, missing and mistyped keys are errors."""
    hints = get_type_hints(cls)
    unknown = sorted(set(table) - set(hints))
    if unknown:
        raise ProfileError(f"prompt profile {where}: unknown key {unknown[0]!r}")
    missing = [
        f.name
        for f in fields(cls)
        if f.default is MISSING and f.default_factory is MISSING and f.name not in table
    ]
    if missing:
        raise ProfileError(f"prompt profile {where}: missing key {missing[0]!r}")
    return cls(**{key: _value(hints[key], value, f"{where}: {key}") for key, value in table.items()})


def _value(hint: Any, value: object, where: str) -> object:
    match value:
        case dict() if hasattr(hint, "__dataclass_fields__"):
            return _build(hint, value, where)
        case list() if hint == tuple[str, ...] and value and all(isinstance(item, str) for item in value):
            return tuple(value)
        case list() if hint == tuple[Example, ...]:
            return tuple(_build(Example, item, where) for item in value)
        case int() | float() if hint is float and not isinstance(value, bool):
            return float(value)
        case bool() if hint is bool:
            return value
        case str() if hint is str or value in getattr(hint, "__args__", ()):
            return value
    raise ProfileError(f"prompt profile {where}: {value!r} does not fit")


def _check_layout(profile: PromptProfile, where: str) -> None:
    """The question stands where the layout says; every form that asks mentions it."""
    before, after = "{question}" in profile.filter.before, "{question}" in profile.filter.after
    asked = before if profile.layout == "question_first" else after and not before
    if not asked:
        raise ProfileError(
            f"prompt profile {where}: filter: {{question}} stands where {profile.layout} has none"
        )
    if profile.filter.form == "short" and (before or profile.examples):
        raise ProfileError(
            f"prompt profile {where}: filter: the short form goes with layout document_first and without examples"
        )
    if "{question}" not in profile.join.before + profile.join.between:
        raise ProfileError(f"prompt profile {where}: join: {{question}} is missing")
    if profile.layout == "document_first" and "{question}" in profile.join.before:
        raise ProfileError(f"prompt profile {where}: join: {{question}} stands where document_first has none")


def _check_places(profile: PromptProfile, where: str) -> None:
    """Words can be filled in, and a document's text stands in its place once."""
    for key in ("label_numbered", "the_numbered"):
        try:
            getattr(profile.words, key).format(n=1, i=0)
        except (AttributeError, LookupError, ValueError):
            raise ProfileError(
                f"prompt profile {where}: words: {key}: only {{n}} and {{i}} stand for numbers"
            ) from None
    if profile.filter.document.count("{text}") != 1:
        raise ProfileError(f"prompt profile {where}: filter: document: {{text}} stands there once")
