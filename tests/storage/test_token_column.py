"""The token file format: what was appended is found and read, whatever the files look like."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import numpy as np
import pytest
from covey_storage import tokens as module
from covey_storage.errors import NotFound, StorageError
from covey_storage.keys import KEY, text_keys
from covey_storage.tokens import TokenColumn, TokenColumnWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

Rows = dict[bytes, list[int]]


def append(writer: TokenColumnWriter, rows: Rows) -> None:
    keys = np.frombuffer(b"".join(rows), KEY)
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in rows.values()])]).astype(np.int64)
    writer.append(keys, offsets, np.array([i for ids in rows.values() for i in ids], np.int32))


def rows(count: int, seed: int, longest: int = 9) -> Rows:
    random = np.random.default_rng(seed)
    return {
        random.bytes(16): random.integers(0, 50_000, random.integers(longest)).tolist() for _ in range(count)
    }


def text(column: TokenColumn, slot: int) -> list[int]:
    """The token ids of a slot, by the column's stretches."""
    (found,) = [
        values[begins[slot - first] :][: column.lengths[slot]]
        for first, begins, values in column.stretches
        if first <= slot < first + len(begins)
    ]
    return found.tolist()


def check(column: TokenColumn, expected: Rows) -> None:
    keys = np.frombuffer(b"".join(expected), KEY)
    slots = column.find(keys)
    assert len(column) == len(expected)
    assert sorted(slots) == list(range(len(expected)))
    assert column.keys[slots].tobytes() == keys.tobytes()
    assert [column.tokens(int(slot)).tolist() for slot in slots] == list(expected.values())
    assert column.lengths[slots].tolist() == [len(ids) for ids in expected.values()]
    assert [text(column, slot) for slot in slots.tolist()] == list(expected.values())


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.glob(f"{kind}-*.arrow"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 40), max_size=12), st.booleans(), st.integers(0, 1000))
def test_what_was_appended_is_found(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], reopen: bool, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("column") / "c"
    writer = TokenColumnWriter(folder, durable=False)
    column, expected = TokenColumn(folder), dict[bytes, list[int]]()
    for step, size in enumerate(sizes):
        if reopen:
            writer = TokenColumnWriter(folder, durable=False)
        more = rows(size, seed + 1000 * step)
        append(writer, more)
        expected |= more
        column.refresh()
        check(column, expected)
    check(TokenColumn(folder), expected)


def test_absent_keys_have_no_slot(tmp_path: Path) -> None:
    writer = TokenColumnWriter(tmp_path)
    append(writer, rows(100, 1))
    absent = np.frombuffer(b"".join(rows(100, 2)), KEY)
    assert (TokenColumn(tmp_path).find(absent) == -1).all()
    assert (TokenColumn(tmp_path).find(absent[:0]).tolist()) == []


def test_an_empty_column_and_empty_texts(tmp_path: Path) -> None:
    writer = TokenColumnWriter(tmp_path)
    column = TokenColumn(tmp_path)
    assert len(column) == 0
    assert column.lengths.dtype == np.int32
    assert column.keys.dtype == KEY
    assert column.find(text_keys(["a"])).tolist() == [-1]
    assert column.stretches == ()
    append(writer, {b"%016d" % number: [] for number in range(3)})
    column.refresh()
    assert column.lengths.tolist() == [0, 0, 0]
    assert [text(column, slot) for slot in range(3)] == [[], [], []]


def test_a_column_of_two_files_has_two_stretches(tmp_path: Path) -> None:
    expected = rows(500, 3)
    writer = TokenColumnWriter(tmp_path)
    first = dict(list(expected.items())[:400])
    append(writer, first)
    append(writer, {key: ids for key, ids in expected.items() if key not in first})
    assert len(files(tmp_path, "tokens")) == 2
    column, lists = TokenColumn(tmp_path), list(expected.values())
    assert [(first, len(begins)) for first, begins, _ in column.stretches] == [(0, 400), (400, 100)]
    assert [text(column, slot) for slot in range(500)] == lists


def test_keys_that_share_their_first_half(tmp_path: Path) -> None:
    writer = TokenColumnWriter(tmp_path)
    keys = [b"same-----" + b"%07d" % number for number in range(20)]
    append(writer, {key: [number] for number, key in enumerate(keys[:15])})
    column = TokenColumn(tmp_path)
    assert column.find(np.frombuffer(b"".join(keys), KEY)).tolist() == [*range(15), -1, -1, -1, -1, -1]


def test_keys_that_end_in_zero_bytes(tmp_path: Path) -> None:
    writer = TokenColumnWriter(tmp_path)
    append(writer, {b"\0" * 16: [1], b"\0" * 15 + b"\1": [2], b"\1" + b"\0" * 15: [3]})
    column = TokenColumn(tmp_path)
    keys = np.frombuffer(b"\0" * 15 + b"\1" + b"\0" * 16 + b"\1" + b"\0" * 15 + b"\2" + b"\0" * 15, KEY)
    assert column.find(keys).tolist() == [1, 0, 2, -1]


def test_many_small_appends_leave_few_files(tmp_path: Path) -> None:
    writer, expected = TokenColumnWriter(tmp_path, durable=False), dict[bytes, list[int]]()
    for step in range(200):
        more = rows(1, step + 1, 5)
        append(writer, more)
        expected |= more
    assert len(files(tmp_path, "tokens")) <= 20
    assert len(files(tmp_path, "index")) <= 10
    check(TokenColumn(tmp_path), expected)


def test_large_files_are_not_copied_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MERGED_BYTES", 4000)
    writer = TokenColumnWriter(tmp_path)
    for step in range(4):
        append(writer, rows(100, step + 1, 20))
    assert len(files(tmp_path, "tokens")) == 4
    assert len(files(tmp_path, "index")) == 1


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_a_crash_at_any_rename_leaves_the_column_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """The process ends before its n-th rename, or after the rename and before old files are removed."""
    before, after = rows(3, 1), rows(3, 2)
    writer = TokenColumnWriter(tmp_path)
    append(writer, before)
    done = []
    replace = Path.replace

    def crash(path: Path, target: Path) -> Path:
        if len(done) == renames // 2:
            if renames % 2:
                replace(path, target)
            raise KeyboardInterrupt
        done.append(target)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            append(writer, after)
    expected = before | after if renames else before
    check(TokenColumn(tmp_path), expected)
    more = rows(9, 3)
    append(TokenColumnWriter(tmp_path), more)
    assert not list(tmp_path.glob("*.part"))
    check(TokenColumn(tmp_path), expected | more)


def test_a_reader_keeps_up_with_a_writer_that_merges(tmp_path: Path) -> None:
    writer, expected, failures = TokenColumnWriter(tmp_path, durable=False), rows(300, 9), list[str]()
    keys = np.frombuffer(b"".join(expected), KEY)
    writing = threading.Event()

    def read() -> None:
        column, known = TokenColumn(tmp_path), 0
        while known < len(expected) and writing.is_set():
            column.refresh()
            slots = column.find(keys[: len(column)])
            if len(column) < known or slots.tolist() != list(range(len(slots))):
                failures.append(f"{len(column)} after {known}: {slots}")
            known = len(column)

    writing.set()
    reader = threading.Thread(target=read)
    reader.start()
    for key, ids in expected.items():
        append(writer, {key: ids})
    reader.join(20)
    writing.clear()
    assert not reader.is_alive()
    assert failures == []
    check(TokenColumn(tmp_path), expected)


def test_a_view_survives_the_removal_of_its_files(tmp_path: Path) -> None:
    writer, expected = TokenColumnWriter(tmp_path), rows(50, 4)
    append(writer, expected)
    column = TokenColumn(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    check(column, expected)


def test_a_missing_folder_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"^no token column at {tmp_path / 'absent'}$"):
        TokenColumn(tmp_path / "absent")
    append(TokenColumnWriter(tmp_path), rows(50, 4))
    (path,) = files(tmp_path, "tokens")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(StorageError, match=str(path)) as caught:
        TokenColumn(tmp_path)
    assert "\n" not in str(caught.value)


def test_text_keys_are_the_md5_of_utf8() -> None:
    texts = ["", "Spam", "spam", "naïve ☕", "a\0b"]
    keys: NDArray[np.void] = text_keys(texts)
    assert keys.tobytes() == b"".join(hashlib.md5(text.encode()).digest() for text in texts)


def test_an_index_that_outlived_its_slots_does_no_harm(tmp_path: Path) -> None:
    """A power cut may keep the index of slots whose tokens it took."""
    kept, lost, more = rows(200, 1), rows(100, 2), rows(100, 3)
    writer = TokenColumnWriter(tmp_path)
    append(writer, kept)
    (index,) = files(tmp_path, "index")
    append(writer, lost)
    assert len(files(tmp_path, "index")) == 2
    files(tmp_path, "tokens")[1].unlink()
    check(TokenColumn(tmp_path), kept)
    assert (TokenColumn(tmp_path).find(np.frombuffer(b"".join(lost), KEY)) == -1).all()
    append(TokenColumnWriter(tmp_path), more)
    check(TokenColumn(tmp_path), kept | more)
    assert index.exists()
