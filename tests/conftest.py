"""What all tests share: the masked emails, a law for all schedulers, and Triton's interpreter where there is no GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

# Triton reads this when it is first imported, and transformers may be the first to do so.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session", autouse=True)
def law_of_conservation() -> None:
    """Whatever a test's scheduler does, free + resident + reserved = total after it."""
    from support.lawful import obey

    obey()


@pytest.fixture(scope="session")
def emails() -> Path:
    """The 400 masked, labelled emails (id, subject, body, label)."""
    path = SHARED / "data" / "emails_small.parquet"
    if not path.is_file():
        pytest.skip(f"the masked emails are not here: {path}")
    return path
