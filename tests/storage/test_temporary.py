"""Temporary folders: gone with their owner, however that ends; never taken from one that lives."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from covey_storage import temporary
from covey_storage.catalog import Database
from covey_storage.errors import StorageError
from covey_storage.temporary import TemporaryFolder, sweep

OWNER = """
import sys, time
from covey_storage.temporary import TemporaryFolder
print(TemporaryFolder("tokens").path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process and its children keep temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """A process that has made a folder, whose path it has said, and is killed in the end."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def path_of(owner: subprocess.Popen[str]) -> Path:
    assert owner.stdout is not None
    path = Path(owner.stdout.readline().strip())
    (path / "within").mkdir()
    (path / "within" / "file").write_text("kept")
    return path


def test_a_folder_is_named_after_its_process_and_goes_when_it_is_closed(place: Path) -> None:
    folder = TemporaryFolder("spill")
    assert folder.path.parent == place
    assert folder.path.name.startswith(f"covey-spill-{os.getpid()}-")
    (folder.path / "file").touch()
    folder.close()
    folder.close()
    assert list(place.iterdir()) == []


def test_a_killed_owner_leaves_its_folder_to_the_next(owner: subprocess.Popen[str]) -> None:
    path = path_of(owner)
    TemporaryFolder("spill").close()
    assert (path / "within" / "file").read_text() == "kept"
    owner.send_signal(signal.SIGSTOP)
    sweep()
    assert path.is_dir(), "an owner that does nothing is an owner"
    owner.kill()
    owner.wait()
    assert path.is_dir()
    made = TemporaryFolder("spill")
    assert not path.exists()
    assert made.path.is_dir()
    made.close()


def test_what_others_made_stays(place: Path) -> None:
    others = [place / name for name in ("covey-spill-abcdefgh", "covey-demo-12-abc", "covey-spill-12-a b")]
    for other in others:
        other.mkdir()
    linked = place / "elsewhere"
    linked.mkdir()
    (place / "covey-spill-12-linked").symlink_to(linked)
    (place / "covey-spill-12-file").touch()
    there = set(place.iterdir())
    sweep()
    assert set(place.iterdir()) == there


def test_a_folder_of_another_user_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "covey-tokens-12-abcdefgh").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    sweep()
    assert [path.name for path in place.iterdir()] == ["covey-tokens-12-abcdefgh"]
    monkeypatch.undo()


def test_a_folder_that_vanishes_before_it_is_locked_is_made_again(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    made: list[Path] = []
    make = tempfile.mkdtemp

    def taken(prefix: str) -> str:
        made.append(Path(make(prefix=prefix)))
        if len(made) == 1:
            made[0].rmdir()
        return str(made[-1])

    monkeypatch.setattr(temporary.tempfile, "mkdtemp", taken)
    folder = TemporaryFolder("spill")
    assert folder.path == made[1]
    folder.close()


def _many(count: int) -> int:
    """How many of so many folders that this process makes one after another are there while they are held."""
    there = 0
    for _ in range(count):
        folder = TemporaryFolder("tokens")
        there += folder.path.is_dir()
        folder.close()
    return there


def test_many_processes_make_folders_at_once_and_each_keeps_its_own(place: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.map(_many, [50] * 4, chunksize=1) == [50] * 4
    assert list(place.iterdir()) == []


def test_a_place_that_takes_no_folder_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "gone"))
    with pytest.raises(StorageError, match=f"cannot make a temporary folder: {place}/gone: No such file"):
        Database.open()
