"""A step's prompts and the context limit go in, rounds that all fit come out; nothing is submitted here.

A *round* is one work order. Usually there is one, with every item. Where prompts are longer than the context,
the mode says what happens: "error" names the longest, "null" leaves the questions that do not fit unanswered,
"truncate" shortens the longest texts of the prompt (their ends are cut off).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from covey_engine.operators.domains import Side
from covey_engine.operators.errors import ContextOverflow
from covey_engine.operators.pairs import pairs
from covey_engine.operators.scratch import Scratch
from covey_engine.operators.subjects import Subjects
from covey_engine.operators.template import Template
from covey_engine.prefill import api

Overflow = Literal["error", "null", "truncate"]

CALL_SHOWN = 120
"""Characters of a call that a message shows."""

BLOCK = 1 << 20
"""Items looked at together, so that all pairs need no index array as long as they are."""


@dataclass(frozen=True)
class Round:
    """Subjects to be asked together: their items in the step's numbering (None: equal), what not to ask, what is
    known to be true or false of all of them, and the question that comes first (-1: none is asked).
    """

    subjects: Subjects
    items: NDArray[np.int64] | None = None
    unanswered: frozenset[int] = frozenset()
    known: Mapping[int, bool] = field(default_factory=dict)
    entry: int = 0


def fit(
    template: Template,
    subjects: Subjects,
    limit: int,
    mode: Overflow,
    scratch: Scratch,
    describe: Callable[[Subjects, int], str],
) -> list[Round]:
    """Rounds whose prompts all fit. Raises ContextOverflow in mode "error"; `describe` names an item."""
    if not _may_overflow(template, subjects, limit):
        return [Round(subjects)]
    match mode:
        case "null":
            return _leave_unanswered(template, subjects, limit)
        case "truncate":
            return _truncate(template, subjects, limit, scratch)
        case "error":
            item, tokens = _longest_prompt(template, subjects)
            if tokens <= limit:
                return [Round(subjects)]
            raise ContextOverflow(
                f"{describe(subjects, item)}: the prompt has {tokens:,} tokens,"
                f" over the model's context of {limit:,} (ai_on_overflow = 'null' or 'truncate' would go on)"
            )


def fitting(template: Template, subjects: Subjects, limit: int) -> Subjects:
    """The subjects whose prompts all fit."""
    if not _may_overflow(template, subjects, limit):
        return subjects
    return _without(subjects, _too_long(template, subjects, limit)[0]).subjects


def _may_overflow(template: Template, subjects: Subjects, limit: int) -> bool:
    """Whether some prompt may be longer than the limit, judged by the longest texts of either side."""
    return any(_longest(template, question, subjects) > limit for question in range(len(template.suffixes)))


def _longest_prompt(template: Template, subjects: Subjects) -> tuple[int, int]:
    """The item with the longest prompt, and its tokens."""
    best = (0, 0)
    for block in _blocks(subjects):
        for question in range(len(template.suffixes)):
            tokens = template.prompt_tokens(question, subjects, block)
            at = int(tokens.argmax())
            best = max(best, (int(block[at]), int(tokens[at])), key=lambda pair: pair[1])
    return best


def _blocks(subjects: Subjects) -> Iterator[NDArray[np.int64]]:
    for start in range(0, subjects.items, BLOCK):
        yield np.arange(start, min(start + BLOCK, subjects.items), dtype=np.int64)


def _too_long(
    template: Template, subjects: Subjects, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The items with a prompt over the limit, ascending, and what does not fit: bool [questions, items]."""
    items, masks = [], []
    for block in _blocks(subjects):
        questions = range(len(template.suffixes))
        mask = np.stack([template.prompt_tokens(q, subjects, block) > limit for q in questions])
        hit = np.flatnonzero(mask.any(axis=0))
        items.append(block[hit])
        masks.append(mask[:, hit])
    return np.concatenate(items), np.concatenate(masks, axis=1)


def _leave_unanswered(template: Template, subjects: Subjects, limit: int) -> list[Round]:
    """Rounds in which a question is put only to items whose prompt fits."""
    long, misfits = _too_long(template, subjects, limit)
    rounds = [_without(subjects, long)]
    patterns, which = np.unique(misfits, axis=1, return_inverse=True)
    for index, pattern in enumerate(patterns.T):
        items = long[which.ravel() == index]
        rounds.append(Round(subjects.restrict(items), items, frozenset(np.flatnonzero(pattern).tolist())))
    return rounds


def _truncate(template: Template, subjects: Subjects, limit: int, scratch: Scratch) -> list[Round]:
    """Rounds in which the longest texts of prompts over the limit are shortened until all fit.

    A text's cut depends on the texts of its own prompt and on the template alone, never on other rows. The
    room of the template is rounded up, so that questions of nearly the same length share their cut.
    """
    long, _ = _too_long(template, subjects, limit)
    if len(long) == 0:
        return [Round(subjects)]
    grain = max(1, limit // 32)
    levels = np.min(
        [_levels(template, q, subjects, long, limit, grain) for q in range(len(template.suffixes))], 0
    )
    anchors, anchor = _cut(subjects.anchors, subjects.anchor_rows(long), levels, scratch)
    if subjects.partners is None:
        order = np.argsort(anchor)
        return [_without(subjects, long), Round(Subjects(anchors), long[order])]
    partners, partner = _cut(subjects.partners, subjects.partner_rows(long), levels, scratch)
    order = np.argsort(anchor, kind="stable")
    met = pairs(np.bincount(anchor, minlength=len(anchors)), partner[order])
    return [_without(subjects, long), Round(Subjects(anchors, partners, met), long[order])]


def check_template(template: Template, calls: tuple[str, ...], limit: int) -> None:
    """Raise ContextOverflow where the fixed text alone leaves no room for a row."""
    for question, call in enumerate(calls):
        if template.fixed(question) > limit:
            shown = call if len(call) <= CALL_SHOWN else call[:CALL_SHOWN] + "…"
            raise ContextOverflow(
                f"the prompt of {shown} has {template.fixed(question):,} tokens of fixed text,"
                f" over the model's context of {limit:,}"
            )


def _longest(template: Template, question: int, subjects: Subjects) -> int:
    total = template.fixed(question) + int(template.anchor_tokens(question, subjects.anchors).max(initial=0))
    if subjects.partners is not None:
        total += int(template.partner_tokens(question, subjects.partners).max(initial=0))
    return total


def _without(subjects: Subjects, items: NDArray[np.int64]) -> Round:
    if len(items) == 0:
        return Round(subjects)
    kept = np.ones(subjects.items, dtype=np.bool_)
    kept[items] = False
    rest = np.flatnonzero(kept)
    return Round(subjects.restrict(rest), rest)


def _levels(
    template: Template, question: int, subjects: Subjects, items: NDArray[np.int64], limit: int, grain: int
) -> NDArray[np.int64]:
    """The length to which each item's texts are cut: the largest at which the prompt fits.

    Partners' lengths are rounded up first, so that an anchor is cut in few ways, whoever it meets.
    """
    room = max(0, limit - -(-template.fixed(question) // grain) * grain)
    lengths = []
    for part in template.parts(question):
        match part:
            case api.Anchor(argument):
                lengths.append(subjects.anchors.lengths[argument][subjects.anchor_rows(items)])
            case api.Partner(argument):
                assert subjects.partners is not None
                exact = subjects.partners.lengths[argument][subjects.partner_rows(items)]
                lengths.append(-(-exact // grain) * grain)
            case api.Literal():
                pass
    # If the j shortest texts stay whole, the others share the rest; the best j gives the largest level.
    ordered = np.sort(np.stack(lengths), axis=0)
    before = np.cumsum(ordered, axis=0) - ordered
    sharers = np.arange(len(ordered), 0, -1)[:, None]
    levels: NDArray[np.int64] = ((room - before) // sharers).max(axis=0)
    return np.maximum(0, levels)


def _cut(
    side: Side, rows: NDArray[np.integer], levels: NDArray[np.int64], scratch: Scratch
) -> tuple[Side, NDArray[np.int64]]:
    """The side's rows with their texts cut to the levels, each variant once, and the variant of each row."""
    wanted = np.stack([rows, *(np.minimum(lengths[rows], levels) for lengths in side.lengths)])
    variants, which = np.unique(wanted, axis=1, return_inverse=True)
    source = side.take(variants[0])
    arguments = tuple(
        scratch.shortened(argument, lengths)
        for argument, lengths in zip(source.arguments, variants[1:], strict=True)
    )
    return Side(side.domain, source.keys, arguments, tuple(variants[1:])), which.ravel()
