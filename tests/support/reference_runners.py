"""A reference runner of a small model, whose logits are of the whole vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.runner import Runner
from support.small_models import VOCABULARY


def open_small(folder: Path, **settings: Any) -> Runner:
    runner = open_runner(EngineConfig(str(folder), device="cpu", arena_bytes=1 << 21, **settings))
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    return runner
