"""The fake runner finds whatever is wrong with a chunk: it fails, or a prompt gets another answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from covey_engine.prefill.api import Labels, YesNo
from covey_engine.prefill.chunk import Chunk
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_runner import FakeRunner, check_chunk, plain_margin, plain_scores
from support.hand_packing import HandPacker, Segment

ARENA, CHUNK = 400, 100
READOUT = YesNo((3,), (4,))

Fault = Callable[[Chunk, Random], Chunk | None]
"""The chunk with a fault, None where it has nothing that can have this one."""


def two_chunks(random: Random) -> list[tuple[Chunk, list[tuple[int, ...]]]]:
    """A tree of segments in two chunks, each of whose last tokens is read; chunks and the prompts of their answers."""
    packer, segments = HandPacker(), list[Segment]()
    chunks = []
    for count in (random.randint(2, 6), random.randint(2, 6)):
        for _ in range(count):
            parent = random.choice(segments) if segments and random.random() < 0.9 else None
            tokens = [random.randrange(20) for _ in range(random.randint(1, 6))]
            segments.append(packer.add(tokens, parent, (-1,)))
        chunks.append(packer.chunk())
    return chunks


def runs_right(chunks: list[tuple[Chunk, list[tuple[int, ...]]]]) -> bool:
    """Whether all answers of the chunks are those of their prompts."""
    runner = FakeRunner(ARENA, CHUNK)
    runner.set_answer_tokens((3, 4))
    for chunk, prompts in chunks:
        logits = runner.run(chunk)
        if len(logits) != len(prompts):
            return False
        margins = [plain_margin(prompt, READOUT) for prompt in prompts]
        if not np.allclose(logits[:, 0] - logits[:, 1], margins, rtol=0, atol=1e-4):
            return False
    return True


def one(name: str, amount: int) -> Fault:
    """One number of a column of rows is another."""

    def fault(chunk: Chunk, random: Random) -> Chunk:
        values = getattr(chunk, name).copy()
        values[random.randrange(len(values))] += amount
        return replace(chunk, **{name: values})

    return fault


def row(name: str, *amounts: int) -> Fault:
    """The numbers of a segment or a context are others."""

    def fault(chunk: Chunk, random: Random) -> Chunk | None:
        table = getattr(chunk, name).copy()
        if not len(table):
            return None
        table[random.randrange(len(table))] += amounts
        return replace(chunk, **{name: table})

    return fault


def drop(name: str) -> Fault:
    """A segment, a context or an answer is left out."""

    def fault(chunk: Chunk, random: Random) -> Chunk | None:
        table = getattr(chunk, name)
        return (
            replace(chunk, **{name: np.delete(table, random.randrange(len(table)), 0)})
            if len(table)
            else None
        )

    return fault


def twice(name: str) -> Fault:
    """A segment, a context or an answer is there twice."""

    def fault(chunk: Chunk, random: Random) -> Chunk | None:
        table = getattr(chunk, name)
        where = [random.randrange(len(table))] if len(table) else []
        return replace(chunk, **{name: np.insert(table, where, table[where], 0)}) if where else None

    return fault


def move(chunk: Chunk, random: Random) -> Chunk | None:
    """The rows of a segment that others read are somewhere else."""
    read = {int(start) for start in chunk.contexts[:, 2]}
    found = [n for n, (_, _, address) in enumerate(chunk.segments.tolist()) if address in read]
    if not found:
        return None
    return _put(chunk, random.choice(found), ARENA - 20)


def overwrite(chunk: Chunk, random: Random) -> Chunk | None:
    """The rows of a segment are where others are read that they attend to."""
    first, _, keys = chunk.contexts[:, 0], chunk.contexts[:, 1], chunk.contexts[:, 2]
    found = [(n, int(key)) for n, (begin, *_) in enumerate(chunk.segments) for key in keys[first == begin]]
    return _put(chunk, *random.choice(found)) if found else None


def _put(chunk: Chunk, segment: int, address: int) -> Chunk:
    begin, length, _ = chunk.segments[segment]
    addresses, segments = chunk.kv_address.copy(), chunk.segments.copy()
    addresses[begin : begin + length] = address + np.arange(length)
    segments[segment, 2] = address
    return replace(chunk, kv_address=addresses, segments=segments)


def another(chunk: Chunk, random: Random) -> Chunk | None:
    """A context reads as many keys of another range that is written."""
    contexts = chunk.contexts.copy()
    places = [
        (n, int(start)) for n in range(len(contexts)) for start in contexts[:, 2] if start != contexts[n, 2]
    ]
    if not places:
        return None
    n, start = random.choice(places)
    contexts[n, 2] = start
    return replace(chunk, contexts=contexts)


def later(chunk: Chunk, random: Random) -> Chunk | None:
    """A context reads what the chunk has not computed yet."""
    contexts = chunk.contexts.copy()
    segments = [
        (n, address)
        for n, (row, *_) in enumerate(contexts.tolist())
        for begin, _, address in chunk.segments.tolist()
        if begin >= row
    ]
    if not segments:
        return None
    n, address = random.choice(segments)
    contexts[n, 2:] = address, 1
    return replace(chunk, contexts=contexts)


def merge(chunk: Chunk, random: Random) -> Chunk | None:
    """Two segments are one."""
    if len(chunk.segments) < 2:
        return None
    n = random.randrange(len(chunk.segments) - 1)
    segments = np.delete(chunk.segments, n + 1, 0)
    segments[n, 1] += chunk.segments[n + 1, 1]
    return replace(chunk, segments=segments)


def split(chunk: Chunk, random: Random) -> Chunk | None:
    """One segment is two, of which the second does not attend to the first."""
    long = [n for n, length in enumerate(chunk.segments[:, 1].tolist()) if length > 1]
    if not long:
        return None
    n = random.choice(long)
    begin, length, address = chunk.segments[n].tolist()
    cut = random.randint(1, length - 1)
    parts = [[begin, cut, address], [begin + cut, length - cut, address + cut]]
    return replace(chunk, segments=np.concatenate([chunk.segments[:n], parts, chunk.segments[n + 1 :]]))


FAULTS: dict[str, Fault] = {
    "another token": one("tokens", 1),
    "a position late": one("positions", 1),
    "a position early": one("positions", -1),
    "a row elsewhere": one("kv_address", 1),
    "a row outside the arena": one("kv_address", ARENA),
    "a row below the arena": one("kv_address", -ARENA),
    "another answer": one("answers", 1),
    "an answer outside the chunk": one("answers", CHUNK),
    "an answer below the chunk": one("answers", -CHUNK),
    "a segment longer": row("segments", 0, 1, 0),
    "a segment shorter": row("segments", 0, -1, 0),
    "a segment later": row("segments", 1, 0, 0),
    "a segment elsewhere": row("segments", 0, 0, 1),
    "a context of one row less": row("contexts", 0, -1, 0, 0),
    "a context of one row more": row("contexts", 0, 1, 0, 0),
    "a context a row late": row("contexts", 1, -1, 0, 0),
    "a context a row early": row("contexts", -1, 1, 0, 0),
    "a context a key late": row("contexts", 0, 0, 1, 0),
    "a context a key early": row("contexts", 0, 0, -1, 0),
    "a context without its first key": row("contexts", 0, 0, 1, -1),
    "a context without its last key": row("contexts", 0, 0, 0, -1),
    "a context of a key more": row("contexts", 0, 0, 0, 1),
    "a context outside the arena": row("contexts", 0, 0, ARENA, 0),
    "a context below the arena": row("contexts", 0, 0, -ARENA, 0),
    "no segment": drop("segments"),
    "no context": drop("contexts"),
    "no answer": drop("answers"),
    "a segment twice": twice("segments"),
    "a context twice": twice("contexts"),
    "an answer twice": twice("answers"),
    "rows that are read elsewhere": move,
    "rows over what they read": overwrite,
    "another context": another,
    "a context read before it is written": later,
    "two segments in one": merge,
    "a segment in two": split,
}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_right_chunks_give_right_answers(seed: int) -> None:
    assert runs_right(two_chunks(Random(seed)))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    tried = 0
    for seed in range(40):
        random = Random(seed)
        chunks = two_chunks(random)
        which = random.randrange(2)
        wrong = FAULTS[name](chunks[which][0], random)
        if wrong is None:
            continue
        tried += 1
        chunks[which] = (wrong, chunks[which][1])
        try:
            found = not runs_right(chunks)
        except AssertionError:
            found = True
        assert found, seed
    assert tried > 10


def reading_chunks() -> tuple[Chunk, Chunk]:
    """Two chunks, of which the second one's first context reads what the first one wrote."""
    for seed in range(99):
        (first, _), (second, _) = two_chunks(Random(seed))
        if len(second.contexts) and second.contexts[0, 2] < second.segments[0, 2]:
            return first, second
    raise AssertionError("no such chunks")


@pytest.mark.parametrize("scratch", [False, True])
def test_what_is_forgotten_cannot_be_read(scratch: bool) -> None:
    first, second = reading_chunks()
    runner = FakeRunner(ARENA, CHUNK)
    runner.set_answer_tokens((3, 4))
    address = int(second.contexts[0, 2])
    if scratch:
        runner.run(replace(first, scratch=address + 1))
    else:
        runner.run(first)
        runner.forget([address], [1])
    with pytest.raises(AssertionError, match="before it is written"):
        runner.run(second)


def test_a_chunk_is_no_longer_than_it_may_be_and_has_arrays_of_its_types() -> None:
    ((chunk, _), _) = two_chunks(Random(1))
    check_chunk(chunk, ARENA, len(chunk))
    for wrong in (
        replace(chunk, tokens=chunk.tokens.astype(np.int64)),
        replace(chunk, segments=chunk.segments.astype(np.int32)),
        replace(chunk, positions=chunk.positions[:-1]),
        replace(chunk, contexts=np.zeros((1, 3), np.int64)),
    ):
        with pytest.raises(AssertionError):
            check_chunk(wrong, ARENA, len(chunk))
    with pytest.raises(AssertionError, match="at most"):
        check_chunk(chunk, ARENA, len(chunk) - 1)


@pytest.mark.parametrize("tokens", [(1, 2), (2, 1, 3), (1, 2, 4), (5, 2, 3), (1, 2, 3, 3)])
def test_an_answer_depends_on_every_token_of_the_prompt(tokens: tuple[int, ...]) -> None:
    assert plain_margin(tokens, READOUT) != plain_margin((1, 2, 3), READOUT)
    labels = Labels(((5, 6), (7,)))
    assert plain_scores(tokens, labels) != plain_scores((1, 2, 3), labels)
