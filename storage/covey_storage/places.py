"""Folders that will be written to in, an error at once out where they cannot be; writes nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from covey_storage.errors import StorageError


def check_writable(folder: Path, what: str) -> None:
    """Raise StorageError where nothing can be written into a folder, or it cannot be made. what: what it is for."""
    nearest = folder.absolute()
    while not os.path.lexists(nearest):
        nearest = nearest.parent
    if not os.path.isdir(nearest):
        raise StorageError(f"cannot write {what} into {folder}: {nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise StorageError(
            f"cannot write {what} into {folder}: {nearest} is read-only, or belongs to another user"
        )


def check_temporary() -> None:
    """Raise StorageError where temporary files have no place, or not the one that TMPDIR names."""
    named = os.environ.get("TMPDIR")
    if named:
        # By itself Python takes another place then, and fills a disk that nobody has thought of.
        check_writable(Path(named), "temporary files (the variable TMPDIR)")
    try:
        tempfile.gettempdir()
    except OSError:
        raise StorageError(
            "no folder for temporary files can be written to: name one by the variable TMPDIR"
        ) from None
