"""A reference executor for physical plans, and an oracle: plain DuckDB with AI calls as a function; shared by
tests.

The answer to a question is a hash of its words and its documents. The executor reads both from the prompt's
text, so a document in the wrong place of a prompt gives a wrong answer.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import duckdb
from covey_planner.cost.statistics import CallKey, Count, KeyOverlap, Selectivity, TokenCount
from covey_planner.physical import MATCH, AskStep, Domain, PhysicalPlan, Question
from covey_planner.plan import Planned, PlanOptions, plan
from covey_planner.profiles import FilterForm, JoinForm, PromptProfile, Words
from covey_planner.prompts import Prompt, Template, parse_template, question_text, render

_DOCUMENT = re.compile(r"<(\d)>(.*?)</>", re.DOTALL)
_Key = tuple[bytes, ...]
_QUESTION = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_WORDS = Words(label="1", label_numbered="{n}", the="document 1", the_numbered="document {n}")


def _profile(layout: str, form: str) -> PromptProfile:
    first = layout == "question_first"
    return PromptProfile(
        name=f"{layout} {form}",
        family="test",
        layout="question_first" if first else "document_first",
        yes=("yes",),
        no=("no",),
        words=_WORDS,
        filter=FilterForm(
            before="[[{question}]]" if first else "",
            document="<{label}>{text}</>",
            separator="",
            after="" if first else "[[{question}]]",
        ),
        join=JoinForm(
            form="short" if form == "short" else "full",
            before="[[{question}]]" if first else "",
            between="" if first else "[[{question}]]",
            open="<{label}>",
            close="</>",
        ),
    )


DOCUMENT_FIRST = _profile("document_first", "full")
QUESTION_FIRST = _profile("question_first", "full")
SHORT = _profile("document_first", "short")


class MemoryCatalog:
    """A catalog over a DuckDB connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
        ).fetchall()
        self._columns: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            self._columns.setdefault(table, {})[column] = kind

    def columns(self) -> dict[str, dict[str, str]]:
        return self._columns

    def describe(self, sql: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self.connection.execute(f"DESCRIBE {sql}").fetchall()]


def answer(question: str, documents: Sequence[str]) -> bool:
    """The fake model: about 45 % of its answers are true."""
    digest = hashlib.md5("\x1f".join([question, *documents]).encode()).digest()
    return digest[0] % 20 < 9


def install_oracle(connection: duckdb.DuckDBPyConnection) -> None:
    """AI_FILTER and PROMPT as macros over a function that answers like the fake model."""

    def oracle(parts: list[str | None]) -> bool | None:
        kind, text, *documents = parts
        known = [document for document in documents if document is not None]
        if len(known) < len(documents):
            return None
        assert text is not None
        template = parse_template(text, len(documents)) if kind == "T" else Template((f"{text}\n", 0))
        return answer(question_text(template, DOCUMENT_FIRST), known)

    connection.create_function("covey_oracle", oracle, ["VARCHAR[]"], "BOOLEAN", null_handling="special")
    forms = []
    for count in (1, 2, 3):
        names = ", ".join(f"a{n}" for n in range(count))
        casts = ", ".join(f"CAST(a{n} AS VARCHAR)" for n in range(count))
        forms.append(f"(t, {names}) AS ['T', t, {casts}]")
    connection.execute(f"CREATE MACRO prompt {', '.join(forms)}")
    connection.execute(
        "CREATE MACRO ai_filter (p) AS covey_oracle(p), (q, e) AS covey_oracle(['Q', q, CAST(e AS VARCHAR)])"
    )


@dataclass
class Reference:
    """Runs plans on a connection; asked: the prompts put to the fake model, in order.

    A step that may end early does so as soon as it may, its items being in an order that `seed` gives.
    """

    connection: duckdb.DuckDBPyConnection
    seed: int = 0
    asked: list[str] = field(default_factory=list)

    def run(self, physical: PhysicalPlan) -> tuple[list[str], list[tuple[object, ...]]]:
        """Names and rows of the result."""
        made: list[str] = []
        try:
            for step in physical.steps:
                made += [question.answers for question in step.questions]
                for table, query in step.before:
                    made.append(table)
                    self.connection.execute(f"CREATE TEMP TABLE {table} AS {query}")
                self._step(step, made)
            cursor = self.connection.execute(physical.residual)
            return [column[0] for column in cursor.description], cursor.fetchall()
        finally:
            for table in made:
                self.connection.execute(f"DROP TABLE IF EXISTS {table}")

    def _step(self, step: AskStep, made: list[str]) -> None:
        anchors, anchor_texts = self._domain(step.anchors)
        items = [(key, ()) for key in anchors]
        partner_texts: list[dict[bytes, str]] = []
        if step.partners is not None:
            partners, partner_texts = self._domain(step.partners)
            items = [(a, p) for a in anchors for p in partners]
            if step.pairs is not None:
                width = len(step.anchors.arguments)
                rows = self.connection.execute(step.pairs).fetchall()
                items = [(row[:width], row[width:]) for row in rows]
                assert len(set(items)) == len(items)
                assert {a for a, _ in items} <= set(anchors)
                assert {p for _, p in items} <= set(partners)
        answers: list[list[tuple[object, ...]]] = [[] for _ in step.questions]
        # As little as the step allows, in an order of its own.
        if not step.ordered:
            Random(self.seed).shuffle(items)
        matches: set[tuple[object, object]] = set()
        ties: dict[object, object] = (
            dict(self._ties(step.anchors)) if not (step.pair_order or step.entries) else {}
        )
        tie: object = -1
        if step.pair_order is not None:
            places = self._places(step)
            Random(self.seed).shuffle(items)
            items.sort(key=places.__getitem__)
            ties = places if step.pair_order.ties else {}
        entries = self._entries(step)
        for anchor, partner in items if step.groups is None else self._members(step, items, matches, made):
            mine: object = (anchor, partner) if step.pair_order is not None else anchor
            if self._over(step, anchor, matches) and ties.get(mine, -2) != tie:
                continue
            tie = ties.get(mine, -1)
            texts = [texts[key] for texts, key in zip(anchor_texts, anchor, strict=True)]
            others = [texts[key] for texts, key in zip(partner_texts, partner, strict=True)]
            at = entries[anchor] if step.entries else 0
            while at >= 0:
                question = step.questions[at]
                said = self._ask(step, question, texts, others)
                if said or question.keep == "all":
                    answers[at].append((*anchor, *partner, said))
                following = question.on_true if said else question.on_false
                assert following in (-1, MATCH) or following > at
                at = following
            if at == MATCH:
                matches.add((anchor, partner))
        for question, rows in zip(step.questions, answers, strict=True):
            self._store(question.answers, len(step.anchors.arguments) + len(partner_texts), rows)

    def _entries(self, step: AskStep) -> dict[object, int]:
        """The question that each anchor is asked first."""
        if not step.entries:
            return {}
        rows = self.connection.execute(step.anchors.sql).fetchall()
        return {tuple(keys): step.entries[mark] for *keys, mark in rows}

    def _over(self, step: AskStep, anchor: object, matches: set[tuple[object, object]]) -> bool:
        """Whether a pair of an anchor, or nothing at all, need not be asked any more."""
        found = Counter(anchor for anchor, _ in matches)
        settled = {key for key, count in found.items() if count >= step.each}
        if step.exists and anchor in settled:
            return True
        return step.enough is not None and len(settled if step.exists else matches) >= step.enough

    def _members(
        self,
        step: AskStep,
        items: list[tuple[_Key, _Key]],
        matches: set[tuple[object, object]],
        made: list[str],
    ) -> Iterator[tuple[_Key, _Key]]:
        """The items of one group after another, as far as they are needed."""
        groups = step.groups
        assert groups is not None
        width = len(step.anchors.arguments)
        own: dict[str, list[tuple[_Key, _Key]]] = {}
        apart = step.partners is not None and step.pairs is None
        members = self.connection.execute(groups.sql).fetchall()
        if groups.ranked:
            Random(self.seed).shuffle(members)
            members = [row[:-1] for row in sorted(members, key=lambda row: row[-1])]
        for *keys, name in members:
            anchor, partner = tuple(keys[:width]), tuple(keys[width:])
            met = [item for item in items if item[0] == anchor and (apart or item[1] == partner)]
            assert met or partner or not apart
            own.setdefault(name, []).extend(met)
        names = sorted(own)
        Random(self.seed).shuffle(names)
        if groups.wanted:
            rows = self.connection.execute(f"SELECT g FROM ({groups.wanted}) ORDER BY o").fetchall()
            names = [name for (name,) in rows]
            assert len(set(names)) == len(names)
        asked: set[tuple[_Key, _Key]] = set()
        wanted: list[str] = []
        for name in names:
            if len(wanted) == groups.enough:
                break
            mine = own.get(name, [])
            assert len(set(mine)) == len(mine), "an item is once in its group"
            if not groups.ranked:
                Random(self.seed + 1).shuffle(mine)
            for at, item in enumerate(mine):
                known = matches & set(mine[:at] if groups.ranked else mine)
                if len(known) < groups.needed and item not in asked:
                    asked.add(item)
                    yield item
            if (len(matches & set(mine)) < groups.needed) is groups.absent:
                wanted.append(name)
        if groups.table:
            made.append(groups.table)
            self.connection.execute(f"CREATE TEMP TABLE {groups.table} (g VARCHAR)")
            for name in wanted:
                self.connection.execute(f"INSERT INTO {groups.table} VALUES ('{name}')")

    def _ask(self, step: AskStep, question: Question, texts: Sequence[str], others: Sequence[str]) -> bool:
        prompt = render(Prompt(step.prefix, question.suffix), texts, others)
        self.asked.append(prompt)
        found = _QUESTION.search(prompt)
        assert found is not None
        documents = dict(_DOCUMENT.findall(prompt))
        assert sorted(documents) == [str(n + 1) for n in range(len(documents))]
        return answer(found[1], [documents[number] for number in sorted(documents)])

    def _domain(self, domain: Domain) -> tuple[list[tuple[bytes, ...]], list[dict[bytes, str]]]:
        keys = [row[: len(domain.arguments)] for row in self.connection.execute(domain.sql).fetchall()]
        assert len(set(keys)) == len(keys), "a domain's tuples are distinct"
        assert all(key is not None for row in keys for key in row), "no key of a domain is NULL"
        texts: list[dict[bytes, str]] = []
        for number, argument in enumerate(domain.arguments):
            rows = self.connection.execute(argument.texts).fetchall()
            found = dict(rows)
            assert len(found) == len(rows), "each key has one text"
            assert {row[number] for row in keys} <= set(found), "each key of the domain has a text"
            assert all(key == hashlib.md5(text.encode()).digest() for key, text in rows)
            if argument.table is not None:
                stored = self.connection.execute(
                    f'SELECT "{argument.column}" FROM "{argument.table}"'
                ).fetchall()
                assert set(found.values()) <= {row[0] for row in stored}
            texts.append(found)
        return keys, texts

    def _ties(self, domain: Domain) -> dict[tuple[bytes, ...], int]:
        """Which tuples come together in the order of a domain, where that matters."""
        rows = self.connection.execute(domain.sql).fetchall()
        width = len(domain.arguments)
        return {row[:width]: row[width] for row in rows if len(row) > width}

    def _places(self, step: AskStep) -> dict[object, tuple[int, ...]]:
        """The ranks of each pair, in the order of the keys."""
        assert step.pair_order is not None
        assert step.partners is not None
        assert step.ordered
        sides = {}
        for side, domain in (("anchor", step.anchors), ("partner", step.partners)):
            rows = self.connection.execute(domain.sql).fetchall()
            width = len(domain.arguments)
            sides[side] = {row[:width]: list(row[width:]) for row in rows}
            assert {len(ranks) for ranks in sides[side].values()} <= {step.pair_order.sides.count(side)}
        found: dict[object, tuple[int, ...]] = {}
        for anchor, ours in sides["anchor"].items():
            for partner, theirs in sides["partner"].items():
                left = {"anchor": iter(ours), "partner": iter(theirs)}
                found[anchor, partner] = tuple(next(left[side]) for side in step.pair_order.sides)
        return found

    def _store(self, table: str, keys: int, rows: Sequence[tuple[object, ...]]) -> None:
        columns = ", ".join([*(f"k{n} BLOB" for n in range(keys)), "answer BOOLEAN"])
        self.connection.execute(f"CREATE TEMP TABLE {table} ({columns})")
        if rows:
            marks = ", ".join("?" * (keys + 1))
            self.connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


@dataclass(frozen=True)
class Dice:
    """Statistics by chance, so that orders and anchors are; the same ones for the same questions and seed."""

    seed: int

    def _throw(self, *asked: object) -> Random:
        return Random(f"{self.seed} {asked}")

    def rows(self, table: str) -> Count:
        return Count(10.0 ** self._throw("rows", table).uniform(0, 5), exact=False)

    def distinct(self, table: str, column: str) -> Count:
        share = self._throw("distinct", table, column).choice([0.01, 0.5, 1.0])
        return Count(max(1.0, share * self.rows(table).value), exact=False)

    def tokens(self, table: str, column: str) -> TokenCount:
        rows, mean = self.rows(table).value, 10.0 ** self._throw("mean", table, column).uniform(0, 4)
        distinct = self.distinct(table, column).value
        return TokenCount(rows, distinct, rows * mean, distinct * mean, mean, exact=False)

    def overlap(self, left: tuple[str, str], right: tuple[str, str]) -> KeyOverlap:
        ours, theirs = self.distinct(*left).value, self.distinct(*right).value
        return KeyOverlap(ours, theirs, self._throw(left, right).random() * min(ours, theirs), exact=False)

    def matching(self, sql: str) -> Count:
        return Count(10.0 ** self._throw("matching", sql).uniform(0, 4), exact=False)

    def selectivity(self, key: CallKey, hint: float | None = None) -> Selectivity:
        return Selectivity(self._throw("share", key).choice([0.01, 0.2, 0.6, 0.95]), 0.0, 1.0, "remembered")


def words(text: str, special: bool) -> list[str]:
    """A stand-in for the model's tokens."""
    return text.split()


def run_both(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    profile: PromptProfile = DOCUMENT_FIRST,
    statistics: Dice | None = None,
) -> tuple[Planned, list[tuple[object, ...]], list[tuple[object, ...]], list[str]]:
    """The plan, the rows by the plan, the rows by the oracle, and the prompts asked."""
    planned = plan(sql, MemoryCatalog(connection), PlanOptions(profile, encode=words), (), statistics)
    reference = Reference(connection)
    names, rows = reference.run(planned.physical)
    assert names == [name for name, _ in planned.columns], (names, planned.columns)
    expected = connection.execute(re.sub(r"\bAI\.IF\b", "AI_FILTER", sql)).fetchall()
    return planned, rows, expected, reference.asked
