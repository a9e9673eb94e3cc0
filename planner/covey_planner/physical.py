"""The physical plan: what the operators execute, in order; SQL fragments for DuckDB and questions for the
model.

The general mechanism: each step evaluates questions over the *distinct* argument tuples that still matter (a
guarded domain query) and leaves an *answer table*; later domains and the final residual query join on the
answer tables.

Texts are identified by content: the key of a text is `unhex(md5(CAST(text AS VARCHAR)))`, a BLOB of 16 bytes;
a NULL text has a NULL key. Domain queries deliver keys, never texts, so that texts stay inside DuckDB and the
token column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MATCH = -2
"""Where a step's questions end with what is looked for: the condition that they decide is true."""


@dataclass(frozen=True)
class Text:
    """A prompt segment of fixed text, tokenized on its own (special tokens are recognized in it)."""

    text: str


@dataclass(frozen=True)
class AnchorText:
    """A prompt segment: the anchor's `argument`-th text, never interpreted."""

    argument: int = 0


@dataclass(frozen=True)
class PartnerText:
    """A prompt segment: the partner's `argument`-th text, never interpreted."""

    argument: int = 0


Segment = Text | AnchorText | PartnerText

Kind = Literal["boolean", "score", "label", "count"]
"""What an answer is: true or false, the probability of true, one of some labels, how many tokens a text has."""


@dataclass(frozen=True)
class Above:
    """Which probabilities of yes count as true: those above a bound, or (least) from it on."""

    bound: float
    least: bool = False

    def __str__(self) -> str:
        return f"{'>=' if self.least else '>'} {self.bound!r}"


@dataclass(frozen=True)
class TextArgument:
    """Where the texts of one argument come from.

    table, column: a stored column whose token column serves the texts; both None for a computed argument.
    texts: a query yielding (key BLOB, text VARCHAR) that covers every key of the domain; the operator filters
    it to the keys that no token column holds. expression: the argument as the user wrote it, for messages.
    """

    expression: str
    texts: str
    table: str | None = None
    column: str | None = None


@dataclass(frozen=True)
class CallKey:
    """A question as its answers are known by: the same in every statement that asks it of the same columns.

    question: its template with `{0}`, `{1}`, … for documents, of a label question with the labels. arguments: the
    stored columns as `table.column`, computed ones as SQL. label: one of the labels, where it counts as true that this
    is the answer (or one of several), of a yes/no question the bound above which it does.
    """

    question: str
    arguments: tuple[str, ...]
    kind: Kind = "boolean"
    label: str = ""


@dataclass(frozen=True)
class Odds:
    """The earlier answers on which it depends whether a row is still there; for estimates.

    kind: "ask", that an answer is true, with its key, the user's hint, and the relations that its anchor and partner
    are of; "open": it depends on answers in a way that is not known; else a combination of the parts.
    """

    kind: Literal["ask", "not", "all", "any", "open"]
    parts: tuple[Odds, ...] = ()
    key: CallKey | None = None
    hint: float | None = None
    anchors: frozenset[str] = frozenset()
    partners: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Given:
    """The rows behind a domain or behind pairs as they are before anything is answered; for estimates.

    rows: an AI-free query that yields the arguments as __covey_x0, __covey_x1, …; relations: those the arguments are
    of; odds: what has to be answered besides; without: answer tables whose tuples are left out; alike: a query with
    as many rows, the same one for all arguments of the same relations, "" where there is none.
    """

    rows: str
    relations: frozenset[str]
    odds: tuple[Odds, ...] = ()
    without: tuple[str, ...] = ()
    alike: str = ""

    @property
    def counted(self) -> str:
        """The query by which the rows are counted."""
        return self.alike or self.rows


@dataclass(frozen=True)
class Domain:
    """The distinct argument tuples of one side: sql yields key columns k0, k1, …, one per argument, none
    NULL, where ties of an order are asked as a whole, `o`, equal for those, and where rows decide what is asked of a
    tuple, `m`: bit n is set where the n-th condition holds for a row of it. given: for estimates, where they are
    wanted. once: of a domain with computed texts, the same tuples with the n-th text as t{n}; "" where it is read from
    a table that holds them.
    """

    sql: str
    arguments: tuple[TextArgument, ...]
    given: Given | None = None
    once: str = ""


@dataclass(frozen=True)
class Question:
    """One AI call site: its prompt after the shared prefix, and the answer table it fills.

    answers: name of the table to create, columns k0, k1, … (the anchor's keys, then the partner's) and
    `answer`: BOOLEAN, DOUBLE (the probability of yes), VARCHAR (one of the labels) or BIGINT by kind. keep: "true"
    stores only rows with a true answer (enough where NULL and false reject alike), "all" every row. on_true, on_false:
    index of the next question of the step, or -1, or MATCH; the questions of a step are all for labels or none is.
    on_null: the same where there is no answer; None: on_true where that asks more, else on_false.
    labels: of kind "label", each with the text by which the model says it, and `end`, the text after any of them.
    above: of kind "boolean", what is true instead of a yes that is more likely than a no; accepted: of kind "label",
    the labels that count as true, where `answer` is BOOLEAN for that.
    key, hint: what its answers are known by, and the share of true ones that the user expects.
    """

    call: str
    suffix: tuple[Segment, ...]
    answers: str
    keep: Literal["true", "all"] = "true"
    on_true: int = -1
    on_false: int = -1
    kind: Kind = "boolean"
    labels: tuple[tuple[str, str], ...] = ()
    end: str = ""
    key: CallKey | None = None
    hint: float | None = None
    above: Above | None = None
    accepted: tuple[str, ...] | None = None
    on_null: int | None = None

    @property
    def unanswered(self) -> int:
        """Where an item goes on that this question has no answer for."""
        if self.on_null is not None:
            return self.on_null
        return self.on_true if self.on_true >= 0 else self.on_false

    @property
    def is_condition(self) -> bool:
        """Whether its answers are true or false."""
        return self.kind == "boolean" or self.accepted is not None


@dataclass(frozen=True)
class Groups:
    """What depends on the matches of a step, group by group: a subquery's truth for rows of the SELECT around it.

    sql: a query yielding the keys of each item of a group (k0, k1, … of a filter; a0, a1, …, p0, p1, … of a step with
    `pairs`; a0, a1, … of anchors that meet every partner) and `g`, the group's name, a VARCHAR. needed: so many matches
    settle a group, whose other items need not be asked. ranked: it also yields `o`, an item's place in its group; then
    the first matches settle the group, all items before them being answered.

    enough: so many groups with those matches (`absent`: of which it is certain that they have fewer) end the step; then
    wanted: a query yielding every group that counts, `g`, and `o`, by which the first ones are wanted first where the
    step is `ordered`; table: gets the groups that are certain to be absent, as `g`; "" for none.
    """

    sql: str
    needed: int
    enough: int | None = None
    absent: bool = False
    wanted: str = ""
    table: str = ""
    ranked: bool = False


PairSide = Literal["anchor", "partner"]


@dataclass(frozen=True)
class PairOrder:
    """The order in which pairs are wanted where every pair is asked: by a key of one side, then of the other and so on.

    sides: whose keys those are; the domain of a side yields its own as whole numbers o0, o1, … ties: pairs of equal
    keys are asked as a whole.
    """

    sides: tuple[PairSide, ...]
    ties: bool = False


@dataclass(frozen=True)
class Prompts:
    """The segments of a step's prompts: what all begin with, and how each question goes on."""

    prefix: tuple[Segment, ...]
    suffixes: tuple[tuple[Segment, ...], ...]


@dataclass(frozen=True)
class AskStep:
    """Put questions to every anchor (filter), or to pairs of anchors and partners (join).

    prefix: the segments all questions begin with; none where the one question is of kind "count", which the tokenizer
    answers. pairs: a query yielding the anchor's keys a0, a1, … and the partner's keys p0, p1, … of the pairs that
    survived everything cheaper; None asks every pair of the two domains. exists: once `each` pairs match, the other
    pairs of their anchor need not be asked. enough: so many matches are needed, or as many as there are; None for all.
    chosen: whether the anchor is the side that it is by cost. before: temporary tables that the domains read, each with
    the query that fills it.
    ordered: anchors come in the order in which they are wanted, or (pair_order) pairs do; of those up to any point,
    `enough` matches end it.
    groups: what else may end it, part by part.
    other: the prompts from the other side, where no option pins the anchor and no early end goes by it. exchanged: the
    other side is the anchor now; the keys in the answer tables are the partner's and then the anchor's.
    entries: the question that an anchor is asked first, or -1, by the number in the column `m` of the anchors' domain;
    empty where there is no such column and question 0 is the first one. One question may stand there several times.
    """

    prefix: tuple[Segment, ...]
    questions: tuple[Question, ...]
    anchors: Domain
    partners: Domain | None = None
    pairs: str | None = None
    exists: bool = False
    enough: int | None = None
    pairs_given: Given | None = None
    chosen: bool = False
    before: tuple[tuple[str, str], ...] = ()
    ordered: bool = False
    each: int = 1
    groups: Groups | None = None
    other: Prompts | None = None
    exchanged: bool = False
    pair_order: PairOrder | None = None
    entries: tuple[int, ...] = ()


@dataclass(frozen=True)
class PhysicalPlan:
    """Steps in dependency order, then the residual query over tables and answer tables. No steps: ordinary
    SQL.
    """

    steps: tuple[AskStep, ...]
    residual: str
    profile: str = ""
