"""Lists of labels, each asked by a question of its own: from their answer tables to one table of lists; asks nothing.

Written out, a list is an expression of one look-up a label, and DuckDB gives up on some hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from covey_planner.call import Call
from covey_planner.language.multi import is_list, labels_of
from covey_planner.language.parse import sites_of
from covey_planner.lowering.asked import join_of
from covey_planner.lowering.frame import Frame
from covey_planner.lowering.residual import Answers, Insertion, Rewrites

FEW = 8
"""Labels of a list that stays written out: whatever may stand for it then is known."""


@dataclass
class Lists:
    """The long lists of a statement. labels: by the sites of their questions; answers: those that are known; names:
    under which a table of lists is read, by the block that it is joined into (None: looked up) and what it holds.
    """

    labels: dict[tuple[int, ...], tuple[str, ...]]
    answers: dict[int, Answers] = field(default_factory=dict)
    names: dict[tuple[int | None, tuple[str, ...], tuple[str, ...]], str] = field(default_factory=dict)

    @staticmethod
    def of(tree: exp.Expr) -> Lists:
        """Those in a syntax tree."""
        found = {sites_of(node): labels_of(node) for node in tree.walk() if is_list(node)}
        return Lists({sites: labels for sites, labels in found.items() if len(sites) > FEW})

    def holds(self, site: int) -> bool:
        """Whether a question is one of a list's."""
        return any(site in sites for sites in self.labels)

    def note(
        self,
        calls: Sequence[Call],
        answers: Answers,
        rewrites: Rewrites,
        alias: Callable[[], str],
        frame: Frame | None = None,
    ) -> None:
        """Take in the answers of some equal calls, and note where the lists that they complete are looked up.

        alias: gives fresh names; frame: of a block whose FROM they may be joined into, for what comes after WHERE.
        """
        for call in calls:
            self.answers[call.site] = answers
            for sites, labels in self.labels.items():
                if call.site in sites and all(each in self.answers for each in sites):
                    found = _together([self.answers[each] for each in sites], labels)
                    into = frame if frame is not None and _can_join(frame, call) else None
                    name = self._named(found, rewrites, alias, into)
                    rewrites.lists[sites] = found.found(name)
                    if into is not None:
                        into.lists[sites] = f"{name}.{name}_answer"

    def _named(self, found: Answers, rewrites: Rewrites, alias: Callable[[], str], into: Frame | None) -> str:
        """The name of a table of lists: equal lists are looked up and joined in alike, so that DuckDB finds them equal
        in GROUP BY and SELECT.
        """
        block = None if into is None else into.block.number
        place = block, found.tables, tuple(found.keys)
        if place not in self.names:
            self.names[place] = alias()
            if block is not None:
                insertion = Insertion("LEFT", found, self.names[place], -1)
                rewrites.insertions.setdefault(block, []).append(insertion)
        return self.names[place]


def _can_join(frame: Frame, call: Call) -> bool:
    own = call.relations <= frame.source.relations
    return frame.insertable and own and join_of(frame, call) is None


def _together(each: Sequence[Answers], labels: Sequence[str]) -> Answers:
    """One answer table of lists: of the labels that are true, in their order; NULL where none has an answer."""
    keys = ", ".join(f"k{n}" for n in range(len(each[0].order)))
    parts = [
        f"SELECT {keys}, answer, {number} AS n, '{_quoted(label)}' AS label FROM {table}"
        for number, (answers, label) in enumerate(zip(each, labels, strict=True))
        for table in answers.tables
    ]
    true = "list(label ORDER BY n) FILTER (WHERE answer)"
    made = f"CASE WHEN count(answer) > 0 THEN coalesce({true}, CAST([] AS VARCHAR[])) END"
    return replace(
        each[0], tables=(f"(SELECT {keys}, {made} FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL)",)
    )


def _quoted(label: str) -> str:
    return label.replace("'", "''")
