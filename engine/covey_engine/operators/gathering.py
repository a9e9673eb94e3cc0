"""A step's domains go in, who is asked comes out, with the groups that they belong to; asks nothing."""

from __future__ import annotations

from dataclasses import dataclass

from covey_planner.physical import AskStep, Domain
from covey_storage.library import TokenLibrary

from covey_engine.operators.domains import Keys, Side, read_keys, resolve
from covey_engine.operators.groups import Waves, read_groups
from covey_engine.operators.pairs import drop_idle_anchors, read_pairs
from covey_engine.operators.scratch import Scratch
from covey_engine.operators.streaming import Statements
from covey_engine.operators.subjects import Subjects


@dataclass(frozen=True)
class Gathering:
    """Where one query's domains and tokens come from."""

    statements: Statements
    library: TokenLibrary
    scratch: Scratch

    def subjects(self, step: AskStep) -> tuple[Subjects | None, Waves | None]:
        """Who is asked, in which groups; None where nobody is: then no text is tokenized either."""
        anchors = read_keys(self.statements, step.anchors)
        if step.groups is None:
            return self._all(step, anchors), None
        partners = None if step.partners is None else read_keys(self.statements, step.partners)
        members, anchors, met = read_groups(self.statements, step, anchors, partners)
        subjects = None
        if len(anchors) and partners is None:
            subjects = Subjects(self._resolve(step.anchors, anchors))
        elif len(anchors) and partners is not None and len(partners):
            assert step.partners is not None
            sides = self._resolve(step.anchors, anchors), self._resolve(step.partners, partners)
            subjects = Subjects(*sides, met)
        if subjects is None:
            members = members.without_units()
        units = 0 if subjects is None else len(anchors) if members.anchors else subjects.items
        return subjects, Waves(step.groups, members, units, step.ordered)

    def _all(self, step: AskStep, anchors: Keys) -> Subjects | None:
        if step.partners is None:
            return Subjects(self._resolve(step.anchors, anchors)) if len(anchors) else None
        partners = read_keys(self.statements, step.partners) if len(anchors) else None
        if not partners:
            return None
        met = None
        if step.pairs is not None:
            anchors, met = drop_idle_anchors(
                anchors, read_pairs(self.statements, step.pairs, anchors, partners)
            )
            if not len(anchors):
                return None
        return Subjects(self._resolve(step.anchors, anchors), self._resolve(step.partners, partners), met)

    def _resolve(self, domain: Domain, keys: Keys) -> Side:
        return resolve(self.statements, self.library, self.scratch, domain, keys)
