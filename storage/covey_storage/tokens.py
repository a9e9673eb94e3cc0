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

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covey_storage import slot_files
from covey_storage.errors import StorageError
from covey_storage.keys import KEY, halves
from covey_storage.ordering import Order
from covey_storage.slot_files import SlotFile
from covey_storage.token_view import Index, View, concatenate

_MERGED_BYTES = 64 << 20
_TOKENS = pa.schema([("key", pa.binary(16)), ("tokens", pa.large_list(pa.field("item", pa.int32(), False)))])
_INDEX = pa.schema([("prefix", pa.uint64()), ("slot", pa.int32())])
_ORDER = pa.schema([("slot", pa.int32()), ("common", pa.int32())])
_UNSORTED = 1 / 64
"""The part of a column's texts that readers sort each for themselves, before it is worth writing their order anew."""


class TokenColumn:
    """A token column for reading; safe to use from several threads.

    Opens what is complete at that moment; `refresh` sees what was appended since. Raises NotFound where there
    is no such folder, Damaged where a file in it is not whole.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._view = View.open(self.folder, None)

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
        return concatenate([segment.keys for segment in self._view.segments], KEY)

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
        wanted = halves(keys)
        # In key order the index is read from front to back, which is several times faster.
        open_ = np.argsort(wanted[:, 0])
        for index in view.indexes:
            slots = index.find(wanted[open_], view)
            found[open_] = slots
            open_ = open_[slots < 0]
        return found

    def refresh(self) -> None:
        """See what was appended meanwhile; slots seen before stay as they are."""
        self._view = View.open(self.folder, self._view)


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
            order = View.open(self.folder, None).order
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
        view = View.open(self.folder, None)
        *stored, last = view.indexes
        parts, replaced = [last], []
        while stored and len(stored[-1].prefixes) <= sum(len(part.prefixes) for part in parts):
            part = stored.pop()
            parts.append(part)
            replaced.append(part.file.path(self.folder))
        index = Index.merge(parts)
        batch = pa.record_batch([pa.array(index.prefixes), pa.array(index.slots)], schema=_INDEX)
        self._write(index.file, pa.Table.from_batches([batch]), replaced)

    def _write(self, file: SlotFile, table: pa.Table, replaced: list[Path]) -> None:
        slot_files.write(self.folder, file, table, replaced, durable=self._durable)


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
