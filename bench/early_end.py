"""How many prompts are asked where EXISTS or LIMIT ends an order early, without a model.

    python bench/early_end.py

A runner that computes nothing stands in for the device; a given share of all answers is true, at random. Two chunks are
under way at any time, as in the engine. Anchors have 150 to 250 tokens, partners 4 to 12, documents 250 to 350.
"""

from __future__ import annotations

import time
from collections import deque

import numpy as np
from covey_engine.prefill.api import MATCH, Anchor, Ask, Figures, Literal, Partner, WorkOrder
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from scheduler import ARENA, CHUNK, HEAD, READOUT, RNG, Texts, everyone, question

COLUMNS = {
    "anchors": Texts(RNG.integers(150, 250, 2_000, dtype=np.int32)),
    "partners": Texts(RNG.integers(4, 12, 600, dtype=np.int32)),
    "documents": Texts(RNG.integers(250, 350, 100_000, dtype=np.int32)),
}


def exists() -> WorkOrder:
    ask = Ask((question(1), Partner(), Literal((9,))), READOUT, on_true=MATCH)
    anchors, partners = everyone("anchors", 2_000), everyone("partners", 600)
    return WorkOrder("q", (HEAD, Anchor()), (ask,), anchors, partners, exists=True)


def limit(wanted: int) -> WorkOrder:
    ask = Ask((question(1),), READOUT, on_true=MATCH)
    return WorkOrder("q", (HEAD, Anchor()), (ask,), everyone("documents", 100_000), enough=wanted)


def measure(name: str, order: WorkOrder, share: float) -> None:
    scheduler = Scheduler(Limits(ARENA, CHUNK, 32_768), COLUMNS.__getitem__)
    scheduler.submit(order)
    flying: deque[Chunk] = deque()
    chunks, seconds, figures = 0, 0.0, Figures()
    while scheduler.running:
        begin = time.process_time()
        chunk = scheduler.schedule() if len(flying) < 2 else None
        seconds += time.process_time() - begin
        if chunk is not None:
            flying.append(chunk)
            chunks += 1
            continue
        logits = np.zeros((len(flying.popleft().answers), 2), np.float32)
        logits[:, 0] = np.where(RNG.random(len(logits)) < share, 1, -1)
        begin = time.process_time()
        reports = scheduler.settle(logits, 0.1)
        seconds += time.process_time() - begin
        figures = reports[-1].figures
    print(
        f"{name:11} {share:6.1%} true: {figures.prompts:9,} of {order.items:9,} prompts in {chunks:4} chunks of "
        f"{figures.fresh_tokens / chunks:6,.0f} tokens, {seconds / chunks * 1e3:5.2f} ms a chunk"
    )


def main() -> None:
    for share in (0.5, 0.05, 0.005, 0.0):
        measure("EXISTS", exists(), share)
    for share in (0.5, 0.05, 0.005):
        for wanted in (1, 10, 100, 1_000):
            measure(f"LIMIT {wanted:,}", limit(wanted), share)


if __name__ == "__main__":
    main()
