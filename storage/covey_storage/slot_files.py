"""Slot ranges in, the Arrow IPC files that hold them out: names, atomic writing, mapping; never looks inside.

A file's name says its kind and which slots it holds: `<kind>-<start>-<stop>.arrow`. It is written under
another name and renamed when complete, so every file with such a name is whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from covey_storage.errors import Damaged

_PATTERN = re.compile(r"([a-z]+)-(\d{10})-(\d{10})\.arrow", re.ASCII)
_PART = ".part"


@dataclass(frozen=True)
class SlotFile:
    """One file's name: its kind, and its slots from `start` up to `stop`."""

    kind: str
    start: int
    stop: int

    def path(self, folder: Path) -> Path:
        """Where it lies."""
        return folder / f"{self.kind}-{self.start:010d}-{self.stop:010d}.arrow"


def listing(folder: Path, kind: str) -> list[SlotFile]:
    """All files of a kind, in no order."""
    matches = (_PATTERN.fullmatch(entry) for entry in os.listdir(folder))
    return [SlotFile(kind, int(match[2]), int(match[3])) for match in matches if match and match[1] == kind]


def chain(folder: Path, kind: str) -> list[SlotFile]:
    """The files that hold slots 0, 1, 2…: from each slot on, the longest there is."""
    longest: dict[int, SlotFile] = {}
    for file in sorted(listing(folder, kind), key=lambda file: file.stop):
        longest[file.start] = file
    files: list[SlotFile] = []
    at = 0
    while at in longest:
        files.append(longest[at])
        at = files[-1].stop
    return files


def read(path: Path) -> pa.RecordBatch:
    """Map a file; its buffers keep the mapping alive, no file stays open.

    Raises FileNotFoundError, and Damaged where it is not whole.
    """
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).get_batch(0)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        cause = str(error).splitlines()[0]
        raise Damaged(f"{path} is damaged ({cause})") from None


def write(folder: Path, file: SlotFile, table: pa.Table, replaced: Iterable[Path], *, durable: bool) -> None:
    """Write a file, then remove those it replaces. durable: what is written survives a power cut."""
    path = file.path(folder)
    part = path.with_suffix(_PART)
    try:
        with part.open("wb") as out:
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table.combine_chunks())
            out.flush()
            if durable:
                os.fsync(out.fileno())
    except OSError:
        # Where the disk is full, half a file takes what others need.
        part.unlink(missing_ok=True)
        raise
    part.replace(path)
    if durable:
        _sync_names(folder)
    for old in replaced:
        old.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """Remove what a writer that was killed left unfinished."""
    for left in folder.glob(f"*{_PART}"):
        left.unlink(missing_ok=True)


def _sync_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
