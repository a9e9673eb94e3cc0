"""Synthetic workloads go in; Covey's engine and transformers' answers and times on the same weights come out.

    python bench/engine_cpu.py
    python bench/engine_cpu.py --only join,traces --scale 0.25

filters: three questions about every text of a column, beside one. join: every anchor meets every partner. traces: an
agent's turns, each the ones before and one more. beside: fifty rows while a long scan runs, and alone.

Covey runs in a worker process. transformers runs full prompts, in batches of equal lengths, and for the join each
anchor once with its `past_key_values` for its partners; in both at the batch size that was fastest in a trial, with the
head applied to the last position only. "Linear layers alone" are plain products for as many tokens as Covey computes.
Contenders take turns, part by part, so that other work on the machine slows all of them down; CPU seconds tell
what of it they did not do. Of the join's full prompts one in ten is run, and counts ten times.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from covey_engine.prefill.api import Anchor, Argument, Ask, Figures, Literal, Partner, WorkOrder
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.process.client import EngineClient
from covey_storage.model_files import fetch_embedded
from covey_storage.tokens import TokenColumnWriter
from numpy.typing import NDArray
from plain_model import READOUT, Linears, fastest, full_prompts, past_key_values
from race import Contender, race, table

# In place of this folder, whose modules must not shadow packages that transformers looks for.
sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests")

from support.transformers_reference import load  # noqa: E402

VOCABULARY = 49152
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass
class Bench:
    """What the workloads share. plain: loads transformers' model, which takes a while the first time."""

    engine: EngineClient
    folder: Path
    rng: np.random.Generator
    scale: float
    plain: Callable[[], Any]

    def tokens(self, *size: int) -> Ids:
        """Random token ids."""
        return self.rng.integers(20, VOCABULARY, size, np.int32)

    def some(self, count: int, least: int = 1) -> int:
        """A number of rows, scaled."""
        return max(least, round(count * self.scale))

    def argument(self, rows: list[Ids], slots: Ids | None = None) -> Argument:
        """A new token column, all its rows in order or those of `slots`."""
        path = self.folder / str(len(list(self.folder.iterdir())))
        keys = np.array(
            [hashlib.md5(bytes([n % 251]) + row.tobytes()).digest() for n, row in enumerate(rows)], "V16"
        )
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        TokenColumnWriter(path).append(keys, offsets, np.concatenate(rows))
        return Argument(str(path), np.arange(len(rows), dtype=np.int32) if slots is None else slots)

    def margins(self, order: WorkOrder) -> tuple[Floats, Figures]:
        """Run an order: the margins of its first ask, by item, and its cost."""
        found = np.full(order.items, np.nan, np.float32)
        running = self.engine.submit(order)
        for answers in running.answers():
            if answers.ask == 0:
                found[answers.items] = answers.margins
        return found, running.figures()

    def covey(self, name: str, orders: list[WorkOrder]) -> Contender:
        """Covey on orders, one a part."""
        worker = psutil.Process(self.engine.worker_pid)

        def run(part: int) -> tuple[Floats, int]:
            margins, figures = self.margins(orders[part])
            return margins, figures.fresh_tokens

        def cpu() -> float:
            times = worker.cpu_times()
            return float(times.user + times.system)

        return Contender(name, run, cpu=cpu)


def filters(bench: Bench) -> None:
    """Three questions on one column: predicted 1.0 times one question's seconds, times the tokens' ratio."""
    parts, texts, questions = 4, bench.some(10), [Literal(tuple(row.tolist())) for row in bench.tokens(3, 12)]
    columns = [bench.argument(list(bench.tokens(texts, 200))) for _ in range(parts)]

    def orders(name: str, count: int) -> list[WorkOrder]:
        asks = [Ask((question,), READOUT, n + 1, n + 1) for n, question in enumerate(questions[:count])]
        asks[-1] = replace(asks[-1], on_true=-1, on_false=-1)
        return [WorkOrder(name, (Anchor(),), tuple(asks), anchors=(column,)) for column in columns]

    one, three = (
        bench.covey("Covey, one filter", orders("1", 1)),
        bench.covey("Covey, three filters", orders("3", 3)),
    )
    race([one, three], parts)
    print(f"filters: {parts * texts} texts of 200 tokens, questions of 12\n{table([one, three])}")
    tokens = three.tokens / one.tokens
    wall, cpu = three.total / one.total / tokens, three.cpu_total / one.cpu_total / tokens
    print(
        f"T3 / (T1 x {tokens:.3f} fresh tokens): {wall:.3f}, in CPU seconds {cpu:.3f} (goal: at most 1.10)\n"
    )


def join(bench: Bench) -> None:
    """Predicted: 12 to 14 times faster than full prompts, 1.5 than `past_key_values`; 0.8 of it linear layers."""
    parts, anchors, partners = 5, bench.some(4), bench.some(50, 10)
    sides = bench.tokens(parts, anchors, 200), bench.tokens(partners, 12)
    partner = bench.argument(list(sides[1]))
    orders = [
        WorkOrder(
            "join", (Anchor(),), (Ask((Partner(),), READOUT),), (bench.argument(list(side)),), (partner,)
        )
        for side in sides[0]
    ]
    model = bench.plain()
    linears = Linears(model.config)

    def prompts(part: int) -> Ids:
        pairs = [np.repeat(sides[0][part], partners, axis=0), np.tile(sides[1], (anchors, 1))]
        return np.concatenate(pairs, axis=1, dtype=np.int32)

    def some_prompts(part: int) -> tuple[Floats, int]:
        margins = np.full(anchors * partners, np.nan, np.float32)
        margins[::10], tokens = full_prompts(model, prompts(part)[::10], batch)
        return margins, tokens

    trial = prompts(0)[:4]
    batch = fastest(lambda size: full_prompts(model, trial, size), (1, 2, 4))
    shared = fastest(lambda size: past_key_values(model, sides[0][0, :1], sides[1], size), (10, 25, 50))
    tokens = anchors * (200 + partners * 12)
    contenders = [
        bench.covey("Covey", orders),
        Contender(
            f"past_key_values, batches of {shared}",
            lambda part: past_key_values(model, sides[0][part], sides[1], shared),
        ),
        Contender("linear layers alone", lambda _: (linears.run(tokens), tokens)),
        Contender(f"full prompts, batches of {batch}", some_prompts, times=10),
    ]
    race(contenders, parts)
    print(f"join: {parts * anchors} anchors of 200 tokens x {partners} partners of 12\n{table(contenders)}")
    print("goals: full prompts at least 12 times Covey's seconds, past_key_values at least 1.5 times\n")


def traces(bench: Bench) -> None:
    """Predicted 6 times faster than full prompts: 6.8 times fewer tokens at most. Covey finds what texts share."""
    parts, turns, conversations = 2, 10, bench.some(5)
    question = bench.tokens(8)
    texts = [bench.tokens(conversations, 300 + 40 * turns) for _ in range(parts)]
    orders = [_trace_order(bench, part, question, turns) for part in texts]
    model = bench.plain()

    def run(part: int, size: int, only: slice = slice(None)) -> tuple[Floats, int]:
        margins, tokens = np.empty((conversations, turns), np.float32), 0
        for turn in range(turns)[only]:
            prompts = texts[part][:, : 300 + 40 * (turn + 1)]
            ended = np.concatenate([prompts, np.tile(question, (conversations, 1))], axis=1, dtype=np.int32)
            margins[:, turn], computed = full_prompts(model, ended, size)
            tokens += computed
        return margins.reshape(-1), tokens

    batch = fastest(lambda size: run(0, size, slice(4, 5)), (1, 5))
    contenders = [
        bench.covey("Covey", orders),
        Contender(f"full prompts, batches of {batch}", lambda part: run(part, batch)),
    ]
    race(contenders, parts)
    share = 1 - contenders[0].tokens / contenders[1].tokens
    print(f"traces: {parts * conversations * turns}, {share:.0%} of their tokens shared\n{table(contenders)}")
    print("goal: full prompts at least 5 times Covey's seconds\n")


def _trace_order(bench: Bench, texts: Ids, question: Ids, turns: int) -> WorkOrder:
    """Every turn of every conversation, each a text of its own that the next one begins with."""
    column = bench.argument([text[: 300 + 40 * (turn + 1)] for text in texts for turn in range(turns)])
    asks = (Ask((Literal(tuple(question.tolist())),), READOUT),)
    return WorkOrder("traces", (Anchor(),), asks, (column,))


def beside(bench: Bench) -> None:
    """Fifty rows beside a scan: predicted 2.5 times their seconds alone, half of each chunk and two chunks' wait."""
    times: dict[str, list[float]] = {"alone": [], "beside": []}
    question = Literal(tuple(bench.tokens(12).tolist()))

    def order(name: str, rows: int, length: int) -> WorkOrder:
        column = bench.argument(list(bench.tokens(rows, length)))
        return WorkOrder(name, (Anchor(),), (Ask((question,), READOUT),), (column,))

    def short(kind: str) -> None:
        began = time.perf_counter()
        bench.margins(order("short", bench.some(50), 40))
        times[kind].append(time.perf_counter() - began)

    for _ in range(3):
        short("alone")
        scan = bench.engine.submit(order("scan", bench.some(400, 100), 200))
        next(scan.answers())
        short("beside")
        assert scan.progress().tokens_to_come, "the scan ended before the short query did"
        scan.cancel()
    ratios = [after / before for before, after in zip(times["alone"], times["beside"], strict=True)]
    print(f"beside a scan: {bench.some(50)} rows of 40 tokens and a question of 12")
    for kind, seconds in times.items():
        print(f"{kind:34} {np.median(seconds):8.2f}  {' '.join(f'{each:.2f}' for each in seconds)}")
    print(f"ratios {' '.join(f'{ratio:.2f}' for ratio in ratios)} (goal: at most 3)\n")


WORKLOADS = {"filters": filters, "join": join, "traces": traces, "beside": beside}


@contextmanager
def opened(file: Path, options: argparse.Namespace) -> Iterator[Bench]:
    """A running engine, warmed up."""
    config = EngineConfig(str(file), device="cpu", threads=options.threads, chunk_tokens=options.chunk_tokens)
    engine = EngineClient.start(config)
    loaded: list[Any] = []

    def plain() -> Any:
        if not loaded:
            loaded.append(load(file))
        return loaded[0]

    try:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(engine, Path(folder), np.random.default_rng(0), options.scale, plain)
            bench.margins(WorkOrder("warm", (Literal((1, 2, 3)),), (Ask((Literal((4,)),), READOUT),)))
            yield bench
    finally:
        engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default=",".join(WORKLOADS), help="workloads, by name, with commas between them"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a look")
    parser.add_argument(
        "--threads", type=int, default=0, help="CPU threads of every contender, 0 for all cores"
    )
    parser.add_argument("--chunk-tokens", type=int, default=0, help="0 for the engine's own choice")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or psutil.cpu_count(logical=False) or 1)
    options.threads = torch.get_num_threads()
    with opened(fetch_embedded(), options) as bench:
        for name in options.only.split(","):
            print(WORKLOADS[name].__doc__)
            began = time.perf_counter()
            WORKLOADS[name](bench)
            print(f"({time.perf_counter() - began:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
