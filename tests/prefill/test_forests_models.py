"""Random forests of work orders through scheduler and model: every answer is that of a plain pass over its prompt."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from covey_engine.prefill.api import Labels, YesNo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.runner import Runner
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.expected import items, path, tokens_of
from support.forests import Forest, build_forest
from support.small_models import VOCABULARY, make_model, oracle_logits
from support.transformers_reference import reference_scores

LONGEST, CHUNK = 600, 1_024
TOLERANCE = 1e-4
"""The largest deviation of an answer, as a part of the spread of margins."""

Prompt = tuple[int, ...]
Fault = Callable[[Chunk], Chunk | None]


@dataclass
class Pair:
    """A runner, and transformers' model of the same weights; spread: the standard deviation of its margins."""

    runner: Runner
    model: Any
    spread: float

    def margin(self, prompt: Prompt, readout: YesNo) -> float:
        """By a plain pass over the whole prompt."""
        logits = oracle_logits(self.model, [prompt])[0].astype(np.float64)
        return float(
            np.logaddexp.reduce(logits[list(readout.yes)]) - np.logaddexp.reduce(logits[list(readout.no)])
        )


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param)
    model = make_model(folder, request.param, max_position_embeddings=8_192)
    config = EngineConfig(str(folder), device="cpu", arena_bytes=1 << 24, chunk_tokens=CHUNK)
    found = Pair(open_runner(config), model, 1.0)
    random = Random(1)
    prompts = [tuple(random.choices(range(VOCABULARY), k=random.randint(1, 40))) for _ in range(40)]
    found.spread = float(np.std([found.margin(prompt, YesNo((3,), (4,))) for prompt in prompts]))
    return found


def deviation(pair: Pair, forest: Forest, fault: Fault | None = None) -> float | None:
    """The largest deviation of an answer, as a part of the margins' spread; None where no chunk can have the fault."""
    limits = Limits(forest.arena, forest.chunk, 1 << 20)
    scheduler = Scheduler(limits, forest.columns.__getitem__, forest.rule)
    orders = {scheduler.submit(order): index for index, order in enumerate(forest.orders)}
    scheduler.finish_empty()
    truth = Truth(pair, forest)
    most, faulty = 0.0, fault is None
    while (chunk := scheduler.schedule()) is not None:
        if fault is not None and not faulty and (wrong := fault(chunk)) is not None:
            faulty, chunk = True, wrong
        pair.runner.set_answer_tokens(*scheduler.head)
        for report in scheduler.settle(pair.runner.launch(chunk).result(), 1.0):
            for answers in report.answers:
                assert answers.error is None
                for item, value in zip(answers.items.tolist(), answers.values, strict=True):
                    due = truth.of(orders[report.ticket], answers.ask, item)
                    most = max(most, float(np.abs(value - due).max()))
    assert not scheduler.running
    return most / pair.spread if faulty else None


class Truth:
    """What a plain pass says of each prompt of a forest."""

    def __init__(self, pair: Pair, forest: Forest) -> None:
        self._pair = pair
        self._forest = forest
        self._rows = [{item: rows for item, *rows in items(order)} for order in forest.orders]
        self._known: dict[tuple[Prompt, YesNo | Labels], Any] = {}

    def of(self, order: int, ask: int, item: int) -> Any:
        """The margin, or the scores, of an item of an order."""
        ours, rows = self._forest.orders[order], self._rows[order][item]
        readout = ours.asks[ask].readout
        keys = path(ours, ask, rows[0], rows[1])
        prompt = tuple(itertools.chain.from_iterable(tokens_of(key, self._forest.columns) for key in keys))
        if (prompt, readout) not in self._known:
            self._known[prompt, readout] = (
                self._pair.margin(prompt, readout)
                if isinstance(readout, YesNo)
                else reference_scores(self._pair.model, [prompt], readout.labels)[0]
            )
        return self._known[prompt, readout]


def fits(pair: Pair, forest: Forest) -> bool:
    """Whether the runner has room for it, and plain passes over its prompts do not take too long."""
    prompts = sum(order.items * len(order.asks) for order in forest.orders)
    return forest.arena <= pair.runner.arena_tokens and forest.chunk <= CHUNK and prompts <= 60


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32), st.integers(1, 5), st.booleans(), st.sampled_from((0, 0, 0, 60, LONGEST)))
def test_every_answer_is_that_of_a_plain_pass(
    pair: Pair, seed: int, size: int, alike: bool, longest: int
) -> None:
    forest = build_forest(seed, size, roomy=False, alike=alike, longest=longest)
    assume(fits(pair, forest))
    found = deviation(pair, forest)
    assert found is not None
    assert found < TOLERANCE


def late_context(chunk: Chunk) -> Chunk | None:
    """Keys are read from the next address on."""
    if not len(chunk.contexts):
        return None
    return replace(chunk, contexts=chunk.contexts + np.array([0, 0, 1, 0]))


def no_context(chunk: Chunk) -> Chunk | None:
    """Rows do not see what is before their segment."""
    return replace(chunk, contexts=chunk.contexts[:0]) if len(chunk.contexts) else None


def wrong_position(chunk: Chunk) -> Chunk | None:
    """Rows that are read are one position further from those before them."""
    rows = chunk.answers[chunk.positions[chunk.answers] > 2]
    if not len(rows):
        return None
    positions = chunk.positions.copy()
    positions[rows] += 1
    return replace(chunk, positions=positions)


@pytest.mark.parametrize("fault", [late_context, no_context, wrong_position])
def test_a_fault_shows_in_some_answer(pair: Pair, fault: Fault) -> None:
    tried = 0
    for seed in range(30):
        forest = build_forest(seed, 4, roomy=False)
        if not fits(pair, forest):
            continue
        found = deviation(pair, forest, fault)
        if found is not None:
            tried += 1
            assert found > 3 * TOLERANCE, seed
        if tried == 4:
            break
    assert tried == 4
