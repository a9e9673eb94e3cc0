"""Arrays of a chunk and of states by address go in; out comes the first fault of it, or the states it leaves.

Compiled, so that thousands of forests take seconds. Hashes are of 64 bits, kept as int64.
"""

from __future__ import annotations

import numpy as np
from covey_engine.prefill.scheduling.compiled import (
    BytesOut,
    FloatTableOut,
    Ints,
    IntsOut,
    Table,
    Tokens,
    kernel,
)

UNWRITTEN, DUE, WRITTEN = 0, 1, 2
"""What an address may be while a chunk runs: nothing, one of the chunk's own that is to come, readable."""

FAULTS = (
    "",
    "a row writes an address outside the arena",
    "two rows write one address",
    "segments do not stand one after another",
    "a segment's rows do not write one after another",
    "the segments are not all rows",
    "a context without rows or keys",
    "a context of rows that the chunk does not have",
    "a context reads outside the arena",
    "answer rows do not ascend, or are not the chunk's",
)

READ_TOO_EARLY, WRONG_POSITION = 1, 2


@kernel
def check(
    addresses: Ints, segments: Table, contexts: Table, answers: Tokens, written: BytesOut
) -> tuple[int, int]:
    """The chunk's fault, an index into FAULTS, and the row, segment, context or answer that has it.

    Its addresses are DUE from then on.
    """
    size = len(addresses)
    for row in range(size):
        if not 0 <= addresses[row] < len(written):
            return 1, row
        written[addresses[row]] = UNWRITTEN
    for row in range(size):
        if written[addresses[row]] == DUE:
            return 2, row
        written[addresses[row]] = DUE
    rows = 0
    for n in range(len(segments)):
        if segments[n, 0] != rows or segments[n, 1] <= 0:
            return 3, n
        for row in range(rows, min(rows + segments[n, 1], size)):
            if addresses[row] != segments[n, 2] + row - rows:
                return 4, row
        rows += segments[n, 1]
    if rows != size:
        return 5, rows
    for n in range(len(contexts)):
        if contexts[n, 1] <= 0 or contexts[n, 3] <= 0:
            return 6, n
        if contexts[n, 0] < 0 or contexts[n, 0] + contexts[n, 1] > size:
            return 7, n
        if contexts[n, 2] < 0 or contexts[n, 2] + contexts[n, 3] > len(written):
            return 8, n
    for n in range(len(answers)):
        if not (answers[n - 1] if n else -1) < answers[n] < size:
            return 9, n
    return 0, 0


@kernel
def _mix(token: int, position: int, before: int) -> int:
    """A hash of three numbers."""
    value = np.uint64(token) * np.uint64(0x9E3779B97F4A7C15)
    value ^= np.uint64(before) ^ (np.uint64(position) * np.uint64(0xC2B2AE3D27D4EB4F))
    value += np.uint64(0x165667B19E3779F9)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(value ^ (value >> np.uint64(31)))


@kernel
def run(
    tokens: Tokens,
    positions: Tokens,
    addresses: Ints,
    segments: Table,
    contexts: Table,
    states: IntsOut,
    written: BytesOut,
) -> tuple[int, int, int]:
    """Compute the states of a chunk that was checked; a fault, its row, and which address or how many tokens."""
    order = np.argsort(contexts[:, 0], kind="mergesort")
    # The contexts that a row is in: the row after their last, their keys and the sum of those states.
    ends, keys, totals = np.empty_like(order), np.empty_like(order), np.empty_like(order)
    active = begun = 0
    for n in range(len(segments)):
        own = 0
        for row in range(segments[n, 0], segments[n, 0] + segments[n, 1]):
            left = 0
            for m in range(active):
                if ends[m] > row:
                    ends[left], keys[left], totals[left] = ends[m], keys[m], totals[m]
                    left += 1
            active = left
            while begun < len(order) and contexts[order[begun], 0] == row:
                context = order[begun]
                begun += 1
                total = 0
                for address in range(contexts[context, 2], contexts[context, 2] + contexts[context, 3]):
                    if written[address] != WRITTEN:
                        return READ_TOO_EARLY, row, address
                    total += states[address]
                ends[active] = row + contexts[context, 1]
                keys[active], totals[active] = contexts[context, 3], total
                active += 1
            seen, before = row - segments[n, 0], own
            for m in range(active):
                seen += keys[m]
                before += totals[m]
            if seen != positions[row]:
                return WRONG_POSITION, row, seen
            states[addresses[row]] = _mix(tokens[row], positions[row], before)
            written[addresses[row]] = WRITTEN
            own += states[addresses[row]]
    return 0, 0, 0


@kernel
def walk(tokens: Tokens, states: IntsOut) -> None:
    """The states of one prompt's tokens, each attending to all before it."""
    before = 0
    for position in range(len(tokens)):
        states[position] = _mix(tokens[position], position, before)
        before += states[position]


@kernel
def head(states: Ints, tokens: Ints, vocabulary: Ints, logits: FloatTableOut) -> None:
    """Write the logits of some tokens after each state; then, unless `vocabulary` is empty, its log-sum-exp."""
    for n in range(len(states)):
        for m in range(len(tokens)):
            logits[n, m] = (np.uint64(_mix(tokens[m], 1, states[n])) >> np.uint64(40)) / (1 << 20) - 8.0
        total = -np.inf
        for token in vocabulary:
            logit = (np.uint64(_mix(token, 1, states[n])) >> np.uint64(40)) / (1 << 20) - 8.0
            total = np.logaddexp(total, np.float64(np.float32(logit)))
        if len(vocabulary):
            logits[n, len(tokens)] = total
