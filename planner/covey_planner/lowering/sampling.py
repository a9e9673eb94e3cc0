"""Steps and doubtful questions in, steps that ask those questions of a sample out; runs nothing.

A sample is drawn from what a step would be asked about if nothing had been answered before, by a hash of the texts'
keys: where they stand in a table does not count. It is asked all that the step may ask, so that what is computed for
its texts need not be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from covey_planner.lowering.domains import VALUE, key
from covey_planner.ordering.doubt import PAIRS, PARTNERS, TEXTS
from covey_planner.physical import AskStep, CallKey, Domain, Given, PhysicalPlan, Question, TextArgument

PAIRED = "__covey_sample"
"""Begins the names of the temporary tables that hold sampled pairs."""


def samples(plan: PhysicalPlan, keys: Set[CallKey]) -> tuple[AskStep, ...]:
    """The samples of a plan that was lowered with what estimates need; questions about computed texts have none."""
    found: dict[object, AskStep] = {}
    for number, step in enumerate(plan.steps):
        asked = _asked(step)
        if keys.isdisjoint(question.key for question in asked) or (step.prefix, asked) in found:
            continue
        sample = _sample(replace(step, questions=asked), f"{PAIRED}{number}")
        if sample is not None:
            found[step.prefix, asked] = sample
    return tuple(found.values())


def further_samples(plan: PhysicalPlan, keys: Set[CallKey], before: Sequence[AskStep]) -> tuple[AskStep, ...]:
    """The samples of a plan besides those that were asked before."""
    return tuple(sample for sample in samples(plan, keys) if sample not in before) if keys else ()


def _asked(step: AskStep) -> tuple[Question, ...]:
    """The questions of a step that a sample is asked, each once, one after another whatever the answers are."""
    kinds = {
        question.suffix: question
        for question in step.questions
        if question.kind == "score" or question.is_condition
    }
    last = len(kinds) - 1
    return tuple(
        replace(question, answers="", on_true=after, on_false=after, on_null=None)
        for number, question in enumerate(kinds.values())
        for after in [number + 1 if number < last else -1]
    )


def _sample(step: AskStep, table: str) -> AskStep | None:
    step = replace(step, exists=False, each=1, enough=None, ordered=False, pair_order=None, groups=None)
    step = replace(step, before=(), other=None, entries=())
    if step.partners is None:
        anchors = _drawn(step.anchors, TEXTS)
        return None if anchors is None else replace(step, anchors=anchors)
    if step.pairs is None:
        anchors, partners = _drawn(step.anchors, PAIRS // PARTNERS), _drawn(step.partners, PARTNERS)
        return (
            None if anchors is None or partners is None else replace(step, anchors=anchors, partners=partners)
        )
    return _paired(step, table)


def _paired(step: AskStep, table: str) -> AskStep | None:
    """A sample of linked pairs: of each of its anchors some partners, until there are enough."""
    given, partners = step.pairs_given, step.partners
    if given is None or partners is None or not _stored(step.anchors, partners):
        return None
    first, second = len(step.anchors.arguments), len(partners.arguments)
    ours, theirs = [f"a{n}" for n in range(first)], [f"p{n}" for n in range(second)]
    distinct = _distinct(given, [*ours, *theirs])
    rank = f"row_number() OVER (PARTITION BY {', '.join(ours)} ORDER BY {_hash(theirs)}) AS __covey_r"
    ranked = f"SELECT *, {rank} FROM ({distinct}) AS __covey_k"
    drawn = (
        f"SELECT {', '.join([*ours, *theirs])} FROM ({ranked}) AS __covey_s WHERE __covey_r <= {PARTNERS}"
        f" ORDER BY {_hash(ours)}, __covey_r LIMIT {PAIRS}"
    )

    def side(domain: Domain, names: list[str], start: int) -> Domain:
        keys = ", ".join(f"{name} AS k{n}" for n, name in enumerate(names))
        return replace(
            domain, sql=f"SELECT DISTINCT {keys} FROM {table}", arguments=_texts(domain, given, start)
        )

    return replace(
        step,
        anchors=side(step.anchors, ours, 0),
        partners=side(partners, theirs, first),
        pairs=f"SELECT * FROM {table}",
        before=((table, drawn),),
    )


def _drawn(domain: Domain, count: int) -> Domain | None:
    """So many tuples of a domain; None where it cannot be told what there is before anything is answered."""
    if domain.given is None or not _stored(domain):
        return None
    names = [f"k{n}" for n in range(len(domain.arguments))]
    distinct = _distinct(domain.given, names)
    sql = f"SELECT * FROM ({distinct}) AS __covey_s ORDER BY {_hash(names)} LIMIT {count}"
    return replace(domain, sql=sql, arguments=_texts(domain, domain.given, 0))


def _stored(*domains: Domain) -> bool:
    """Whether all texts are stored: to compute one for rows that would not be asked about may fail."""
    arguments = [argument for domain in domains for argument in domain.arguments]
    return all(argument.table is not None for argument in arguments) and all(
        domain.arguments for domain in domains
    )


def _distinct(given: Given, names: list[str]) -> str:
    """The distinct keys of the texts that some rows yield."""
    keys = ", ".join(f"{key(f'{VALUE}{n}')} AS {name}" for n, name in enumerate(names))
    there = " AND ".join(f"{VALUE}{n} IS NOT NULL" for n in range(len(names)))
    return f"SELECT DISTINCT {keys} FROM ({given.rows}) AS __covey_d WHERE {there}"


def _hash(names: list[str]) -> str:
    return f"hash({', '.join(names)})"


def _texts(domain: Domain, given: Given, start: int) -> tuple[TextArgument, ...]:
    """The arguments with their texts taken from rows that need no answer; start: the number of the first among them."""
    found = []
    for number, argument in enumerate(domain.arguments, start):
        name = f"{VALUE}{number}"
        sql = f"SELECT {key(name)} AS key, any_value(CAST({name} AS VARCHAR)) AS text FROM ({given.rows}) AS __covey_d"
        found.append(replace(argument, texts=f"{sql} WHERE {name} IS NOT NULL GROUP BY 1"))
    return tuple(found)
