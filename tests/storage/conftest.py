"""What the storage tests share: tokenizers, an empty database, and a folder of a difficult name for data files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from covey_storage.catalog import Database
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import Tokenizer, load_tokenizer
from support.counted_tokens import Counting
from support.storage_specs import byte_spec


@pytest.fixture(scope="session")
def smollm() -> Tokenizer:
    """The embedded model's tokenizer, from its GGUF file."""
    return load_tokenizer(resolve_model())


@pytest.fixture(scope="session")
def bytewise() -> Tokenizer:
    """A tokenizer that needs no model."""
    return Tokenizer(byte_spec(), None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "it's [data]*"
    folder.mkdir()
    return folder


@pytest.fixture
def database() -> Iterator[Database]:
    opened = Database.open()
    yield opened
    opened.close()


@pytest.fixture
def counting() -> Counting:
    return Counting(byte_spec(), None)
