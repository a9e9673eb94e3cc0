"""A Hopper runner of a small model, whose logits are of the whole vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.hopper.runner import HopperRunner, open_runner
from support import hopper_kernels as kernels
from support.hopper_kernels import GPU
from support.small_models import VOCABULARY

needs_gpu = pytest.mark.skipif(not GPU, reason="needs a Hopper GPU")


def open_small(folder: Path, **settings: Any) -> HopperRunner:
    config = EngineConfig(str(folder), arena_bytes=1 << 24, chunk_tokens=1024, **settings)
    runner = open_runner(config, kernels.backend())
    runner.records = False
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    return runner
