"""One workload's query inside one process goes in; how busy the device was, and with what, comes out.

    python bench/profile_query.py MODEL [--dtype fp8] [--only filter,traces] [--scale 0.01] [--without-model]

The query runs once to build its token columns, once as it is, and once under torch's profiler: *busy* is the time
during which at least one kernel ran, between the first kernel and the last. One line a chunk with `--chunks`.
`--without-model` takes a runner that answers at once: chunks and attention calls are counted, nothing is timed.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import workloads
from covey_engine.operators.executor import Executor
from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.hopper.plan import plan_chunk
from covey_engine.prefill.hopper.workspace import PACKED
from covey_engine.prefill.kernels.merge import MERGED
from covey_engine.prefill.process.local import LocalEngine
from covey_engine.prefill.runner import Computed, Logits, Pending, Runner
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import find_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import load_tokenizer
from profile_chunk import kind_of

CHUNK = 33_792


class NoModel:
    """A runner that answers at once, true to a fifth of the questions."""

    arena_tokens = 900_000
    info = EngineInfo("none", "none", "cpu", "none", 32_768, arena_tokens, CHUNK, 0.0)

    def __init__(self) -> None:
        self._columns = 1
        self._draw = np.random.default_rng(7)

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        """Remember how many logits a row has."""
        self._columns = len(ids) + normalizer

    def launch(self, chunk: Chunk) -> Pending:
        """Answer."""
        return Computed.by(self._answer, chunk)

    def _answer(self, chunk: Chunk) -> Logits:
        logits = np.zeros((len(chunk.answers), self._columns), np.float32)
        logits[:, 0] = np.where(self._draw.random(len(logits)) < 0.2, 9, -9)
        return logits


class Watched:
    """A runner that notes its chunks."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.info = runner.info
        self.arena_tokens = runner.arena_tokens
        self.set_answer_tokens = runner.set_answer_tokens
        self.chunks: list[tuple[Chunk, Pending]] = []

    def launch(self, chunk: Chunk) -> Pending:
        """Pass it on."""
        pending = self._runner.launch(chunk)
        self.chunks.append((chunk, pending))
        return pending

    def lines(self) -> Iterable[str]:
        """What each chunk was."""
        for chunk, pending in self.chunks:
            calls = (
                plan_chunk(chunk, PACKED * self.info.chunk_tokens, MERGED).every.calls
                if (np.diff(chunk.answers) >= 0).all()
                else ()
            )
            shapes = ", ".join(
                f"{call.keys.value} {len(call.pairs)} x {call.pairs[:, 1].mean():.0f}" for call in calls
            )
            yield (
                f"    {len(chunk)} tokens, {len(chunk.answers)} answers, {chunk.attention_pairs / len(chunk):.0f} keys "
                f"a token, {pending.seconds() * 1e3:.1f} ms; {shapes}"
            )


def busy(run: Callable[[], None]) -> None:
    """Run under the profiler and print the kernels' share of the time."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as record:
        run()
        torch.cuda.synchronize()
    kinds: dict[str, float] = defaultdict(float)
    spans = []
    for event in record.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kinds[kind_of(event.name)] += event.device_time
            spans.append((event.time_range.start, event.time_range.end))
    ordered = np.array(sorted(spans), np.float64)
    reached = np.maximum.accumulate(ordered[:, 1])
    idle = np.maximum(ordered[1:, 0] - reached[:-1], 0)
    whole = reached[-1] - ordered[0, 0]
    print(
        f"  busy {1 - idle.sum() / whole:.2%} of {whole / 1e6:.3f} s; idle in {(idle > 50).sum()} gaps above 50 us, "
        f"the longest {idle.max() / 1e3:.1f} ms; steady state (middle 80 %) {_steady(ordered, reached):.2%}"
    )
    print(
        "  "
        + ", ".join(
            f"{kind} {spent / 1e6:.3f} s" for kind, spent in sorted(kinds.items(), key=lambda k: -k[1])
        )
    )


def _steady(ordered: np.ndarray, reached: np.ndarray) -> float:
    """The busy part between a tenth and nine tenths of the time."""
    low, high = ordered[0, 0] + np.array([0.1, 0.9]) * (reached[-1] - ordered[0, 0])
    begins, ends = np.clip(reached[:-1], low, high), np.clip(ordered[1:, 0], low, high)
    return float(1 - np.maximum(ends - begins, 0).sum() / (high - low))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a Hugging Face folder with a tokenizer.json")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--profile", default="qwen3_short")
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--chunk", type=int, default=CHUNK, help="most tokens of one")
    parser.add_argument("--chunks", action="store_true")
    parser.add_argument("--without-model", action="store_true")
    wished = parser.parse_args()
    chosen = wished.only.split(",") if wished.only else [workload.name for workload in workloads.WORKLOADS]
    with tempfile.TemporaryDirectory() as folder:
        workloads.write(Path(folder), wished.model / "tokenizer.json", wished.scale)
        tokenizer, profile = load_tokenizer(resolve_model(str(wished.model))), find_profile(wished.profile)
        database = Database.open(None, sorted(Path(folder).glob("*.parquet")))
        library = TokenLibrary(None, tokenizer, database)
        runner = Watched(NoModel() if wished.without_model else _open(wished))
        engine = LocalEngine(runner)
        executor = Executor(database, library, tokenizer, engine, profiles=lambda _: profile)

        def query(sql: str) -> None:
            planned = plan(sql, database, PlanOptions(profile))
            runner.chunks.clear()
            began = time.perf_counter()
            result = executor.execute(planned, database.cursor(), query_id="q", cancel=threading.Event())
            rows = sum(len(batch) for batch in result.batches)
            seconds, figures = time.perf_counter() - began, result.figures()
            print(
                f"  {seconds:.3f} s, {rows} rows, {figures.fresh_tokens} fresh of {figures.prompt_tokens}, "
                f"{len(runner.chunks)} chunks"
            )

        for workload in workloads.WORKLOADS:
            if workload.name in chosen:
                print(workload.name, flush=True)
                query(workload.sql)
                query(workload.sql)
                if wished.chunks:
                    print("\n".join(runner.lines()), flush=True)
                if not wished.without_model:
                    busy(lambda sql=workload.sql: query(sql))
        engine.close()
        library.close()
        database.close()


def _open(wished: argparse.Namespace) -> Runner:
    from covey_engine.prefill.hopper.runner import open_runner

    return open_runner(EngineConfig(str(wished.model), dtype=wished.dtype, chunk_tokens=wished.chunk))


if __name__ == "__main__":
    main()
