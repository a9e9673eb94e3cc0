"""Emails through planner, operators and the embedded model, against transformers over the same prompt tokens.

    python bench/exactness.py [--rows 200] [--profile smollm2_document_first]

Prints, for a filter and a query of two filters: prompts, the largest difference of a margin, flipped answers,
tokens and seconds of both. Exit status 1 where a margin differs by more than 1e-3 or an answer flips.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from covey_engine.operators.executor import Executor
from covey_engine.operators.readout import readout
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

from support.transformers_reference import Prompt, Recorder, load, reference_margins  # noqa: E402

EMAILS = REPOSITORY.parent / "shared" / "data" / "emails_small.parquet"
TOLERANCE = 1e-3
SPAM, WORK = "Is this email unsolicited advertising or a scam?", "Is this email about work?"
TEXT = "subject || chr(10) || chr(10) || body"
QUERIES = {
    "one filter": f"AI_FILTER('{SPAM}', {TEXT})",
    "two filters": f"AI_FILTER('{SPAM}', {TEXT}) AND NOT AI_FILTER('{WORK}', {TEXT})",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the embedded model's margins with transformers'.")
    parser.add_argument("--data", type=Path, default=EMAILS)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--profile", default="smollm2_document_first")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args(arguments)
    if not options.data.is_file():
        raise SystemExit(f"no such file: {options.data}")
    files = resolve_model()
    tokenizer = load_tokenizer(files)
    profile = load_profile(options.profile)
    database = Database.open(None, [options.data])
    library = TokenLibrary(None, tokenizer, database)
    engine = LocalEngine(open_runner(EngineConfig(str(files.path), device="cpu", threads=options.threads)))
    executor = Executor(database, library, tokenizer, engine)
    model, known, exact = load(files.path), dict[Prompt, float](), True
    print(f"{files.name}, {options.rows} rows, profile {profile.name}")
    for name, condition in QUERIES.items():
        source = f"(SELECT * FROM {options.data.stem} ORDER BY id LIMIT {options.rows})"
        planned = plan(f"SELECT count(*) FROM {source} WHERE {condition}", database, PlanOptions(profile))
        recorder, begun = Recorder(), time.perf_counter()
        result = executor.execute(
            planned, database.cursor(), query_id=name, cancel=threading.Event(), observe=recorder
        )
        found = sum(batch.column(0)[0].as_py() for batch in result.batches)
        ours_seconds, begun = time.perf_counter() - begun, time.perf_counter()
        new = [prompt for prompt in recorder.margins if prompt not in known]
        known.update(zip(new, reference_margins(model, new, readout(profile, tokenizer)), strict=True))
        seconds = time.perf_counter() - begun
        ours = np.array(list(recorder.margins.values()))
        theirs = np.array([known[prompt] for prompt in recorder.margins])
        difference = float(np.abs(ours - theirs).max())
        zero = profile.zero_point
        flipped = (ours > zero) != (theirs > zero)
        outside = int((flipped & (np.abs(theirs - zero) > TOLERANCE)).sum())
        exact = exact and difference <= TOLERANCE and outside == 0
        figures = result.figures()
        print(
            f"{name}: {found} rows true, {figures.prompts} prompts, largest difference {difference:.2e},"
            f" {int(flipped.sum())} flips ({outside} outside {TOLERANCE});"
            f" {figures.prompt_tokens:,} prompt tokens, {figures.fresh_tokens:,} fresh, {ours_seconds:.1f} s;"
            f" transformers {sum(map(len, new)):,} tokens, {seconds:.1f} s"
        )
    engine.close()
    library.close()
    database.close()
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
