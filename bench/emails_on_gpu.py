"""The embedded model's margins for emails go in from a GPU, beside those of the CPU in float32; differences come out.

    python bench/emails_on_gpu.py [--model FILE.gguf] [--data emails_small.parquet] [--rows 400]

Runs one question on every email: in float32 by the reference runner on the CPU, then on the Hopper runner in bfloat16
and in row-scaled fp8 (the model is 576 wide, which blocks of 128 do not divide), each in chunks of two sizes. A flip is
an answer on the other side of the zero point; its distance from there is printed beside the differences of all margins.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np
from covey_engine.operators.executor import Executor
from covey_engine.prefill import api
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.local import LocalEngine
from covey_planner.physical import AskStep
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import load_tokenizer
from numpy.typing import NDArray

QUESTION = "Is this email unsolicited advertising or a scam?"
TEXT = "subject || chr(10) || chr(10) || body"
ARENA = 4 << 30
SETTINGS = {
    "float32, CPU": EngineConfig("", backend="reference", device="cpu"),
    "bf16": EngineConfig("", backend="hopper", dtype="bfloat16", chunk_tokens=16_384, arena_bytes=ARENA),
    "bf16, small chunks": EngineConfig(
        "", backend="hopper", dtype="bfloat16", chunk_tokens=2_048, arena_bytes=ARENA
    ),
    "fp8 rows": EngineConfig("", backend="hopper", dtype="fp8", chunk_tokens=16_384, arena_bytes=ARENA),
    "fp8 rows, small chunks": EngineConfig(
        "", backend="hopper", dtype="fp8", chunk_tokens=2_048, arena_bytes=ARENA
    ),
}
BESIDE = [
    ("bf16", "float32, CPU"),
    ("fp8 rows", "float32, CPU"),
    ("fp8 rows", "bf16"),
    ("bf16, small chunks", "bf16"),
    ("fp8 rows, small chunks", "fp8 rows"),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parents[2] / "shared/data/emails_small.parquet"
    )
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--profile", default="smollm2_examples")
    parser.add_argument("--only", default="", help="settings, with semicolons between them")
    wished = parser.parse_args()
    files = resolve_model(wished.model)
    tokenizer, profile = load_tokenizer(files), load_profile(wished.profile)
    database = Database.open(None, [wished.data])
    library = TokenLibrary(None, tokenizer, database)
    source = f"(SELECT * FROM {wished.data.stem} ORDER BY id LIMIT {wished.rows})"
    planned = plan(
        f"SELECT count(*) FROM {source} WHERE AI_FILTER('{QUESTION}', {TEXT})", database, PlanOptions(profile)
    )
    found: dict[str, NDArray[np.float64]] = {}
    for name, config in SETTINGS.items():
        if wished.only and name not in wished.only.split(";"):
            continue
        margins: dict[int, float] = {}

        def observe(
            _: AskStep, __: api.WorkOrder, answers: api.Answers, into: dict[int, float] = margins
        ) -> None:
            into.update(zip(answers.items.tolist(), answers.margins.tolist(), strict=True))

        engine = LocalEngine(open_runner(EngineConfig(**{**vars(config), "model": str(files.path)})))
        began = time.perf_counter()
        result = Executor(database, library, tokenizer, engine).execute(
            planned, database.cursor(), query_id=name, cancel=threading.Event(), observe=observe
        )
        rows = sum(batch.column(0)[0].as_py() for batch in result.batches)
        seconds = time.perf_counter() - began
        engine.close()
        found[name] = np.array([margins[item] for item in sorted(margins)])
        print(
            f"{name}: {rows} of {len(margins)} true, {result.figures().fresh_tokens} tokens, {seconds:.1f} s",
            flush=True,
        )
    for name, other in BESIDE:
        if name in found and other in found:
            compare(name, found[name], other, found[other], profile.zero_point)
    library.close()
    database.close()


def compare(
    name: str, ours: NDArray[np.float64], other: str, theirs: NDArray[np.float64], zero: float
) -> None:
    """Print how far margins are apart, and which answers flip."""
    apart, spread = np.abs(ours - theirs), theirs.std()
    flipped = (ours > zero) != (theirs > zero)
    near = np.sort(np.abs(theirs[flipped] - zero))
    print(
        f"{name} beside {other}: margins apart by {apart.mean():.4f} at the mean, {apart.max():.4f} at most (spread "
        f"{spread:.4f}); {flipped.sum()} of {len(ours)} flip, from {near.max(initial=0):.4f} of the zero point at most"
    )


if __name__ == "__main__":
    main()
