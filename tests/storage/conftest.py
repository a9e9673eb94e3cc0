"""What the storage tests share: the embedded model's tokenizer, and a tiny one whose tokens are bytes."""

from __future__ import annotations

import pytest
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import Tokenizer, load_tokenizer
from support.storage_specs import byte_spec


@pytest.fixture(scope="session")
def smollm() -> Tokenizer:
    """The embedded model's tokenizer, from its GGUF file."""
    return load_tokenizer(resolve_model())


@pytest.fixture(scope="session")
def bytewise() -> Tokenizer:
    """A tokenizer that needs no model."""
    return Tokenizer(byte_spec(), None)
