"""A token column's files at one moment, mapped: slots, keys, indexes and the order; writes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey_storage import slot_files
from covey_storage.errors import Damaged, NotFound, StorageError
from covey_storage.keys import KEY, halves
from covey_storage.numbers import numbers
from covey_storage.ordering import Order, extend, spans
from covey_storage.slot_files import SlotFile

_NO_ORDER = Order(np.empty(0, np.int32), np.empty(0, np.int32))


@dataclass(frozen=True)
class Segment:
    """The slots from `start` on that one file holds; all arrays are views into it."""

    file: SlotFile
    keys: NDArray[np.void]
    offsets: NDArray[np.int64]
    values: NDArray[np.int32]

    @property
    def start(self) -> int:
        """The first slot."""
        return self.file.start

    @staticmethod
    def open(folder: Path, file: SlotFile) -> Segment:
        """Map a file. Raises Damaged."""
        batch = slot_files.read(file.path(folder))
        key, tokens = batch.column("key"), batch.column("tokens")
        if batch.num_rows != file.stop - file.start:
            raise Damaged(f"{file.path(folder)} is damaged: it holds {batch.num_rows} texts")
        return Segment(
            file,
            np.frombuffer(key.buffers()[1], KEY, batch.num_rows),
            np.frombuffer(tokens.buffers()[1], np.int64, batch.num_rows + 1),
            numbers(tokens.values),
        )


@dataclass(frozen=True)
class Index:
    """Where the keys of a range of slots are: the keys' first halves ascending, and each one's slot."""

    file: SlotFile
    prefixes: NDArray[np.uint64]
    slots: NDArray[np.int32]

    @staticmethod
    def open(folder: Path, file: SlotFile) -> Index:
        """Map a file. Raises Damaged."""
        batch = slot_files.read(file.path(folder))
        return Index(file, numbers(batch.column("prefix")), numbers(batch.column("slot")))

    @staticmethod
    def merge(parts: Sequence[Index]) -> Index:
        """One index for neighbouring ranges."""
        start, stop = min(part.file.start for part in parts), max(part.file.stop for part in parts)
        # The lowest slot comes first among equal prefixes.
        parts = sorted(parts, key=lambda part: part.file.start)
        prefixes = np.concatenate([part.prefixes for part in parts])
        order = np.argsort(prefixes, kind="stable")
        slots = np.concatenate([part.slots for part in parts])
        return Index(SlotFile("index", start, stop), prefixes[order], slots[order])

    @staticmethod
    def build(segments: Sequence[Segment], start: int, stop: int) -> Index:
        """An index that no file holds, of the slots from start up to stop."""
        parts = [
            segment.keys[max(0, start - segment.start) :] for segment in segments if segment.file.stop > start
        ]
        prefixes = halves(concatenate(parts, KEY))[:, 0]
        order = np.argsort(prefixes, kind="stable")
        return Index(SlotFile("index", start, stop), prefixes[order], (start + order).astype(np.int32))

    def find(self, wanted: NDArray[np.uint64], view: View) -> NDArray[np.int32]:
        """The slot of each key, given as halves [n, 2]; -1 where this index does not lead to it."""
        found = np.full(len(wanted), -1, np.int32)
        places = np.searchsorted(self.prefixes, wanted[:, 0])
        open_ = np.arange(len(wanted))
        # One round, but for keys that share their first half: those are tried one after another.
        while True:
            inside = places[open_] < len(self.prefixes)
            open_ = open_[inside]
            open_ = open_[self.prefixes[places[open_]] == wanted[open_, 0]]
            if len(open_) == 0:
                return found
            slots = self.slots[places[open_]]
            same = view.second_halves(slots) == wanted[open_, 1]
            found[open_[same]] = slots[same]
            open_ = open_[~same]
            places[open_] += 1


@dataclass(frozen=True)
class View:
    """A column at one moment."""

    segments: tuple[Segment, ...]
    indexes: tuple[Index, ...]
    sorted: Order

    @staticmethod
    def open(folder: Path, before: View | None) -> View:
        """The folder as it is now; what `before` has mapped is not mapped again. Raises NotFound and Damaged."""
        for attempt in itertools.count():
            try:
                return View._open(folder, before)
            except FileNotFoundError:
                # A file of the listing was merged into a longer one meanwhile.
                if not folder.is_dir():
                    raise NotFound(f"no token column at {folder}") from None
                if attempt == 100:
                    raise StorageError(f"cannot read {folder}: its files keep vanishing") from None
        raise AssertionError

    @staticmethod
    def _open(folder: Path, before: View | None) -> View:
        # Listed first: what is indexed is then among the tokens, unless a power cut took those.
        index_files = slot_files.chain(folder, "index")
        order_files = slot_files.chain(folder, "order")[:1]
        known = {} if before is None else {segment.file: segment for segment in before.segments}
        indexed = {} if before is None else {index.file: index for index in before.indexes}
        token_files = slot_files.chain(folder, "tokens")
        segments = [known.get(file) or Segment.open(folder, file) for file in token_files]
        stop = token_files[-1].stop if token_files else 0
        index_files = [file for file in index_files if file.stop <= stop]
        indexes = [indexed.get(file) or Index.open(folder, file) for file in index_files]
        end = index_files[-1].stop if index_files else 0
        if end < stop:
            indexes.append(indexed.get(SlotFile("index", end, stop)) or Index.build(segments, end, stop))
        order_files = [file for file in order_files if file.stop <= stop]
        return View(tuple(segments), tuple(indexes), _stored_order(folder, order_files, before))

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self.segments[-1].file.stop if self.segments else 0

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first slot of each segment, int64 [segments]."""
        return np.array([segment.start for segment in self.segments], np.int64)

    @cached_property
    def stretches(self) -> tuple[tuple[int, NDArray[np.int64], NDArray[np.int32]], ...]:
        """Of each segment its first slot, where each slot's text begins, and all token ids."""
        return tuple((segment.start, segment.offsets[:-1], segment.values) for segment in self.segments)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each slot, int32 [slots]."""
        return concatenate([np.diff(s.offsets).astype(np.int32) for s in self.segments], np.dtype(np.int32))

    @cached_property
    def order(self) -> Order:
        """All slots in lexicographic order of their tokens; computed where no file holds it."""
        return extend(self, self.sorted, self.slots)

    def copy(
        self,
        slots: NDArray[np.int32],
        begins: NDArray[np.int64],
        lengths: NDArray[np.int64],
        out: NDArray[np.int32],
    ) -> None:
        """Copy a window of each of `slots`, `lengths` tokens from its `begins` on, to the beginning of `out`."""
        if len(slots) == 0:
            return
        assert slots.min() >= 0
        assert slots.max() < self.slots
        ends = np.cumsum(lengths, dtype=np.int64)
        places = np.searchsorted(self.starts, slots, "right") - 1
        first = int(places[0])
        if (places == first).all():
            segment = self.segments[first]
            sources = spans(segment.offsets[slots - segment.start] + begins, lengths)
            segment.values.take(sources, out=out[: ends[-1]])
            return
        for place in np.unique(places):
            segment, chosen = self.segments[place], places == place
            sources = spans(segment.offsets[slots[chosen] - segment.start] + begins[chosen], lengths[chosen])
            out[spans((ends - lengths)[chosen], lengths[chosen])] = segment.values[sources]

    def second_halves(self, slots: NDArray[np.int32]) -> NDArray[np.uint64]:
        """The last eight bytes of the keys of `slots`."""
        places = np.searchsorted(self.starts, slots, "right") - 1
        found = np.empty(len(slots), np.uint64)
        for place in np.unique(places):
            segment, chosen = self.segments[place], places == place
            found[chosen] = halves(segment.keys[slots[chosen] - segment.start])[:, 1]
        return found


def _stored_order(folder: Path, files: Sequence[SlotFile], before: View | None) -> Order:
    """What the order file holds, or what is known from before."""
    known = _NO_ORDER if before is None else before.sorted
    if before is not None and "order" in before.__dict__:
        known = before.order
    if not files or files[0].stop <= len(known.slots):
        return known
    batch = slot_files.read(files[0].path(folder))
    if batch.num_rows != files[0].stop:
        raise Damaged(f"{files[0].path(folder)} is damaged: it holds {batch.num_rows} texts")
    return Order(numbers(batch.column("slot")), numbers(batch.column("common")))


def concatenate(parts: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Arrays one after another; the array itself where there is one alone."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
