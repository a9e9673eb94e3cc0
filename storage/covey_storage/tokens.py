"""Texts' token ids by slot: a folder of memory-mapped Arrow IPC files; knows neither texts' words nor tables.

A *slot* is a text's position in its column; it never changes. A column is a chain of files, each holding the
slots from `start` up to `stop`, which its name says:

    tokens-<start>-<stop>.arrow   key: fixed_size_binary[16]; tokens: large_list<int32>, in slot order
    index-<start>-<stop>.arrow    prefix: uint64, the first eight bytes of the keys, ascending; slot: int32
    order-<start>-<stop>.arrow    slot: int32, in lexicographic order of the tokens; common: int32, how many first
                                  tokens a text shares with the one before it; start is 0: one file for all

Small neighbours are merged as they are appended (old files go after the new one has its name), so a column
has few files however it grew, and a reader that meets both takes the longer one. An index is a shortcut:
slots without one are indexed in memory by whoever opens the column, or sorted by whoever asks for their order.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covey_storage import slot_files
from covey_storage.errors import Damaged, NotFound, StorageError
from covey_storage.numbers import numbers
from covey_storage.ordering import Order, extend, spans
from covey_storage.slot_files import SlotFile

KEY = np.dtype("V16")
"""A text's key: the MD5 of its UTF-8 bytes, DuckDB's `unhex(md5(text))`."""

_MERGED_BYTES = 64 << 20
_TOKENS = pa.schema([("key", pa.binary(16)), ("tokens", pa.large_list(pa.field("item", pa.int32(), False)))])
_INDEX = pa.schema([("prefix", pa.uint64()), ("slot", pa.int32())])
_ORDER = pa.schema([("slot", pa.int32()), ("common", pa.int32())])
_NO_ORDER = Order(np.empty(0, np.int32), np.empty(0, np.int32))
_UNSORTED = 1 / 64
"""The part of a column's texts that readers sort each for themselves, before it is worth writing their order anew."""


def text_keys(texts: Iterable[str]) -> NDArray[np.void]:
    """The keys of texts, V16 [n]."""
    digests = [hashlib.md5(text.encode("utf-8"), usedforsecurity=False).digest() for text in texts]
    return np.frombuffer(b"".join(digests), KEY)


class TokenColumn:
    """A token column for reading; safe to use from several threads.

    Opens what is complete at that moment; `refresh` sees what was appended since. Raises NotFound where there
    is no such folder, Damaged where a file in it is not whole.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._view = _View.open(self.folder, None)

    def __len__(self) -> int:
        """Number of slots."""
        return self._view.slots

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each slot, int32 [slots]."""
        return self._view.lengths

    @property
    def keys(self) -> NDArray[np.void]:
        """Keys in slot order, V16 [slots]."""
        return _concatenate([segment.keys for segment in self._view.segments], KEY)

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token ids of one slot: a view into the mapped file."""
        view = self._view
        assert 0 <= slot < view.slots
        segment = view.segments[int(np.searchsorted(view.starts, slot, "right")) - 1]
        begin, end = segment.offsets[slot - segment.start : slot - segment.start + 2]
        return segment.values[begin:end]

    @property
    def stretches(self) -> tuple[tuple[int, NDArray[np.int64], NDArray[np.int32]], ...]:
        """Where the texts are: of each file its first slot, where each slot's text begins, and all token ids."""
        return self._view.stretches

    def copy(
        self,
        slots: NDArray[np.int32],
        begins: NDArray[np.int64],
        lengths: NDArray[np.int64],
        out: NDArray[np.int32],
    ) -> None:
        """Copy a window of each of `slots`, `lengths` tokens from its `begins` on, to the beginning of `out`."""
        self._view.copy(slots, begins, lengths, out)

    @property
    def order(self) -> Order:
        """All slots in lexicographic order of their tokens; computed where no file holds it."""
        return self._view.order

    def find(self, keys: NDArray[np.void]) -> NDArray[np.int32]:
        """The slot of each key (V16 [n]), int32 [n]; -1 where the column does not hold it."""
        view = self._view
        found = np.full(len(keys), -1, np.int32)
        halves = _halves(keys)
        # In key order the index is read from front to back, which is several times faster.
        open_ = np.argsort(halves[:, 0])
        for index in view.indexes:
            slots = index.find(halves[open_], view)
            found[open_] = slots
            open_ = open_[slots < 0]
        return found

    def refresh(self) -> None:
        """See what was appended meanwhile; slots seen before stay as they are."""
        self._view = _View.open(self.folder, self._view)


class TokenColumnWriter:
    """Appends to a token column, whose folder it creates; one writer at a time. Raises StorageError where it cannot.

    durable: wait until each file is on the disk; for columns that end with the process this can be left out.
    """

    def __init__(self, folder: str | Path, *, durable: bool = True) -> None:
        self.folder = Path(folder)
        self._durable = durable
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            slot_files.remove_parts(self.folder)
            self._slots = len(TokenColumn(self.folder))
            for file in slot_files.listing(self.folder, "index") + slot_files.listing(self.folder, "order"):
                # An index may outlive its slots in a power cut; it must not meet the slots that come instead.
                if file.stop > self._slots:
                    file.path(self.folder).unlink()
        except OSError as error:
            raise StorageError(f"cannot use the folder {self.folder}: {error.strerror or error}") from None

    def append(self, keys: NDArray[np.void], offsets: NDArray[np.int64], ids: NDArray[np.int32]) -> None:
        """Add texts as the next slots: key V16 [n], offsets int64 [n + 1] into ids, int32.

        A reader sees all of them or none. Raises StorageError where the disk refuses.
        """
        assert len(offsets) == len(keys) + 1
        assert offsets[0] == 0
        assert offsets[-1] == len(ids)
        if len(keys) == 0:
            return
        try:
            self._append(keys, offsets, ids)
        except OSError as error:
            raise StorageError(f"cannot write to {self.folder}: {error.strerror or error}") from None

    def sort(self) -> None:
        """Write the order of all texts, unless few are new; best done once what belongs together is appended.

        Raises StorageError where the disk refuses.
        """
        replaced = slot_files.listing(self.folder, "order")
        known = max((file.stop for file in replaced), default=0)
        if self._slots - known <= _UNSORTED * known:
            return
        try:
            order = _View.open(self.folder, None).order
            batch = pa.record_batch([pa.array(order.slots), pa.array(order.common)], schema=_ORDER)
            older = [file.path(self.folder) for file in replaced]
            self._write(SlotFile("order", 0, self._slots), pa.Table.from_batches([batch]), older)
        except OSError as error:
            raise StorageError(f"cannot write to {self.folder}: {error.strerror or error}") from None

    def _append(self, keys: NDArray[np.void], offsets: NDArray[np.int64], ids: NDArray[np.int32]) -> None:
        start, stop = self._slots, self._slots + len(keys)
        batches = [_token_batch(keys, offsets, ids)]
        size, replaced = batches[0].nbytes, []
        for file in reversed(slot_files.chain(self.folder, "tokens")):
            path = file.path(self.folder)
            older = slot_files.read(path)
            if older.nbytes > size or older.nbytes + size > _MERGED_BYTES:
                break
            batches.insert(0, older)
            size += older.nbytes
            start = file.start
            replaced.append(path)
        self._write(SlotFile("tokens", start, stop), pa.Table.from_batches(batches), replaced)
        self._slots = stop
        self._write_index()

    def _write_index(self) -> None:
        """Index the slots that have no index yet, together with older indexes that are not larger."""
        view = _View.open(self.folder, None)
        *stored, last = view.indexes
        parts, replaced = [last], []
        while stored and len(stored[-1].prefixes) <= sum(len(part.prefixes) for part in parts):
            part = stored.pop()
            parts.append(part)
            replaced.append(part.file.path(self.folder))
        index = _Index.merge(parts)
        batch = pa.record_batch([pa.array(index.prefixes), pa.array(index.slots)], schema=_INDEX)
        self._write(index.file, pa.Table.from_batches([batch]), replaced)

    def _write(self, file: SlotFile, table: pa.Table, replaced: list[Path]) -> None:
        slot_files.write(self.folder, file, table, replaced, durable=self._durable)


@dataclass(frozen=True)
class _Segment:
    """The slots from `start` on that one file holds; all arrays are views into it."""

    file: SlotFile
    keys: NDArray[np.void]
    offsets: NDArray[np.int64]
    values: NDArray[np.int32]

    @property
    def start(self) -> int:
        return self.file.start

    @staticmethod
    def open(folder: Path, file: SlotFile) -> _Segment:
        batch = slot_files.read(file.path(folder))
        key, tokens = batch.column("key"), batch.column("tokens")
        if batch.num_rows != file.stop - file.start:
            raise Damaged(f"{file.path(folder)} is damaged: it holds {batch.num_rows} texts")
        return _Segment(
            file,
            np.frombuffer(key.buffers()[1], KEY, batch.num_rows),
            np.frombuffer(tokens.buffers()[1], np.int64, batch.num_rows + 1),
            numbers(tokens.values),
        )


@dataclass(frozen=True)
class _Index:
    """Where the keys of a range of slots are: the keys' first halves ascending, and each one's slot."""

    file: SlotFile
    prefixes: NDArray[np.uint64]
    slots: NDArray[np.int32]

    @staticmethod
    def open(folder: Path, file: SlotFile) -> _Index:
        batch = slot_files.read(file.path(folder))
        return _Index(file, numbers(batch.column("prefix")), numbers(batch.column("slot")))

    @staticmethod
    def merge(parts: Sequence[_Index]) -> _Index:
        start, stop = min(part.file.start for part in parts), max(part.file.stop for part in parts)
        # The lowest slot comes first among equal prefixes.
        parts = sorted(parts, key=lambda part: part.file.start)
        prefixes = np.concatenate([part.prefixes for part in parts])
        order = np.argsort(prefixes, kind="stable")
        slots = np.concatenate([part.slots for part in parts])
        return _Index(SlotFile("index", start, stop), prefixes[order], slots[order])

    @staticmethod
    def build(segments: Sequence[_Segment], start: int, stop: int) -> _Index:
        parts = [
            segment.keys[max(0, start - segment.start) :] for segment in segments if segment.file.stop > start
        ]
        prefixes = _halves(_concatenate(parts, KEY))[:, 0]
        order = np.argsort(prefixes, kind="stable")
        return _Index(SlotFile("index", start, stop), prefixes[order], (start + order).astype(np.int32))

    def find(self, wanted: NDArray[np.uint64], view: _View) -> NDArray[np.int32]:
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
class _View:
    """A column at one moment."""

    segments: tuple[_Segment, ...]
    indexes: tuple[_Index, ...]
    sorted: Order

    @staticmethod
    def open(folder: Path, before: _View | None) -> _View:
        for attempt in itertools.count():
            try:
                return _View._open(folder, before)
            except FileNotFoundError:
                # A file of the listing was merged into a longer one meanwhile.
                if not folder.is_dir():
                    raise NotFound(f"no token column at {folder}") from None
                if attempt == 100:
                    raise StorageError(f"cannot read {folder}: its files keep vanishing") from None
        raise AssertionError

    @staticmethod
    def _open(folder: Path, before: _View | None) -> _View:
        # Listed first: what is indexed is then among the tokens, unless a power cut took those.
        index_files = slot_files.chain(folder, "index")
        order_files = slot_files.chain(folder, "order")[:1]
        known = {} if before is None else {segment.file: segment for segment in before.segments}
        indexed = {} if before is None else {index.file: index for index in before.indexes}
        token_files = slot_files.chain(folder, "tokens")
        segments = [known.get(file) or _Segment.open(folder, file) for file in token_files]
        stop = token_files[-1].stop if token_files else 0
        index_files = [file for file in index_files if file.stop <= stop]
        indexes = [indexed.get(file) or _Index.open(folder, file) for file in index_files]
        end = index_files[-1].stop if index_files else 0
        if end < stop:
            indexes.append(indexed.get(SlotFile("index", end, stop)) or _Index.build(segments, end, stop))
        order_files = [file for file in order_files if file.stop <= stop]
        return _View(tuple(segments), tuple(indexes), _stored_order(folder, order_files, before))

    @property
    def slots(self) -> int:
        return self.segments[-1].file.stop if self.segments else 0

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        return np.array([segment.start for segment in self.segments], np.int64)

    @cached_property
    def stretches(self) -> tuple[tuple[int, NDArray[np.int64], NDArray[np.int32]], ...]:
        return tuple((segment.start, segment.offsets[:-1], segment.values) for segment in self.segments)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        return _concatenate([np.diff(s.offsets).astype(np.int32) for s in self.segments], np.dtype(np.int32))

    @cached_property
    def order(self) -> Order:
        return extend(self, self.sorted, self.slots)

    def copy(
        self,
        slots: NDArray[np.int32],
        begins: NDArray[np.int64],
        lengths: NDArray[np.int64],
        out: NDArray[np.int32],
    ) -> None:
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
        halves = np.empty(len(slots), np.uint64)
        for place in np.unique(places):
            segment, chosen = self.segments[place], places == place
            halves[chosen] = _halves(segment.keys[slots[chosen] - segment.start])[:, 1]
        return halves


def _token_batch(
    keys: NDArray[np.void], offsets: NDArray[np.int64], ids: NDArray[np.int32]
) -> pa.RecordBatch:
    packed = pa.py_buffer(np.ascontiguousarray(keys))
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), pa.array(ids, pa.int32()), type=_TOKENS.field("tokens").type
    )
    return pa.record_batch(
        [pa.Array.from_buffers(pa.binary(16), len(keys), [None, packed]), lists], schema=_TOKENS
    )


def _halves(keys: NDArray[np.void]) -> NDArray[np.uint64]:
    """Keys as pairs of numbers that sort as the keys' bytes do, uint64 [n, 2]."""
    assert keys.dtype == KEY
    return np.ascontiguousarray(keys).view(">u8").reshape(-1, 2).astype(np.uint64)


def _stored_order(folder: Path, files: Sequence[SlotFile], before: _View | None) -> Order:
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


def _concatenate(parts: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
