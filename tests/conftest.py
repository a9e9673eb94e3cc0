"""What all tests share: where the masked emails are, and skipping by one clear line where something is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def emails() -> Path:
    """The 400 masked, labelled emails (id, subject, body, label)."""
    path = SHARED / "data" / "emails_small.parquet"
    if not path.is_file():
        pytest.skip(f"the masked emails are not here: {path}")
    return path
