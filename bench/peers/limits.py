"""What each workload costs at least with a profile's prompts: prompt tokens, fresh tokens and attention pairs.

    python bench/peers/limits.py TOKENIZER [--profile qwen3_short] [--prompts-of own] [--scale 1.0]

TOKENIZER is a tokenizer.json. Fresh are the tokens left where everything that prompts begin with alike is computed
once: each trie node of the documents, each fixed piece after it, and a partner's text for every pair. A line of figures
goes to standard output for each workload.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from covey_planner.physical import PartnerText, Segment, Text
from covey_planner.profiles import PromptProfile, find_profile
from covey_planner.prompts import Prompt, filter_prompt, join_prompt, parse_template
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import workloads

ENDING, ACTING, CINEMA, FINISHED = (
    f"{question} {{0}}"
    for question in (
        "Does this review discuss the ending?",
        "Is the review positive about the acting?",
        "Was it seen in a cinema?",
        "Did the agent finish the task?",
    )
)
FILTERS = {
    "filter": ("reviews", (ENDING,)),
    "three_filters": ("reviews", (ENDING, ACTING, CINEMA)),
    "filter_chain": ("reviews", (ENDING, ACTING, CINEMA)),
    "traces": ("traces", (FINISHED,)),
}
JOINS = {
    "join_terms": ("Does the report {0} mention the reaction {1}?", ("reports", "terms"), 0),
    "join_claims": ("Is the claim {0} supported by the passage {1}?", ("claims", "evidence"), 1),
    "join_aspects": ("Does the review {0} discuss the aspect {1}?", ("reviews", "aspects"), 0),
}
"""The template, the tables of its arguments, and which argument is the anchor."""


@dataclass(frozen=True)
class Work:
    """Tokens of the prompts as if each were alone, tokens to compute, and query-key pairs."""

    prompt_tokens: int = 0
    fresh_tokens: int = 0
    pairs: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.prompt_tokens + other.prompt_tokens,
            self.fresh_tokens + other.fresh_tokens,
            self.pairs + other.pairs,
        )


class Counter:
    """Counts the tokens of texts; every text is tokenized on its own."""

    def __init__(self, tokenizer: Tokenizer, tables: dict[str, list[str]]) -> None:
        self._tokenizer = tokenizer
        self._tables = tables
        self._known: dict[str, list[list[int]]] = {}

    def table(self, name: str) -> list[list[int]]:
        """The tokens of a table's texts, sorted."""
        if name not in self._known:
            encoded = self._tokenizer.encode_batch(self._tables[name], add_special_tokens=False)
            self._known[name] = sorted(one.ids for one in encoded)
        return self._known[name]

    def lengths(self, name: str) -> np.ndarray:
        """How many tokens each of a table's texts has."""
        return np.array([len(tokens) for tokens in self.table(name)])

    def fixed(self, segments: Iterable[Segment]) -> int:
        """Tokens of the fixed text in these segments."""
        texts = [segment.text for segment in segments if isinstance(segment, Text)]
        return sum(len(self._tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)


def node_work(begin: np.ndarray, length: np.ndarray) -> tuple[int, int]:
    """Tokens and pairs of runs of tokens that begin at these positions of their prompts."""
    return int(length.sum()), int((length * begin + length * (length + 1) // 2).sum())


def alike(texts: Sequence[Sequence[int]]) -> np.ndarray:
    """How many tokens each of the sorted texts begins with as the one before it does."""
    counts = [0]
    for before, text in pairwise(texts):
        both = zip(before, text, strict=False)
        counts.append(next((n for n, (a, b) in enumerate(both) if a != b), min(len(before), len(text))))
    return np.array(counts)


def documents(counter: Counter, table: str, before: int) -> Work:
    """The documents of a table behind `before` tokens of fixed text, which all share."""
    shared, lengths = alike(counter.table(table)), counter.lengths(table)
    fresh, pairs = node_work(before + shared, lengths - shared)
    return Work(0, before + fresh, before * (before + 1) // 2 + pairs)


def split(prompt: Prompt, kind: type) -> tuple[list[Segment], list[Segment]]:
    """The segments before the last row's text of this kind, and after it."""
    segments = [*prompt.prefix, *prompt.suffix]
    place = max(n for n, segment in enumerate(segments) if isinstance(segment, kind))
    return segments[:place], segments[place + 1 :]


def filter_work(counter: Counter, table: str, prompts: Sequence[Prompt]) -> tuple[Work, list[Work]]:
    """The work of a table's documents, and that of each question put to all of them."""
    heads = [[s for s in prompt.prefix if isinstance(s, Text)] for prompt in prompts]
    document = documents(counter, table, counter.fixed(_before(prompts[0])))
    head, lengths = counter.fixed(heads[0]), counter.lengths(table)
    questions = []
    for prompt in prompts:
        tail = counter.fixed(prompt.suffix)
        fresh, pairs = node_work(head + lengths, np.full(len(lengths), tail))
        questions.append(Work(int((head + lengths).sum()) + fresh, fresh, pairs))
    turn = head - counter.fixed(_before(prompts[0]))
    # What stands between a document and its questions is computed once a document.
    fresh, pairs = node_work(head - turn + lengths, np.full(len(lengths), turn))
    return document + Work(0, fresh, pairs), questions


def _before(prompt: Prompt) -> list[Segment]:
    place = next(n for n, segment in enumerate(prompt.prefix) if not isinstance(segment, Text))
    return list(prompt.prefix[:place])


def join_work(counter: Counter, anchor: str, partner: str, prompt: Prompt) -> Work:
    """The work of all pairs: documents, the fixed text after each, and for every pair its partner and what follows."""
    before, tail = split(prompt, PartnerText)
    head = counter.fixed(_before(prompt))
    between = counter.fixed(before) - head
    anchors, partners = counter.lengths(anchor), counter.lengths(partner) + counter.fixed(tail)
    fixed = node_work(head + anchors, np.full(len(anchors), between))
    begin = np.repeat(head + anchors + between, len(partners))
    pair = node_work(begin, np.tile(partners, len(anchors)))
    return documents(counter, anchor, head) + Work(
        int(begin.sum()) + pair[0], fixed[0] + pair[0], fixed[1] + pair[1]
    )


def workload_lines(counter: Counter, profile: PromptProfile) -> Iterable[dict[str, object]]:
    """Of each workload its work: of filters the documents' and each question's."""
    for name, (table, questions) in FILTERS.items():
        prompts = [filter_prompt(parse_template(question, 1), profile) for question in questions]
        document, asked = filter_work(counter, table, prompts)
        yield {
            "workload": name,
            "rows": len(counter.table(table)),
            "documents": vars(document),
            "questions": [vars(work) for work in asked],
        }
    for name, (template, tables, anchor) in JOINS.items():
        prompt = join_prompt(parse_template(template, 2), profile, [anchor], [1 - anchor])
        work = join_work(counter, tables[anchor], tables[1 - anchor], prompt)
        yield {"workload": name, "rows": 0, "documents": vars(work), "questions": []}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--profile", default="qwen3_short", help="name or file of a prompt profile")
    parser.add_argument("--prompts-of", default="own")
    parser.add_argument("--scale", type=float, default=1.0)
    wished = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(wished.tokenizer))
    tables = workloads.tables(tokenizer, wished.scale)
    counter = Counter(tokenizer, {name: table["body"].to_pylist() for name, table in tables.items()})
    for line in workload_lines(counter, find_profile(wished.profile)):
        print("LIMIT", json.dumps({"prompts_of": wished.prompts_of, **line}), flush=True)


if __name__ == "__main__":
    main()
