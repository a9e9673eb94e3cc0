"""A kind of folder in, a folder that lives as long as its process out; knows nothing of what is kept in it.

A process that is killed removes nothing. So a folder is locked by its owner, and whoever makes the next one removes
those that nobody holds any more. The lock ends with the process, however that ends; a number in the folder's name
only tells people whose it is.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

from covey_storage.errors import StorageError
from covey_storage.places import check_temporary

Kind = Literal["spill", "tokens"]

_NAME = re.compile(r"covey-(spill|tokens)-\d+-\w+", re.ASCII)
_ATTEMPTS = 100


class TemporaryFolder:
    """A new folder of this process among the system's temporary files; `close` removes it.

    Making one removes those of processes that have ended. Raises StorageError where none can be made.
    """

    def __init__(self, kind: Kind) -> None:
        check_temporary()
        try:
            sweep()
            self.path, self._lock = _made(kind)
        except OSError as error:
            place = tempfile.gettempdir() if error.filename is None else error.filename
            raise StorageError(
                f"cannot make a temporary folder: {place}: {error.strerror or error}"
            ) from None

    def close(self) -> None:
        """Remove the folder and what is in it; harmless if done before."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def sweep() -> None:
    """Remove this user's temporary folders whose owners have ended, with or without notice."""
    for entry in os.scandir(tempfile.gettempdir()):
        if _NAME.fullmatch(entry.name) is None:
            continue
        with suppress(OSError):
            # One that is being removed by its owner, or is another user's, is not ours to remove.
            _remove_abandoned(Path(entry.path))


def _made(kind: Kind) -> tuple[Path, int]:
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=f"covey-{kind}-{os.getpid()}-"))
        lock = _locked(path)
        if lock is not None:
            return path, lock
        # Another process took it for abandoned before it was locked, and removes it.
    raise OSError(f"{_ATTEMPTS} folders vanished as soon as they were made")


def _remove_abandoned(path: Path) -> None:
    if path.lstat().st_uid != os.getuid():
        return
    lock = _locked(path)
    if lock is not None:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _locked(path: Path) -> int | None:
    """The handle that holds a folder's lock; None where another process holds it, or the folder is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held the lock may have removed the folder since it was opened here.
        there = os.path.samestat(os.stat(path), os.fstat(handle))
    except (BlockingIOError, FileNotFoundError):
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    if not there:
        os.close(handle)
        return None
    return handle
