"""Tokens computed for query shapes, with the planned order against others: counted by the real scheduler, no model.

    python bench/planner.py [--seeds 3] [--only NAME]

Answers are drawn at random, some correlated, and stay the same whatever the order; the planner knows how often each is
true (as from remembered answers), not which. (a): as written, neighbours on one document together, the anchors first
mentioned. (b): filters, then joins as written. (c): the best of all orders and anchors, found with the actual answers.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np
from covey_engine.operators.executor import Executor
from covey_planner import plan as planning
from covey_planner.cost.statistics import CallKey, Selectivity
from covey_planner.cost.stored import StoredStatistics
from covey_planner.logical import All, Filter, Node
from covey_planner.ordering import arrange
from covey_planner.ordering.posing import Poser
from covey_planner.plan import PlanOptions
from covey_planner.profiles import load_profile
from covey_planner.rules import RULES
from covey_planner.rules.join_last import join_last
from covey_planner.rules.order_parts import order_parts
from covey_planner.rules.share_documents import documents, share_documents
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from numpy.typing import NDArray
from orders import Exact
from shapes import SHAPES, TABLES, Shape
from support.byte_tokenizer import byte_tokenizer
from support.hand_plans import rows as fetch
from support.hand_plans import start
from truth import Answers, TruthEngine, question_number, text_number

ARENA, CHUNK = 24_000, 2_048
SHARES = (0.01, 0.05, 0.2, 0.5, 0.9)
PROFILE = "qwen3_short"


def together(node: Node) -> Node | None:
    """Merge neighbouring filters on the same documents, and move nothing."""
    match node:
        case Filter(Filter(below, first), second) if documents(second) is not None:
            if documents(first) == documents(second):
                return Filter(below, All((*_parts(first), *_parts(second))))
    return None


def _parts(condition: Any) -> Sequence[Any]:
    return condition.parts if isinstance(condition, All) else (condition,)


WRITTEN = (*(rule for rule in RULES if rule not in (join_last, order_parts, share_documents)), together)


@dataclass
class Known(StoredStatistics):
    """Statistics of the tables, and the share of their texts, or pairs of them, that each question is true of."""

    truth: Answers = field(default_factory=lambda: Answers({}, 0, correlated=False))
    texts: dict[str, NDArray[np.uint64]] = field(default_factory=dict)

    def selectivity(self, key: CallKey, hint: float | None = None) -> Selectivity:
        """As it is."""
        sides = [self._numbers(argument) for argument in key.arguments]
        numbers = sides[0] if len(sides) == 1 else (sides[0][:, None] + sides[1]).reshape(-1)
        question = question_number(key.question)
        if key.kind == "label":
            labels = [line for line in key.question.splitlines() if " " not in line]  # as in all shapes
            chosen = [labels.index(label) for label in key.label.split(" | ")]
            true = np.isin(self.truth.label(question, numbers, len(labels)), chosen)
        else:
            true = self.truth.true(question, numbers)
        share = float(true.mean())
        return Selectivity(share, share, share, "remembered")

    def _numbers(self, argument: str) -> NDArray[np.uint64]:
        if argument not in self.texts:
            table, column = argument.split(".")
            rows = self.duck.cursor.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            encode = self.library.tokenizer.encode
            self.texts[argument] = np.array(
                [text_number(np.array(encode(text), np.int32)) for (text,) in rows], np.uint64
            )
        return self.texts[argument]


@dataclass
class Bench:
    """Everything that runs statements, over one database."""

    database: Database
    library: TokenLibrary
    answers: Answers = field(default_factory=lambda: Answers({}, 0, correlated=False))
    texts: dict[str, NDArray[np.uint64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cursor = self.database.cursor()
        self.engine = TruthEngine(ARENA, CHUNK)
        self.executor = Executor(
            self.database, self.library, self.library.tokenizer, self.engine, profiles=load_profile
        )
        self.options = PlanOptions(
            load_profile(PROFILE),
            encode=self.library.tokenizer.encode,
            chunk_tokens=CHUNK,
            price=lambda work: work.fresh,
        )

    def tokens(self, sql: str, mode: str) -> tuple[int, int, object]:
        """Fresh tokens of a statement, those of them computed again, and its rows."""
        with self._mode(mode) as (options, statistics):
            planned = planning.plan(sql, self.database, options, (), statistics)
        self.engine.answers = self.answers
        result = start(self.executor, planned, self.cursor)
        found = sorted(map(repr, fetch(result)))
        figures = result.figures()
        return figures.fresh_tokens, figures.recomputed_tokens, found

    @contextmanager
    def _mode(self, mode: str) -> Iterator[tuple[PlanOptions, Any]]:
        statistics = Known(self.cursor, self.library, left=60.0, truth=self.answers, texts=self.texts)
        first = replace(self.options, anchor="first")
        match mode:
            case "written":
                with patch.object(planning, "RULES", WRITTEN):
                    yield first, None
            case "filters":
                yield first, None
            case "planned":
                yield self.options, statistics
            case "best":
                exact = Exact(self.database.cursor(), self.library.tokenizer, self.answers)
                pose = Poser.pose

                def posed(poser: Poser, block: Any) -> Any:
                    problem, units = pose(poser, block)
                    exact.note(problem, units, block)
                    return problem, units

                with patch.object(Poser, "pose", posed), patch.object(arrange, "order", exact.order):
                    yield self.options, statistics


@dataclass(frozen=True)
class Result:
    """Fresh tokens of one shape under one set of answers."""

    name: str
    shares: str
    written: int
    filters: int
    planned: int
    best: int


def measure(bench: Bench, shape: Shape, seed: int) -> Result:
    """One shape with answers of one seed; each third seed has correlated ones."""
    random = Random(f"{shape.name} {seed}")
    shares = {number: random.choice(SHARES) for number in shape.questions}
    bench.answers = Answers(shares, seed, correlated=seed % 3 == 2)
    counts, rows = {}, {}
    for mode in ("written", "filters", "planned", "best"):
        counts[mode], _, rows[mode] = bench.tokens(shape.sql, mode)
    assert all(found == rows["written"] for found in rows.values()), (
        f"{shape.name}: other rows in another order"
    )
    best = min(counts.values())
    said = " ".join(f"{100 * share:g}" for share in shares.values()) + (
        " c" if bench.answers.correlated else ""
    )
    return Result(shape.name, said, counts["written"], counts["filters"], counts["planned"], best)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(None)
        database.cursor().execute(TABLES)
        library = TokenLibrary(Path(folder), byte_tokenizer(), database)
        bench = Bench(database, library)
        print("| shape | true, % (c: correlated) | (a) | (b) | planned | (c) | of (a) | of (b) | of (c) |")
        print("|---|---|---|---|---|---|---|---|---|")
        for shape in SHAPES:
            if arguments.only not in shape.name:
                continue
            for seed in range(arguments.seeds):
                found = measure(bench, shape, seed)
                results.append(found)
                ratios = (found.planned / other for other in (found.written, found.filters, found.best))
                print(
                    f"| {found.name} | {found.shares} | {found.written:,} | {found.filters:,} | {found.planned:,} "
                    f"| {found.best:,} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |",
                    flush=True,
                )
        library.close()
        database.close()
    for name in ("written", "filters", "best"):
        ratios = [found.planned / getattr(found, name) for found in results]
        mean = math.exp(float(np.mean(np.log(ratios))))
        print(f"planned over {name}: geometric mean {mean:.3f}, at most {max(ratios):.3f}")
    worse = [found for found in results if found.planned > 1.02 * min(found.written, found.filters)]
    shapes = len({found.name for found in results})
    print(f"{len(results)} queries of {shapes} shapes; {len(worse)} more than 2 % worse than (a) or (b)")


if __name__ == "__main__":
    main()
