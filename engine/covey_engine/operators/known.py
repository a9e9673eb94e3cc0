"""Answers of samples and earlier steps go in; out comes what a step need not ask any more. Asks nothing.

An answer is known by its prompt (the segments of its step and question) and the keys of its texts, so that it is found
whatever step asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np
from covey_planner.physical import MATCH, AskStep, Question
from numpy.typing import NDArray

from covey_engine.operators.answers import FALSE, NOT_ASKED, NULL, TRUE, Found
from covey_engine.operators.domains import Keys
from covey_engine.operators.entries import entries_of
from covey_engine.operators.overflow import Round
from covey_engine.operators.subjects import Subjects

Items = NDArray[np.int64]
Names = NDArray[np.bytes_]


@dataclass(frozen=True)
class _Answers:
    """Of one prompt: the texts' keys on both sides (partners empty for a filter), what is known, and values."""

    anchors: Names
    partners: Names
    states: NDArray[np.int8]
    values: NDArray[np.float64]

    def and_(self, other: _Answers) -> _Answers:
        """All answers of both; what both hold is the same."""
        parts = zip(astuple(self), astuple(other), strict=True)
        return _Answers(*(np.concatenate(both) for both in parts))


@dataclass
class Known:
    """The answers of one statement that are asked for again: of its samples, and of steps before others alike."""

    _found: dict[object, _Answers] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._found)

    def add(self, step: AskStep, subjects: Subjects, found: Sequence[Found]) -> None:
        """Keep what was found for a sample, but for what failed."""
        self._keep(step, subjects, found, [_prompt(step, question) for question in step.questions])

    def keep(
        self, step: AskStep, subjects: Subjects, found: Sequence[Found], later: Sequence[AskStep]
    ) -> None:
        """Keep what a step has found and later ones ask, but for what failed. What the last of them has asked is
        forgotten.
        """
        wanted = {_prompt(other, question) for other in later for question in other.questions}
        self._found = {prompt: answers for prompt, answers in self._found.items() if prompt in wanted}
        prompts = [_prompt(step, question) for question in step.questions]
        if wanted.intersection(prompts):
            self._keep(step, subjects, found, [prompt if prompt in wanted else None for prompt in prompts])

    def _keep(
        self, step: AskStep, subjects: Subjects, found: Sequence[Found], prompts: Sequence[object]
    ) -> None:
        """prompts: by which the answers to each question are known; None where they are not kept."""
        items = np.arange(subjects.items)
        anchors = _names(subjects.anchors.keys)[subjects.anchor_rows(items)]
        partners = anchors[:0]
        if subjects.partners is not None:
            partners = _names(subjects.partners.keys)[subjects.partner_rows(items)]
        for prompt, answers in zip(prompts, found, strict=True):
            if prompt is None:
                continue
            good = (answers.states == TRUE) | (answers.states == FALSE)
            values = answers.values[good] if len(answers.values) else answers.values
            theirs = partners[good] if len(partners) else partners
            kept = _Answers(anchors[good], theirs, answers.states[good], values)
            before = self._found.get(prompt)
            self._found[prompt] = kept if before is None else before.and_(kept)

    def part(self, step: AskStep, items: int) -> float:
        """The part of a step's items of which something may be known, at most."""
        found = (self._found.get(_prompt(step, question)) for question in step.questions)
        most = max((len(answers.states) for answers in found if answers is not None), default=0)
        return min(1.0, most / items) if items else 0.0

    def put_last(self, step: AskStep, subjects: Subjects) -> Subjects:
        """Where every pair is asked, the anchors of which something is known behind the others."""
        if subjects.partners is None or subjects.pairs is not None or not self._concerns(step):
            return subjects
        names = _names(subjects.anchors.keys)
        touched = np.zeros(len(names), np.bool_)
        for question in step.questions:
            answers = self._found.get(_prompt(step, question))
            if answers is not None:
                touched |= np.isin(names, answers.anchors)
        return replace(subjects, anchors=subjects.anchors.take(np.argsort(touched, kind="stable")))

    def open_rounds(
        self, step: AskStep, subjects: Subjects, found: Sequence[Found], rounds: Sequence[Round]
    ) -> tuple[list[Round], Items]:
        """Note in `found` what is known; what is left of the rounds, and the items that `only_asked` is for.

        Of a step that ends with several matches everything is asked: which of them count is a matter of order.
        """
        several = step.enough is not None or step.groups is not None or step.each > 1
        if several or not self._concerns(step):
            return list(rounds), np.zeros(0, np.int64)
        touched = np.unique(
            np.concatenate([self._fill(step, n, subjects, found[n]) for n in range(len(found))])
        )
        if not len(touched):
            return list(rounds), touched
        states = np.stack([each.states[touched] for each in found])
        first = entries_of(step, subjects, touched).tolist()
        over = np.array([_end(step.questions, *each) for each in zip(first, states.T, strict=True)])
        settled = np.zeros(0, np.int64)
        if step.exists:
            settled = np.unique(subjects.anchor_rows(touched[over == MATCH]))
        parts: list[Round] = []
        for turn in rounds:
            parts += _without(turn, subjects, touched, settled)
            parts += _patterns(turn, subjects, touched[over >= 0], states[:, over >= 0], settled)
        return parts, touched

    def _concerns(self, step: AskStep) -> bool:
        return any(_prompt(step, question) in self._found for question in step.questions)

    def _fill(self, step: AskStep, number: int, subjects: Subjects, found: Found) -> Items:
        """Note the answers to a question; the items that they are about."""
        answers = self._found.get(_prompt(step, step.questions[number]))
        if answers is None:
            return np.zeros(0, np.int64)
        rows = _rows(_names(subjects.anchors.keys), answers.anchors)
        if subjects.partners is None:
            items = rows
        else:
            items = _items(subjects, rows, _rows(_names(subjects.partners.keys), answers.partners))
        there = items >= 0
        found.states[items[there]] = answers.states[there]
        if len(found.values):
            found.values[items[there]] = answers.values[there]
        return items[there]


def only_asked(step: AskStep, subjects: Subjects, items: Items, found: Sequence[Found]) -> None:
    """Forget answers to questions that the other answers leave unasked: a sample is asked all of them, but of a step
    nothing is known beyond what it asks. Afterwards all is as if no sample had been.
    """
    questions = step.questions
    states = np.stack([*(each.states[items] for each in found), entries_of(step, subjects, items)])
    patterns, which = np.unique(states, axis=1, return_inverse=True)
    for number, (*pattern, at) in enumerate(patterns.T):
        reached = set()
        while at >= 0:
            reached.add(at)
            if pattern[at] == NOT_ASKED:
                break
            at = following(questions[at], pattern[at])
        for question in set(range(len(questions))) - reached:
            found[question].states[items[which.ravel() == number]] = NOT_ASKED


def following(question: Question, state: np.int8) -> int:
    """The question after one that is answered."""
    if state == NULL and question.on_null is not None:
        return question.on_null
    return question.on_true if state == TRUE else question.on_false


def _prompt(step: AskStep, question: Question) -> object:
    sides = len(step.anchors.arguments), len(step.partners.arguments) if step.partners is not None else -1
    test = question.above, question.accepted
    return step.prefix, question.suffix, question.kind, question.labels, test, sides


def _names(keys: Keys) -> Names:
    """The keys of each row as one value."""
    if not keys.columns:
        return np.zeros(keys.rows, "S16")
    columns = [np.ascontiguousarray(column).view("S16") for column in keys.columns]
    if len(columns) == 1:
        return columns[0]
    return np.ascontiguousarray(np.stack(columns, axis=1)).view(f"S{16 * len(columns)}").ravel()


def _rows(names: Names, wanted: Names) -> Items:
    """In which row each wanted name stands, -1 for none."""
    different, which = np.unique(wanted, return_inverse=True)
    rows = np.full(len(different), -1)
    place = np.minimum(np.searchsorted(different, names), len(different) - 1)
    here = np.flatnonzero(different[place] == names) if len(different) else np.zeros(0, np.int64)
    rows[place[here]] = here
    return rows[which]


def _items(subjects: Subjects, anchors: Items, partners: Items) -> Items:
    """The item of each pair of rows, -1 for none."""
    assert subjects.partners is not None
    both = (anchors >= 0) & (partners >= 0)
    if subjects.pairs is None:
        return np.where(both, anchors * len(subjects.partners) + partners, -1)
    # A pair as one number: ascending within an anchor only where partners were read in order.
    size = max(len(subjects.partners), 1)
    met = subjects.anchor_rows(np.arange(subjects.items)).astype(np.int64) * size + subjects.pairs.indices
    order = np.argsort(met, kind="stable")
    wanted = np.where(both, anchors * size + partners, -1)
    place = np.minimum(np.searchsorted(met, wanted, sorter=order), len(met) - 1)
    return (
        np.where(both & (met[order[place]] == wanted), order[place], -1)
        if len(met)
        else np.full(len(both), -1)
    )


def _end(questions: Sequence[Question], at: int, states: NDArray[np.int8]) -> int:
    """The first question from `at` on that is open once the known ones are answered; -1 or MATCH where none is."""
    while at >= 0 and states[at] != NOT_ASKED:
        at = following(questions[at], states[at])
    return at


def _without(turn: Round, subjects: Subjects, touched: Items, settled: Items) -> list[Round]:
    """What of a round nothing is known of."""
    if turn.items is None and subjects.partners is not None and subjects.pairs is None:
        # The anchors of which something is known are the last ones, and of those some pairs are still open.
        first = int(subjects.anchor_rows(touched).min())
        size = len(subjects.partners)
        rest = np.setdiff1d(np.arange(first * size, subjects.items), touched)
        rest = rest[~np.isin(subjects.anchor_rows(rest), settled)]
        parts = [replace(turn, subjects=subjects.restrict(rest), items=rest)] if len(rest) else []
        if first:
            untouched = replace(subjects, anchors=subjects.anchors.take(np.arange(first)))
            parts.insert(0, replace(turn, subjects=untouched))
        return parts
    items = np.arange(turn.subjects.items) if turn.items is None else turn.items
    left = np.flatnonzero(~np.isin(items, touched) & ~np.isin(subjects.anchor_rows(items), settled))
    if not len(left):
        return []
    return [replace(turn, subjects=turn.subjects.restrict(left), items=items[left])]


def _patterns(
    turn: Round, subjects: Subjects, touched: Items, states: NDArray[np.int8], settled: Items
) -> list[Round]:
    """What of a round is known in part, by what is known."""
    open_ = ~np.isin(subjects.anchor_rows(touched), settled)
    if not open_.any():
        return []
    patterns, which = np.unique(states[:, open_], axis=1, return_inverse=True)
    parts = []
    for number, pattern in enumerate(patterns.T):
        wanted = touched[open_][which.ravel() == number]
        local = wanted if turn.items is None else np.flatnonzero(np.isin(turn.items, wanted))
        if len(local):
            known = {question: bool(state == TRUE) for question, state in enumerate(pattern) if state}
            items = local if turn.items is None else turn.items[local]
            parts.append(replace(turn, subjects=turn.subjects.restrict(local), items=items, known=known))
    return parts
