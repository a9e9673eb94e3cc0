"""Labelled rows go in, a table of how well each prompt profile answers them comes out.

    python bench/prompt_profiles.py
    python bench/prompt_profiles.py --data tickets.csv --text "subject || ': ' || body" \\
        --label urgent --positive yes --question "Does the customer need help today?"

AUC is the area under the ROC curve of the margins. Accuracy is taken at the profile's zero point, and
calibrated: with a threshold chosen on the other folds of a cross-validation. Intervals are bootstrap 95 %
intervals over the rows. The last column is the threshold that all rows together would choose: a zero point.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
from covey_engine.operators.readout import readout
from covey_engine.operators.template import tokenize
from covey_engine.prefill import api
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.local import LocalEngine
from covey_planner.physical import AskStep, Domain, Question
from covey_planner.profiles import PromptProfile, load_profile, load_profile_file, profile_names
from covey_planner.prompts import filter_prompt, parse_template
from covey_storage.keys import text_keys
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import Tokenizer, load_tokenizer
from covey_storage.tokens import TokenColumn, TokenColumnWriter
from numpy.typing import NDArray

EMAILS = Path(__file__).resolve().parents[2] / "shared" / "data" / "emails_small.parquet"
QUESTION = "Is this email unsolicited advertising or a scam?"
RESAMPLES, FOLDS = 2000, 10

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Documents as a token column, and which of them are positive."""

    column: TokenColumn
    positive: Bools


@dataclass(frozen=True)
class Score:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    files = resolve_model(options.model)
    tokenizer = load_tokenizer(files)
    profiles = _profiles(options.profiles, files.family)
    runner = open_runner(EngineConfig(str(files.path), device=options.device, threads=options.threads))
    engine = LocalEngine(runner)
    with tempfile.TemporaryDirectory(prefix="covey-profiles-") as folder:
        rows = _read(options, tokenizer, Path(folder))
        tokens = int(rows.column.lengths.sum())
        share = rows.positive.mean()
        print(f"{files.name} on {engine.info().device}, {engine.info().dtype}; {options.question}")
        print(
            f"{len(rows.positive)} rows, {share:.1%} positive, {tokens / len(rows.positive):.0f} tokens a row"
        )
        print(
            f"{'profile':<26}{'AUC':<24}{'accuracy at zero point':<26}{'calibrated accuracy':<24}"
            f"{'prompt':>8}{'fresh':>8}{'seconds':>9}{'threshold':>11}"
        )
        for profile in profiles:
            print(_line(profile, rows, tokenizer, engine, options.question), flush=True)
        print("prompt, fresh: tokens a row")
    engine.close()
    return 0


def _line(
    profile: PromptProfile, rows: Rows, tokenizer: Tokenizer, engine: LocalEngine, question: str
) -> str:
    begun = time.perf_counter()
    margins, figures = measure(profile, rows.column, tokenizer, engine, question)
    seconds = time.perf_counter() - begun
    count = len(margins)
    right = (margins > profile.zero_point) == rows.positive
    calibrated = cross_validated(margins, rows.positive)
    return (
        f"{profile.name:<26}{interval(auc, margins, rows.positive)!s:<24}"
        f"{share(right)!s:<26}{share(calibrated)!s:<24}"
        f"{figures.prompt_tokens / count:>8.1f}{figures.fresh_tokens / count:>8.1f}{seconds:>9.1f}"
        f"{best_threshold(margins, rows.positive):>11.3f}"
    )


def measure(
    profile: PromptProfile, column: TokenColumn, tokenizer: Tokenizer, engine: api.Engine, question: str
) -> tuple[Floats, api.Figures]:
    """The margin of each document of the column in this profile, and what they cost."""
    prompt = filter_prompt(parse_template(question + " {0}", 1), profile)
    step = AskStep(prompt.prefix, (Question("", prompt.suffix, ""),), Domain("", ()))
    template = tokenize(step, partial(tokenizer.encode, special=True), tokenizer.encode)
    ask = api.Ask(template.suffixes[0], readout(profile, tokenizer))
    slots = np.arange(len(column), dtype=np.int32)
    order = api.WorkOrder("profiles", template.prefix, (ask,), (api.Argument(str(column.folder), slots),))
    running = engine.submit(order)
    margins = np.full(len(column), np.nan)
    for answers in running.answers():
        margins[answers.items] = answers.margins
    if np.isnan(margins).any():
        raise SystemExit(f"{profile.name}: {int(np.isnan(margins).sum())} rows have no finite answer")
    return margins, running.figures()


def auc(margins: Floats, positive: Bools) -> float:
    """Probability that a positive row has the larger margin than a negative one; ties count half."""
    values, place = np.unique(margins, return_inverse=True)
    yes = np.bincount(place, positive, len(values))
    no = np.bincount(place, ~positive, len(values))
    below = np.cumsum(no) - no
    return float((yes * (below + no / 2)).sum() / (yes.sum() * no.sum()))


def best_threshold(margins: Floats, positive: Bools) -> float:
    """The threshold above which true answers most rows right; the middle one of equals."""
    order = np.argsort(margins)
    sorted_margins, labels = margins[order], positive[order]
    # With the threshold above the first k rows: negatives among them and positives behind them are right.
    right = (
        np.concatenate([[0], np.cumsum(~labels)]) + positive.sum() - np.concatenate([[0], np.cumsum(labels)])
    )
    cuts = np.concatenate([[-np.inf], (sorted_margins[1:] + sorted_margins[:-1]) / 2, [np.inf]])
    usable = np.concatenate([[True], sorted_margins[1:] > sorted_margins[:-1], [True]])
    best = np.flatnonzero(usable & (right == right[usable].max()))
    chosen = cuts[best[len(best) // 2]]
    return float(np.clip(chosen, sorted_margins[0] - 1, sorted_margins[-1] + 1))


def cross_validated(margins: Floats, positive: Bools) -> Bools:
    """Which rows are right when the threshold is chosen on the folds that they are not in."""
    folds = np.random.default_rng(0).permutation(len(margins)) % FOLDS
    right = np.zeros(len(margins), dtype=np.bool_)
    for fold in range(FOLDS):
        held, rest = folds == fold, folds != fold
        threshold = best_threshold(margins[rest], positive[rest])
        right[held] = (margins[held] > threshold) == positive[held]
    return right


def share(right: Bools) -> Score:
    """The share of right answers with its bootstrap interval."""
    drawn = np.random.default_rng(0).binomial(len(right), right.mean(), RESAMPLES) / len(right)
    return Score(float(right.mean()), *np.quantile(drawn, (0.025, 0.975)).tolist())


def interval(measure: Callable[[Floats, Bools], float], margins: Floats, positive: Bools) -> Score:
    """A statistic with its bootstrap interval, positives and negatives resampled within their own."""
    random = np.random.default_rng(0)
    groups = [np.flatnonzero(positive), np.flatnonzero(~positive)]
    drawn = []
    for _ in range(RESAMPLES):
        chosen = np.concatenate([random.choice(group, len(group)) for group in groups])
        drawn.append(measure(margins[chosen], positive[chosen]))
    return Score(measure(margins, positive), *np.quantile(drawn, (0.025, 0.975)).tolist())


def _read(options: argparse.Namespace, tokenizer: Tokenizer, folder: Path) -> Rows:
    """The rows with text and label; each text cut to the same number of tokens for all profiles."""
    if not Path(options.data).is_file():
        raise SystemExit(f"no such file: {options.data}")
    relation = duckdb.read_csv if str(options.data).endswith((".csv", ".tsv")) else duckdb.read_parquet
    try:
        table = relation(str(options.data)).project(
            f"CAST({options.text} AS VARCHAR) AS text, CAST({options.label} AS VARCHAR) AS label"
        )
        found = table.filter("text IS NOT NULL AND label IS NOT NULL").limit(options.rows).fetchall()
    except duckdb.Error as error:
        raise SystemExit(f"{options.data}: {str(error).splitlines()[0]}") from None
    positive = np.array([label == options.positive for _, label in found])
    if not positive.any() or positive.all():
        labels = ", ".join(sorted({label for _, label in found})[:8])
        raise SystemExit(
            f"--positive {options.positive}: rows of both kinds are needed; {options.label} has: {labels}"
        )
    texts = [text for text, _ in found]
    offsets, ids = tokenizer.encode_batch(texts)
    parts = [ids[begin : min(end, begin + options.tokens)] for begin, end in pairwise(offsets)]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    # Equal texts are rows of their own here: their keys are told apart by their number.
    keys = text_keys([f"{number} {text}" for number, text in enumerate(texts)])
    TokenColumnWriter(folder, durable=False).append(keys, ends, np.concatenate(parts))
    return Rows(TokenColumn(folder), positive)


def _profiles(names: Sequence[str], family: str) -> list[PromptProfile]:
    if names:
        return [
            load_profile_file(Path(name)) if name.endswith(".toml") else load_profile(name) for name in names
        ]
    return [profile for profile in map(load_profile, profile_names()) if profile.family == family]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure prompt profiles on labelled rows.")
    parser.add_argument("--model", help="a folder, a .gguf file or a repository; default: the embedded model")
    parser.add_argument("--data", type=Path, default=EMAILS, help="a Parquet or CSV file")
    parser.add_argument("--text", default="subject || chr(10) || chr(10) || body", help="SQL of the document")
    parser.add_argument("--label", default="label", help="SQL of the label")
    parser.add_argument("--positive", default="spam", help="the label of rows whose answer is yes")
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument(
        "--profiles", nargs="*", default=[], help="names or .toml files; default: all of the family"
    )
    parser.add_argument("--rows", type=int, default=400, help="at most so many rows")
    parser.add_argument("--tokens", type=int, default=1000, help="at most so many tokens of each document")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
