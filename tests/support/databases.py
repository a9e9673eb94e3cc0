"""What tests of the database share: rows of a statement, and the line that opening fails with."""

from __future__ import annotations

from pathlib import Path

import pytest
from covey_storage.catalog import Database
from covey_storage.errors import StorageError


def rows(database: Database, sql: str) -> list[tuple[object, ...]]:
    return database.cursor().execute(sql).fetchall()


def refused(path: Path | None, *data: Path) -> str:
    """The one line that opening fails with."""
    with pytest.raises(StorageError) as caught:
        Database.open(path, data)
    assert "\n" not in str(caught.value)
    return str(caught.value)
