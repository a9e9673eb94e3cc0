"""Answers by which rows are ordered below a LIMIT, asked before the question about pairs that leaves them; no SQL of
its own.

Of `a JOIN b ON AI_FILTER(…) ORDER BY AI_SCORE(a.x) LIMIT k` the scores are far fewer than the pairs. Once they are
known, pairs are asked in their order until there are enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from covey_planner.call import Call
from covey_planner.language.parse import site_number, sites_of
from covey_planner.logical import Ask, Source, filters, leaves
from covey_planner.lowering.ending import Ending, steady
from covey_planner.lowering.first_rows import key_of, key_relations, ordered, rows_wanted
from covey_planner.rules.share_documents import documents

if TYPE_CHECKING:
    from covey_planner.lowering.frame import Frame
    from covey_planner.lowering.lower import Lowering


def ranked_ending(lowering: Lowering, frame: Frame) -> Ending | None:
    """How the last filter of the statement's own SELECT ends once the answers in its keys are known; asks for these."""
    block, select = frame.block, frame.block.select
    source, conditions = filters(block.plan)
    order, last = select.args.get("order"), conditions[-1]
    enough = rows_wanted(select, source)
    if order is None or enough is None or documents(last) is None or block.joins:
        return None
    calls = [leaf.call for leaf in leaves(last) if isinstance(leaf, Ask)]
    if not (
        steady(conditions[:-1]) and all(call.is_join and call.relations <= source.relations for call in calls)
    ):
        return None
    found = [key_of(key, select, asking=True) for key in order.expressions]
    keys = [key for key in found if key is not None]
    calls_of = {value.call.site: value.call for value in block.values}
    relations = [_read(key, calls_of, source) for key in keys]
    sites = {site for key in keys for site in sites_of(key)}
    asked = {value.call.identity for value in block.values if value.call.site in sites}
    wanted = [
        value
        for value in block.values
        if value.call.identity in asked and value.call.site not in lowering.late
    ]
    if len(keys) < len(found) or None in relations or not sites <= {value.call.site for value in wanted}:
        return None
    if any(value.grouped or value.guards or value.call.is_join for value in wanted):
        return None
    for group, answers in lowering.values.answers(frame, wanted, ()):
        lowering.values.note(frame, group, answers)
    written = [lowering.rewrites.sql(key) for key in keys]
    parts = [(sql, read) for sql, read in zip(written, relations, strict=True) if read is not None]
    return Ending(enough, ordered(parts, False))


def _read(key: exp.Expr, calls: Mapping[int, Call], source: Source) -> frozenset[str] | None:
    """The relations that a key reads, those of its calls included; None where that cannot be told."""
    rest = exp.Paren(this=key.copy())
    for node in list(rest.walk()):
        if site_number(node) is not None:
            node.replace(exp.null())
    own = frozenset().union(*(calls[site].relations for site in sites_of(key) if site in calls))
    besides = key_relations([rest], source) if rest.find(exp.Column) is not None else frozenset()
    return None if besides is None else own | besides
