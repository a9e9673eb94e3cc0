"""The embedded model's margins for emails go in from a GPU, beside those of the CPU in float32; differences come out.

    python bench/emails_on_gpu.py [--model FILE.gguf] [--data emails_small.parquet] [--rows 400]
    python bench/emails_on_gpu.py --write margins.npz     # where there is no GPU, the CPU's part
    python bench/emails_on_gpu.py --margins margins.npz   # the rest, beside that

Runs one question on every email: in float32 by the reference runner on the CPU, then on the Hopper runner in bfloat16
and in row-scaled fp8 (the model is 576 wide, which blocks of 128 do not divide), each in chunks of two sizes. A flip is
an answer on the other side of the zero point; its distance from there is printed beside the differences of all margins.
A file of margins holds the tokens of every prompt and the digest of the model's file: others are refused.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from covey_engine.operators.executor import Executor
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.local import LocalEngine
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import load_tokenizer

REPOSITORY = Path(__file__).resolve().parents[1]
# In place of this folder, whose modules must not shadow packages that transformers looks for.
sys.path[0] = str(REPOSITORY / "tests")

from support.transformers_reference import Prompt, Recorder  # noqa: E402

Margins = Mapping[Prompt, float]
QUESTION = "Is this email unsolicited advertising or a scam?"
TEXT = "subject || chr(10) || chr(10) || body"
ARENA = 4 << 30
CPU = "float32, CPU"
SETTINGS = {
    CPU: EngineConfig("", backend="reference", device="cpu"),
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
    ("bf16", CPU),
    ("fp8 rows", CPU),
    ("fp8 rows", "bf16"),
    ("bf16, small chunks", "bf16"),
    ("fp8 rows, small chunks", "fp8 rows"),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared/data/emails_small.parquet")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--profile", default="smollm2_examples")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads, 0 for all cores")
    parser.add_argument("--only", default="", help="settings, with semicolons between them")
    parser.add_argument(
        "--write", type=Path, help="run the CPU's part alone and keep its margins in this file"
    )
    parser.add_argument("--margins", type=Path, help="a file so written, in place of the CPU's part")
    wished = parser.parse_args()
    files, wanted = resolve_model(wished.model), wished.only.split(";") if wished.only else list(SETTINGS)
    tokenizer, profile = load_tokenizer(files), load_profile(wished.profile)
    digest = hashlib.sha256(files.path.read_bytes()).hexdigest()
    found: dict[str, Margins] = {}
    if wished.margins:
        found[CPU] = read_margins(wished.margins, digest)
        wanted = [name for name in wanted if name != CPU]
    database = Database.open(None, [wished.data])
    library = TokenLibrary(None, tokenizer, database)
    source = f"(SELECT * FROM {wished.data.stem} ORDER BY id LIMIT {wished.rows})"
    planned = plan(
        f"SELECT count(*) FROM {source} WHERE AI_FILTER('{QUESTION}', {TEXT})", database, PlanOptions(profile)
    )
    for name in [CPU] if wished.write else wanted:
        asked = {**vars(SETTINGS[name]), "model": str(files.path), "threads": wished.threads}
        engine, recorder = LocalEngine(open_runner(EngineConfig(**asked))), Recorder()
        began = time.perf_counter()
        result = Executor(database, library, tokenizer, engine).execute(
            planned, database.cursor(), query_id=name, cancel=threading.Event(), observe=recorder
        )
        rows = sum(batch.column(0)[0].as_py() for batch in result.batches)
        seconds = time.perf_counter() - began
        engine.close()
        found[name] = recorder.margins
        print(
            f"{name}: {rows} of {len(found[name])} prompts true, {result.figures().fresh_tokens} tokens, "
            f"{seconds:.1f} s",
            flush=True,
        )
    if wished.write:
        write_margins(wished.write, found[CPU], digest)
    for name, other in BESIDE:
        if name in found and other in found:
            compare(name, found[name], other, found[other], profile.zero_point)
    library.close()
    database.close()


def write_margins(file: Path, margins: Margins, digest: str) -> None:
    """Keep each prompt's tokens and margin, and the digest of the model's file."""
    ends = np.cumsum([0, *map(len, margins)])
    tokens = np.fromiter((token for prompt in margins for token in prompt), np.int32, ends[-1])
    np.savez_compressed(file, ends=ends, tokens=tokens, margins=[*margins.values()], model=digest)


def read_margins(file: Path, digest: str) -> Margins:
    """What `write_margins` kept. Raises SystemExit where another model computed it."""
    kept = np.load(file)
    if str(kept["model"]) != digest:
        raise SystemExit(f"the margins in {file} are those of another model's file")
    prompts = (tuple(kept["tokens"][a:b].tolist()) for a, b in pairwise(kept["ends"].tolist()))
    return dict(zip(prompts, kept["margins"].tolist(), strict=True))


def compare(name: str, margins: Margins, other: str, others: Margins, zero: float) -> None:
    """Print how far margins are apart, and which answers flip. Raises SystemExit where the prompts are not the same."""
    if margins.keys() != others.keys():
        raise SystemExit(f"{name} and {other} were not asked the same prompts")
    ours, theirs = (np.array([each[prompt] for prompt in margins]) for each in (margins, others))
    apart, spread = np.abs(ours - theirs), theirs.std()
    flipped = (ours > zero) != (theirs > zero)
    near = np.sort(np.abs(theirs[flipped] - zero))
    print(
        f"{name} beside {other}: margins apart by {apart.mean():.4f} at the mean, {apart.max():.4f} at most (spread "
        f"{spread:.4f}); {flipped.sum()} of {len(ours)} flip, from {near.max(initial=0):.4f} of the zero point at most"
    )


if __name__ == "__main__":
    main()
