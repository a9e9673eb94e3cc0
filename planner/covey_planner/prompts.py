"""From a PROMPT template and a prompt profile to prompt segments; never touches a row or a token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey_planner.errors import BindError, Position
from covey_planner.physical import AnchorText, PartnerText, Segment, Text
from covey_planner.profiles import PromptProfile

_PIECE = re.compile(r"\{\{|\}\}|\{([0-9]+)\}|[{}]")


@dataclass(frozen=True)
class Template:
    """A question about documents: fixed text, and numbers of arguments where a document is mentioned."""

    parts: tuple[str | int, ...]

    @property
    def arguments(self) -> int:
        """How many documents the question is about."""
        return 1 + max((part for part in self.parts if isinstance(part, int)), default=-1)


@dataclass(frozen=True)
class Prompt:
    """A prompt's segments: what all questions on the same documents begin with, and the question's own."""

    prefix: tuple[Segment, ...]
    suffix: tuple[Segment, ...]


def parse_template(text: str, arguments: int, position: Position | None = None) -> Template:
    """Read `..{0}..{1}..`; `{{` and `}}` are literal braces. Raises BindError on a placeholder that does not
    fit.
    """
    parts: list[str | int] = []
    last = 0
    for found in _PIECE.finditer(text):
        parts.append(text[last : found.start()])
        last = found.end()
        if found[1] is not None:
            parts.append(int(found[1]))
        elif len(found[0]) == 2:
            parts.append(found[0][0])
        else:
            raise BindError(
                f"template character {found.start() + 1}: {found[0]!r} belongs to no placeholder; "
                f"write {found[0] * 2} for a literal brace",
                position,
            )
    template = Template(_merge([*parts, text[last:]]))
    _check_placeholders(template, arguments, position)
    return template


def _check_placeholders(template: Template, arguments: int, position: Position | None) -> None:
    used = {part for part in template.parts if isinstance(part, int)}
    if not used:
        raise BindError("the template has no placeholder: write {0} where the value belongs", position)
    if template.arguments > arguments:
        given = "1 argument is" if arguments == 1 else f"{arguments} arguments are"
        raise BindError(f"placeholder {{{template.arguments - 1}}} has no argument: {given} given", position)
    for number in range(arguments):
        if number not in used:
            raise BindError(f"argument {number} is not used: the template has no {{{number}}}", position)


def _merge(parts: Sequence[str | int]) -> tuple[str | int, ...]:
    merged: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)


def question_text(template: Template, profile: PromptProfile) -> str:
    """The question in words: each placeholder as the profile calls the document.

    A question about one document leaves it out where it is only appended or put in front: behind a
    sentence's end, a colon or a line break, or before a new sentence.
    """
    words, alone = profile.words, template.arguments == 1
    parts = list(template.parts)
    if alone and isinstance(parts[-1], int) and len(parts) > 1 and _ends_sentence(parts[-2]):
        parts.pop()
        parts[-1] = str(parts[-1]).rstrip().removesuffix(":")
    elif alone and isinstance(parts[0], int) and len(parts) > 1 and _starts_sentence(parts[1]):
        parts.pop(0)
        parts[0] = str(parts[0]).lstrip(":.\r\n\t ")
    said = [
        part if isinstance(part, str) else words.the if alone else _numbered(words.the_numbered, part)
        for part in parts
    ]
    if parts and isinstance(parts[0], int):
        said[0] = said[0][:1].upper() + said[0][1:]
    return "".join(said).strip()


def _ends_sentence(text: str | int) -> bool:
    return isinstance(text, str) and (text.rstrip()[-1:] in {".", "?", "!", ":"} or text.endswith("\n"))


def _starts_sentence(text: str | int) -> bool:
    return isinstance(text, str) and (text[:1] in {":", "\n"} or text.strip()[:1].isupper())


def filter_prompt(template: Template, profile: PromptProfile) -> Prompt:
    """The prompt of a question about the documents of one row; all of them are the anchor's."""
    form, question = profile.filter, question_text(template, profile)
    turn = profile.chat.user_end + profile.chat.assistant_start
    pieces: list[Segment | str] = [Text(_head(profile)), form.before]
    for number in range(template.arguments):
        if number:
            pieces.append(form.separator)
        pieces += _document(profile, number, template.arguments, AnchorText(number))
    if form.form == "short":
        return _cut([*pieces, Text(turn), form.after], question, profile.cue)
    return _cut([*pieces, form.after], question, turn + profile.cue)


def join_prompt(
    template: Template, profile: PromptProfile, anchors: Sequence[int], partners: Sequence[int]
) -> Prompt:
    """The prompt of a pair: `anchors` and `partners` are the argument numbers of the two sides, in their
    order.

    The short form serves one partner document; several take the full form's places inside the same assistant
    turn.
    """
    form, chat = profile.join, profile.chat
    question = question_text(template, profile)
    pieces: list[Segment | str] = [Text(_head(profile)), form.before]
    for place, number in enumerate(anchors):
        if place:
            pieces.append(profile.filter.separator)
        pieces += _document(profile, number, template.arguments, AnchorText(place))
    first = _label(profile, anchors[0], template.arguments) if anchors else ""
    pieces.append(form.between.replace("{anchor}", first))
    if form.form == "short":
        pieces.append(Text(chat.user_end + chat.assistant_start))
    for place, number in enumerate(partners):
        if place:
            pieces.append(form.close + profile.filter.separator)
        pieces += [
            form.open.replace("{label}", _label(profile, number, template.arguments)),
            PartnerText(place),
        ]
    pieces.append(form.close)
    tail = "" if form.form == "short" else chat.user_end + chat.assistant_start
    return _cut(pieces, question, tail + form.cue)


def for_labels(profile: PromptProfile) -> PromptProfile:
    """The profile for questions whose answer is a label: nothing in it asks for, or shows, a yes or a no."""

    def without(text: str) -> str:
        for instruction in profile.instructions:
            text = text.replace(instruction, "")
        return text

    filter_, join = profile.filter, profile.join
    return replace(
        profile,
        system=without(profile.system),
        filter=replace(filter_, before=without(filter_.before), after=without(filter_.after)),
        join=replace(
            join, before=without(join.before), between=without(join.between), close=without(join.close)
        ),
        examples=(),
    )


def spoken_labels(
    labels: Sequence[str], suffix: Sequence[Segment], profile: PromptProfile
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Each label with the text by which the model says it after a prompt, and what ends its answer.

    With its end, a label that another one begins with is not the likelier for that.
    """
    last = suffix[-1] if suffix else Text("")
    lead = "" if isinstance(last, Text) and last.text[-1:].isspace() else " "
    return tuple((label, lead + label) for label in labels), profile.chat.turn_end.strip() or "\n"


def messages(template: Template, profile: PromptProfile, texts: Sequence[str]) -> list[dict[str, str]]:
    """The chat messages whose rendering by the model's own template is the text of a filter prompt, up to what stands
    in the assistant turn: the cue, and in the short form the question before it.
    """
    turns = [{"role": "system", "content": profile.system}] if profile.chat.system_start else []
    for example in profile.examples:
        turns.append({"role": "user", "content": _user_turn(profile, [example.document], example.question)})
        turns.append({"role": "assistant", "content": example.answer})
    turns.append({"role": "user", "content": _user_turn(profile, texts, question_text(template, profile))})
    return turns


def render(prompt: Prompt, anchors: Sequence[str], partners: Sequence[str] = ()) -> str:
    """The whole text of a prompt for given documents; for tests, measurements and messages."""
    said: list[str] = []
    for segment in (*prompt.prefix, *prompt.suffix):
        match segment:
            case Text(text):
                said.append(text)
            case AnchorText(argument):
                said.append(anchors[argument])
            case PartnerText(argument):
                said.append(partners[argument])
    return "".join(said)


def _head(profile: PromptProfile) -> str:
    """All before the user turn's own text: system message, worked examples, the turn's opening."""
    chat = profile.chat
    head = chat.system_start + profile.system + chat.system_end
    for example in profile.examples:
        head += chat.user_start + _user_turn(profile, [example.document], example.question) + chat.user_end
        head += chat.turn_start + example.answer + chat.turn_end
    return head + chat.user_start


def _user_turn(profile: PromptProfile, texts: Sequence[str], question: str) -> str:
    form = profile.filter
    shown = form.separator.join(
        fill(form.document, {"label": _label(profile, n, len(texts)), "text": text})
        for n, text in enumerate(texts)
    )
    after = "" if form.form == "short" else form.after
    return fill(form.before, {"question": question}) + shown + fill(after, {"question": question})


def fill(pattern: str, values: Mapping[str, str]) -> str:
    """Put values into `{name}` places in one pass, so that a value's own braces are never interpreted."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), pattern)


def _label(profile: PromptProfile, number: int, count: int) -> str:
    return profile.words.label if count == 1 else _numbered(profile.words.label_numbered, number)


def _numbered(words: str, number: int) -> str:
    return words.format(n=number + 1, i=number)


def _document(profile: PromptProfile, number: int, count: int, segment: Segment) -> list[Segment | str]:
    before, after = profile.filter.document.replace("{label}", _label(profile, number, count)).split("{text}")
    return [before, segment, after]


def _cut(pieces: Sequence[Segment | str], question: str, tail: str) -> Prompt:
    """Fixed text becomes segments, joined where nothing comes between; the prefix ends before the question's
    text.

    A Text given as a piece stays a segment of its own, so that the chat head is shared by all questions.
    """
    segments: list[Segment] = []
    cut: int | None = None
    pending = ""
    for piece in (*pieces, tail):
        if isinstance(piece, str):
            if "{question}" in piece:
                start, cut = (pending, len(segments)) if cut is None else ("", cut)
                if start:
                    segments.append(Text(start))
                    cut, pending = len(segments), ""
            pending += piece.replace("{question}", question)
            continue
        if pending:
            segments.append(Text(pending))
            pending = ""
        segments.append(piece)
    if pending:
        segments.append(Text(pending))
    kept = [segment for segment in segments if segment != Text("")]
    dropped = segments[:cut].count(Text(""))
    assert cut is not None, "a profile's form mentions the question"
    return Prompt(tuple(kept[: cut - dropped]), tuple(kept[cut - dropped :]))
