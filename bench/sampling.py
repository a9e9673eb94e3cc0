"""Tokens computed where hints are wrong by ten times, with a sample asked first, against plans that keep the hints and
plans that know how often each question is true: counted by the real scheduler, no model.

    python bench/sampling.py [--only NAME] [--hints 4]

Answers are drawn at random, in some cases correlated, or from a table that is sorted by them, and stay the same
whatever the order is.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np
import pyarrow as pa
from covey_planner import plan as planning
from covey_planner.cost.statistics import CallKey, Selectivity
from covey_planner.cost.stored import StoredStatistics
from covey_planner.plan import Planned
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from shapes.tables import names, table
from support.byte_tokenizer import byte_tokenizer
from support.hand_plans import rows as fetch
from support.hand_plans import start
from truth import Answers, text_number

from planner import Bench, Known

TABLES = "\n".join(
    (
        table("docs", 2_400, 50, 90, ", CAST(hash(i + 7) % 2100 AS INTEGER) AS author"),
        table("authors", 2_100, 40, 80),
        names("aspects", 8, 5, 9),
        names("genres", 8, 5, 9),
    )
)
WRONG: Mapping[str, tuple[tuple[float, float], ...]] = {
    "exchanged, 5 and 50": ((0.5, 0.05), (0.05, 0.5), (0.5, 0.05)),
    "exchanged, 9 and 90": ((0.9, 0.09), (0.09, 0.9), (0.9, 0.09)),
    "one too low": ((0.5, 0.05), (0.2, 0.2), (0.2, 0.2)),
    "one too high": ((0.2, 0.2), (0.05, 0.5), (0.2, 0.2)),
}
"""Of each question how often it is true, and the hint."""


@dataclass(frozen=True)
class Case:
    """A shape of query; {0}, {1}, … stand for the options of its questions."""

    name: str
    sql: str
    correlated: bool = False
    sorted: bool = False


def f(number: int, column: str) -> str:
    return f"AI_FILTER('Q{number}?', {column}, {{{number - 1}}})"


def j(number: int, one: str, other: str) -> str:
    return f"AI_FILTER(PROMPT('Q{number}? {{{{0}}}} {{{{1}}}}', {one}, {other}), {{{number - 1}}})"


def q(name: str, tables: str, where: str, correlated: bool = False, sorted_: bool = False) -> Case:
    return Case(name, f"SELECT count(*) FROM {tables} WHERE {where}", correlated, sorted_)


CHAIN = f"{f(1, 'd.body')} AND {f(2, 'd.body')}"
KEY = "docs d, authors a", "d.author = a.id"
CASES = (
    q("two filters", "docs d", CHAIN),
    q("two filters, correlated", "docs d", CHAIN, correlated=True),
    q("two filters, sorted table", "ordered d", CHAIN, sorted_=True),
    q("three filters", "docs d", f"{CHAIN} AND {f(3, 'd.body')}"),
    q("either", "docs d", f"({f(1, 'd.body')} OR {f(2, 'd.body')} OR {f(3, 'd.body')})"),
    q("filters on both sides", KEY[0], f"{KEY[1]} AND {f(1, 'd.body')} AND {f(2, 'a.body')}"),
    q("two and one", KEY[0], f"{KEY[1]} AND {CHAIN} AND {f(3, 'a.body')}"),
    q("filter, pairs by key", KEY[0], f"{KEY[1]} AND {f(1, 'd.body')} AND {j(2, 'd.body', 'a.body')}"),
    q("pairs by key, filter", KEY[0], f"{KEY[1]} AND {j(1, 'd.body', 'a.body')} AND {f(2, 'd.body')}"),
    q("filter, every pair", "docs d, aspects s", f"{f(1, 'd.body')} AND {j(2, 'd.body', 's.name')}"),
    q(
        "two joins",
        "docs d, aspects s, genres g",
        f"{j(1, 'd.body', 's.name')} AND {j(2, 'd.body', 'g.name')}",
    ),
)


class Sampling(Bench):
    """Runs statements as hinted, with a sample, and with true shares."""

    def run(self, sql: str, mode: str) -> tuple[int, bool, object]:
        """Fresh tokens, whether the plan was revised, and the rows."""
        statistics = StoredStatistics(self.cursor, self.library, left=60.0)
        if mode == "true":
            statistics = Known(self.cursor, self.library, left=60.0, truth=self.answers, texts=self.texts)
        options = replace(self.options, sampling=mode == "sampled")
        planned = planning.plan(sql, self.database, options, (), statistics)
        self.engine.answers = self.answers
        result = start(self.executor, planned, self.cursor, revise=partial(self._again, sql, statistics))
        found = fetch(result)
        sampled = result.sampled()
        return result.figures().fresh_tokens, sampled is not None and sampled.revised is not None, found

    def _again(
        self, sql: str, statistics: StoredStatistics, answers: Mapping[CallKey, Selectivity]
    ) -> Planned:
        known = statistics.within(self.cursor, answers)
        return planning.plan(sql, self.database, self.options, (), known)

    def sort(self) -> None:
        """Make the table `ordered`: that of the documents, by the answers to the first two questions."""
        table = self.cursor.sql("SELECT * FROM docs").to_arrow_table()
        encode = self.library.tokenizer.encode
        numbers = [text_number(np.array(encode(text), np.int32)) for text in table["body"].to_pylist()]
        keys = [self.answers.true(question, np.array(numbers, np.uint64)) for question in (2, 1)]
        self.cursor.register("sorted_docs", table.take(pa.array(np.lexsort(keys))))
        self.cursor.execute("CREATE OR REPLACE TABLE ordered AS SELECT * FROM sorted_docs")
        self.cursor.unregister("sorted_docs")


def measure(bench: Sampling, case: Case, seed: int, hints: int) -> Iterator[tuple[str, float, float]]:
    """A line for each set of hints, with the ratios of what was sampled, and of what was not, to the true plan."""
    for wrong, shares in list(WRONG.items())[:hints]:
        truths = {number: share for number, (share, _) in enumerate(shares, 1)}
        bench.answers = Answers(truths, seed, case.correlated)
        if case.sorted:
            bench.sort()
        sql = case.sql.format(*(f"{{'selectivity': {hint}}}" for _, hint in shares))
        runs = {mode: bench.run(sql, mode) for mode in ("hinted", "sampled", "true")}
        assert len({repr(rows) for _, _, rows in runs.values()}) == 1, f"{case.name}: other rows"
        hinted, sampled, true = (tokens for tokens, _, _ in runs.values())
        revised = "yes" if runs["sampled"][1] else "no"
        line = f"| {case.name} | {wrong} | {hinted:,} | {sampled:,} | {true:,} | {revised} "
        yield f"{line}| {hinted / true:.3f} | {sampled / true:.3f} |", hinted / true, sampled / true


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--hints", type=int, default=len(WRONG), help="how many of the sets of hints")
    arguments = parser.parse_args()
    ratios: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(None)
        database.cursor().execute(TABLES)
        library = TokenLibrary(Path(folder), byte_tokenizer(), database)
        bench = Sampling(database, library)
        print(
            "| shape | hints | hinted | sampled | true shares known | revised | hinted / true | sampled / true |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for seed, case in enumerate(CASES):
            if arguments.only in case.name:
                for line, without, with_ in measure(bench, case, seed, arguments.hints):
                    print(line, flush=True)
                    ratios.append((without, with_))
        library.close()
        database.close()
    for name, each in zip(("hinted", "sampled"), zip(*ratios, strict=True), strict=True):
        mean = math.exp(float(np.mean(np.log(each))))
        print(f"{name} over true shares: geometric mean {mean:.3f}, at most {max(each):.3f}")


if __name__ == "__main__":
    main()
