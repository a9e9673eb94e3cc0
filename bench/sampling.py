"""Tokens computed where hints are wrong by ten times, or remembered shares out of date, with a sample asked first,
against plans that keep these and plans that know how often each question is true: counted by the real scheduler, no
model.

    python bench/sampling.py [--only NAME] [--hints 8] [--from 0] [--stale 4]

Answers are drawn at random, in some cases correlated, or from a table that is sorted by them, and stay the same
whatever the order is.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
from covey_server.remembered import Remembered
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
    "opposite ways": ((0.05, 0.5), (0.9, 0.09), (0.02, 0.2)),
    "all too low": ((0.5, 0.05), (0.9, 0.09), (0.2, 0.02)),
    "all too high": ((0.05, 0.5), (0.02, 0.2), (0.09, 0.9)),
    "last ones only": ((0.3, 0.3), (0.9, 0.09), (0.05, 0.5)),
}
"""Of each question how often it is true, and the hint, or how often it was true before all texts were changed."""
CHANGES = {
    "UPDATE": ("UPDATE docs SET body = reverse(body)", "UPDATE authors SET body = reverse(body)"),
    "INSERT": (
        "INSERT INTO docs SELECT id + 10000, reverse(body), author FROM docs WHERE id % 4 = 0",
        "INSERT INTO authors SELECT id + 10000, reverse(body) FROM authors WHERE id % 4 = 0",
    ),
}
"""Statements that make remembered shares out of date: after an INSERT the old texts count, too."""
SCHEMA = frozenset({"docs", "authors", "aspects", "genres", "ordered"})


MODES = ("hinted", "sampled", "true")
Ratios = tuple[str, float, float]
"""A line of the table, and the ratios of its first two counts to the third."""


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

    def learned(self, sql: str) -> Remembered:
        """What a statement leaves in a server's memory."""
        remembered = Remembered()
        planned = planning.plan(
            sql, self.database, self.options, (), StoredStatistics(self.cursor, self.library)
        )
        self.engine.answers = self.answers
        fetch(start(self.executor, planned, self.cursor, learn=partial(remembered.note, since=0)))
        return remembered

    def run(self, sql: str, mode: str, known: Mapping[CallKey, Selectivity]) -> tuple[int, bool, object]:
        """Fresh tokens, whether the plan was revised, and the rows. known: what is remembered."""
        statistics = StoredStatistics(self.cursor, self.library, left=60.0, answers=known)
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


def hinted(bench: Sampling, case: Case, seed: int, wrong: str) -> Ratios:
    """A line for a set of hints, with the ratios of what was sampled, and of what was not, to the true plan."""
    shares = WRONG[wrong]
    bench.answers = _answers([share for share, _ in shares], seed, case)
    if case.sorted:
        bench.sort()
    sql = case.sql.format(*(f"{{'selectivity': {hint}}}" for _, hint in shares))
    return _compared(bench, f"| {case.name} | {wrong}", sql, {}, {})


def stale(bench: Sampling, case: Case, seed: int, wrong: str) -> Iterator[Ratios]:
    """A line for each way to change the texts once their shares are remembered; those are forgotten then."""
    sql = re.sub(r", \{\d\}\)", ")", case.sql).format()
    old, new = zip(*((hint, share) for share, hint in WRONG[wrong]), strict=True)
    for change, statements in CHANGES.items():
        cursor = bench.database.cursor()
        cursor.execute("CREATE TABLE docs_before AS FROM docs; CREATE TABLE authors_before AS FROM authors")
        bench.answers = _answers(old, seed, case)
        remembered = bench.learned(sql)
        kept = _known(remembered)
        for statement in statements:
            cursor.execute(statement)
        remembered.forget(frozenset({"docs", "authors"}), SCHEMA)
        bench.texts.clear()
        bench.answers = _answers(new, seed, case)
        yield _compared(bench, f"| {case.name} | {wrong}, {change}", sql, kept, _known(remembered))
        for name in ("docs", "authors"):
            cursor.execute(f"CREATE OR REPLACE TABLE {name} AS FROM {name}_before; DROP TABLE {name}_before")
        bench.texts.clear()


def _known(remembered: Remembered) -> dict[CallKey, Selectivity]:
    """The shares of which enough is remembered."""
    found = ((key, remembered.get(key)) for key in remembered)
    return {key: share for key, share in found if share is not None}


def _answers(shares: Sequence[float], seed: int, case: Case) -> Answers:
    return Answers(dict(enumerate(shares, 1)), seed, case.correlated)


def _compared(
    bench: Sampling,
    name: str,
    sql: str,
    kept: Mapping[CallKey, Selectivity],
    known: Mapping[CallKey, Selectivity],
) -> Ratios:
    """kept: what the plan without a sample goes by; known: what the one with a sample does."""
    runs = {mode: bench.run(sql, mode, kept if mode == "hinted" else known) for mode in MODES}
    assert len({repr(rows) for _, _, rows in runs.values()}) == 1, f"{name}: other rows"
    without, sampled, true = (tokens for tokens, _, _ in runs.values())
    revised = "yes" if runs["sampled"][1] else "no"
    line = f"{name} | {without:,} | {sampled:,} | {true:,} | {revised} "
    return f"{line}| {without / true:.3f} | {sampled / true:.3f} |", without / true, sampled / true


def _measured(bench: Sampling, case: Case, seed: int, arguments: argparse.Namespace) -> Iterator[Ratios]:
    for wrong in list(WRONG)[arguments.first : arguments.hints]:
        yield hinted(bench, case, seed, wrong)
    for wrong in list(WRONG)[: 0 if case.sorted else arguments.stale]:
        yield from stale(bench, case, seed, wrong)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--hints", type=int, default=len(WRONG), help="how many of the sets of hints")
    parser.add_argument("--from", type=int, default=0, dest="first", help="how many of them are left out")
    parser.add_argument("--stale", type=int, default=0, help="how many sets of shares go out of date")
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
                for line, without, with_ in _measured(bench, case, seed, arguments):
                    print(line, flush=True)
                    ratios.append((without, with_))
        library.close()
        database.close()
    for name, each in zip(("hinted", "sampled"), zip(*ratios, strict=True), strict=True):
        mean = math.exp(float(np.mean(np.log(each))))
        print(f"{name} over true shares: geometric mean {mean:.3f}, at most {max(each):.3f}")


if __name__ == "__main__":
    main()
