"""Scores of labels by the reference runner against transformers' own forward pass, on small random models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, Ask, Labels, Literal, WorkOrder
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.local import LocalEngine
from support.memory_column import MemoryColumn
from support.small_models import VOCABULARY, make_model, random_tokens
from support.transformers_reference import reference_scores


@pytest.mark.parametrize("chunk", [40, 400])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_scores_equal_a_full_forward(tmp_path: Path, architecture: str, chunk: int) -> None:
    model = make_model(tmp_path, architecture, initializer_range=0.1)
    config = EngineConfig(str(tmp_path), device="cpu", arena_bytes=1 << 21, chunk_tokens=chunk)
    rng = np.random.default_rng(5)
    texts = [tuple(random_tokens(rng, int(rng.integers(1, 60))).tolist()) for _ in range(6)]
    heads = [tuple(random_tokens(rng, 2).tolist()) for _ in range(4)]
    labels = [
        (*heads[n % 4][: n % 3], *random_tokens(rng, int(rng.integers(1, 5))).tolist()) for n in range(30)
    ]
    sets = Labels(tuple(labels)), Labels(tuple((token,) for token in range(VOCABULARY)))
    asks = tuple(Ask((Literal((7, n)),), readout) for n, readout in enumerate(sets))
    engine = LocalEngine(open_runner(config), {"texts": MemoryColumn(texts)}.__getitem__)
    argument = Argument("texts", np.arange(len(texts), dtype=np.int32))
    running = engine.submit(WorkOrder("q", (Literal((3, 4)), Anchor()), asks, (argument,)))
    found = [np.full((len(texts), len(readout.labels)), np.nan) for readout in sets]
    for answers in running.answers():
        found[answers.ask][answers.items] = answers.scores
    engine.close()
    for ask, readout in enumerate(sets):
        expected = reference_scores(model, [(3, 4, *text, 7, ask) for text in texts], readout.labels)
        np.testing.assert_allclose(found[ask], expected, atol=2e-4, rtol=0)
        assert expected.std() > 0.5
    np.testing.assert_allclose(np.logaddexp.reduce(found[1], axis=1), 0, atol=1e-5)
