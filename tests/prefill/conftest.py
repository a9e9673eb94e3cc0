"""What the tests of runners share: a small Llama, and transformers' model of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    # The other tests of this folder do without transformers.
    from support.small_models import make_model

    folder = tmp_path_factory.mktemp("llama")
    return folder, make_model(folder, "llama")
