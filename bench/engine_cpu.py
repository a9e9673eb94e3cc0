"""A synthetic join goes in; Covey's engine and transformers' answers and times on the same weights come out.

    python bench/engine_cpu.py
    python bench/engine_cpu.py --anchors 4 --repeats 3

Every anchor meets every partner, and one margin is read for each pair. Covey runs it as one work order in a
worker process. transformers runs it twice: every pair's full prompt, in batches of equal lengths at the
batch size that was fastest in a first trial; and with each anchor's keys and values computed once and given
as `past_key_values` to batches of its partners. In all three the head is applied to the last position only.
Margins are compared as well.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from covey_engine.prefill.api import Anchor, Argument, Ask, Partner, WorkOrder, YesNo
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.process.client import EngineClient
from covey_engine.prefill.readout import MarginReader, answer_tokens
from covey_storage.model_files import fetch_embedded
from covey_storage.tokens import TokenColumnWriter
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.utils import logging

READOUT = YesNo((10576, 7197), (2459, 1781))
VOCABULARY = 49152
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Join:
    """Token ids: anchors [A, anchor tokens], partners [P, partner tokens]."""

    anchors: Ids
    partners: Ids

    @property
    def pairs(self) -> int:
        """How many prompts there are."""
        return len(self.anchors) * len(self.partners)

    def prompts(self) -> Ids:
        """All full prompts, [A * P, anchor tokens + partner tokens]."""
        anchors = np.repeat(self.anchors, len(self.partners), axis=0)
        return np.concatenate([anchors, np.tile(self.partners, (len(self.anchors), 1))], axis=1)


@dataclass(frozen=True)
class Run:
    """Margins [A * P], the least seconds of the repeats, and the tokens computed."""

    name: str
    margins: Floats
    seconds: float
    tokens: int


def covey(join: Join, file: Path, threads: int, repeats: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        sides = [argument(Path(folder) / name, rows) for name, rows in vars(join).items()]
        ask = Ask((Partner(),), READOUT)
        order = WorkOrder("bench", (Anchor(),), (ask,), anchors=(sides[0],), partners=(sides[1],))
        engine = EngineClient.start(EngineConfig(str(file), device="cpu", threads=threads))
        try:
            margins, fresh = np.empty(join.pairs, np.float32), 0

            def once() -> None:
                nonlocal fresh
                running = engine.submit(order)
                for answers in running.answers():
                    margins[answers.items] = answers.margins
                fresh = running.figures().fresh_tokens

            return Run("Covey", margins, least_seconds(once, repeats), fresh)
        finally:
            engine.close()


def argument(folder: Path, rows: Ids) -> Argument:
    """A token column of equally long rows, all of them in order."""
    keys = np.array([hashlib.md5(row.tobytes()).digest() for row in rows], "V16")
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    TokenColumnWriter(folder).append(keys, offsets, rows.reshape(-1))
    return Argument(str(folder), np.arange(len(rows), dtype=np.int32))


def full_prompts(model: Any, join: Join, batch: int, repeats: int) -> Run:
    prompts = join.prompts()
    margins = np.empty(len(prompts), np.float32)

    def once() -> None:
        for start in range(0, len(prompts), batch):
            rows = slice(start, start + batch)
            logits = model(tensor(prompts[rows]), use_cache=False, logits_to_keep=1).logits
            margins[rows] = read(logits)

    return Run(f"full prompts, batches of {batch}", margins, least_seconds(once, repeats), prompts.size)


def past_key_values(model: Any, join: Join, batch: int, repeats: int) -> Run:
    margins = np.empty((len(join.anchors), len(join.partners)), np.float32)

    def once() -> None:
        for index, anchor in enumerate(join.anchors):
            past = model(tensor(anchor[None]), use_cache=True, logits_to_keep=1).past_key_values
            for start in range(0, len(join.partners), batch):
                rows = slice(start, start + batch)
                suffixes = tensor(join.partners[rows])
                cache = expanded(past, len(suffixes))
                logits = model(suffixes, cache=cache, logits_to_keep=1).logits
                margins[index, rows] = read(logits)

    name, tokens = (
        f"past_key_values, batches of {batch}",
        join.anchors.size + join.pairs * join.partners.shape[1],
    )
    return Run(name, margins.reshape(-1), least_seconds(once, repeats), tokens)


def expanded(past: Any, rows: int) -> DynamicCache:
    """One prompt's keys and values as those of `rows` prompts, without a copy."""
    cache = DynamicCache()
    for index, layer in enumerate(past.layers):
        cache.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), index)
    return cache


def tensor(ids: Ids) -> torch.Tensor:
    return torch.from_numpy(ids.astype(np.int64))


def read(logits: torch.Tensor) -> Floats:
    tokens = answer_tokens([READOUT])
    chosen = logits[:, -1, list(tokens)].numpy()
    return MarginReader(tokens).margins(chosen, (READOUT,), np.zeros(len(chosen), np.int64))


def least_seconds(once: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        once()
        times.append(time.perf_counter() - begin)
    return min(times)


def fastest(
    run: Callable[[Any, Join, int, int], Run], model: Any, trial: Join, batches: tuple[int, ...]
) -> int:
    """The batch size with the least seconds on a trial."""
    run(model, trial, batches[0], 1)
    return min(batches, key=lambda batch: run(model, trial, batch, 1).seconds)


def print_table(runs: list[Run]) -> None:
    first = runs[0]
    print(f"{'':36} {'seconds':>8} {'tokens':>8} {'tokens/s':>9} {'ratio':>6} {'margins differ by':>18}")
    for run in runs:
        ratio, difference = run.seconds / first.seconds, np.abs(run.margins - first.margins).max()
        rate = run.tokens / run.seconds
        print(
            f"{run.name:36} {run.seconds:8.2f} {run.tokens:8d} {rate:9.0f} {ratio:6.2f} {difference:18.1e}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in {"anchors": 20, "partners": 50, "anchor-tokens": 200, "partner-tokens": 12}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--repeats", type=int, default=1, help="the least seconds of so many runs count")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads, 0 for all cores")
    options = parser.parse_args()
    rng, file = np.random.default_rng(0), fetch_embedded()
    join = Join(
        rng.integers(20, VOCABULARY, (options.anchors, options.anchor_tokens), np.int32),
        rng.integers(20, VOCABULARY, (options.partners, options.partner_tokens), np.int32),
    )
    runs = [covey(join, file, options.threads, options.repeats)]
    logging.disable_progress_bar()
    if options.threads:
        torch.set_num_threads(options.threads)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    trial = Join(join.anchors[:1], join.partners[: min(16, len(join.partners))])
    with torch.inference_mode():
        batch = fastest(full_prompts, model, trial, (1, 4, 16))
        shared = fastest(past_key_values, model, Join(join.anchors[:1], join.partners), (10, 25, 50))
        runs.append(full_prompts(model, join, batch, options.repeats))
        runs.append(past_key_values(model, join, shared, options.repeats))
    sizes = f"{options.anchors} anchors of {options.anchor_tokens} tokens"
    print(f"{sizes}, {options.partners} partners of {options.partner_tokens} each")
    print_table(runs)


if __name__ == "__main__":
    main()
