"""The pairs query and two sides' keys go in, indices sorted by anchor come out; a pair is never an object."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from covey_storage.numbers import numbers
from numpy.typing import NDArray

from covey_engine.operators.domains import Keys
from covey_engine.operators.streaming import Statements
from covey_engine.prefill import api


def pairs(counts: NDArray[np.integer], partners: NDArray[np.integer]) -> api.Pairs:
    """Pairs from the number of partners of each anchor and the partners, anchor by anchor."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return api.Pairs(offsets, np.ascontiguousarray(partners, dtype=np.int32))


def read_pairs(statements: Statements, sql: str, anchors: Keys, partners: Keys) -> api.Pairs:
    """Which partner rows each anchor row meets; pairs with a key outside the two domains are not asked.

    DuckDB does the matching of keys to rows and the sorting, on all cores and within its memory limit.
    """
    with (
        statements.registered("covey_anchor_keys", numbered(anchors)),
        statements.registered("covey_partner_keys", numbered(partners)),
    ):
        matched = statements.table(
            f"SELECT anchors.row, partners.row FROM ({sql}) AS pairs"
            f" JOIN covey_anchor_keys AS anchors ON {equal('anchors', 'pairs', 'a', anchors)}"
            f" JOIN covey_partner_keys AS partners ON {equal('partners', 'pairs', 'p', partners)}"
            " ORDER BY 1, 2"
        )
    anchor, partner = (numbers(column) for column in matched.columns)
    return pairs(np.bincount(anchor, minlength=len(anchors)), partner)


def drop_idle_anchors(anchors: Keys, met: api.Pairs) -> tuple[Keys, api.Pairs]:
    """Leave out anchors that meet no partner: their texts need no tokens and no computation."""
    counts = np.diff(met.offsets)
    busy = np.flatnonzero(counts)
    if len(busy) == len(anchors):
        return anchors, met
    return anchors.take(busy), pairs(counts[busy], met.indices)


def numbered(keys: Keys) -> pa.Table:
    """Keys with the number of their row."""
    names = [f"k{i}" for i in range(len(keys.columns))]
    return pa.table([*keys.arrays(), pa.array(np.arange(len(keys), dtype=np.int32))], names=[*names, "row"])


def equal(side: str, other: str, letter: str, keys: Keys) -> str:
    """A side's keys are those of another query, whose columns are called by a letter."""
    return " AND ".join(f"{side}.k{i} = {other}.{letter}{i}" for i in range(len(keys.columns))) or "TRUE"
