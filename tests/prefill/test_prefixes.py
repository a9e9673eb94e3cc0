"""Texts cut at what they begin with alike: against a trie of tokens, and against the rule written out."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from covey_engine.prefill.scheduling.pieces import Pieces
from covey_engine.prefill.scheduling.prefixes import EVERYTHING, Cut, Rule, cut_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from support.families import family, traces
from support.memory_column import MemoryColumn
from support.tries import trie_tokens

Text = list[int]


def cut(texts: list[Text], rule: Rule) -> Cut | None:
    column = MemoryColumn(texts)
    return cut_texts(column.order.slots, column.order.common, column.lengths, rule)


def pieces_of(cut: Cut, texts: list[Text]) -> list[list[tuple[int, Text]]]:
    """Each text's pieces: name and tokens."""
    found = []
    for slot, text in enumerate(texts):
        at, mine = 0, []
        for names, ends in zip(cut.names, cut.ends, strict=True):
            if names[slot] >= 0:
                assert at < ends[slot]
                mine.append((int(names[slot]), text[at : ends[slot]]))
                at = int(ends[slot])
            else:
                assert ends[slot] == len(text)
        assert at == len(text)
        found.append(mine)
    return found


def computed(cut: Cut, texts: list[Text]) -> int:
    """Tokens of all pieces, each computed once below the same ones; asserts that names say what tokens are."""
    known: dict[tuple[int, ...], Text] = {}
    for mine in pieces_of(cut, texts):
        for n in range(len(mine)):
            chain = tuple(name for name, _ in mine[: n + 1])
            assert known.setdefault(chain, mine[n][1]) == mine[n][1]
    return sum(map(len, known.values()))


texts_alike = st.builds(
    lambda seed, count, vocabulary: family(Random(seed), count, vocabulary),
    st.integers(0, 1 << 32),
    st.integers(0, 40),
    st.integers(1, 3),
)


@settings(max_examples=300, deadline=None)
@given(texts_alike)
def test_without_costs_the_pieces_are_the_trie_of_the_tokens(texts: list[Text]) -> None:
    found = cut(texts, EVERYTHING)
    distinct = trie_tokens(texts)
    if found is None:
        assert distinct == sum(map(len, texts))
        return
    assert computed(found, texts) == distinct
    chains = list(zip(*(names.tolist() for names in found.names), strict=True))
    places = {chain: place for place, chain in enumerate(sorted(set(chains)))}
    assert found.ranks.tolist() == [places[chain] for chain in chains]


class Node:
    """A node of the prefix tree, by the rule as it is written."""

    def __init__(self, texts: list[Text], above: int) -> None:
        self.texts = len(texts)
        shared = [list(t) for t in texts]
        end = above
        while all(len(t) > end for t in shared) and len({t[end] for t in shared}) == 1:
            end += 1
        self.end, self.own = end, end - above
        groups: dict[int, list[Text]] = {}
        for text in texts:
            if len(text) > end:
                groups.setdefault(text[end], []).append(text)
        leaves = [group[0] for group in groups.values() if len(group) == 1]
        self.branches = float(len(leaves) + sum(len(text) == end for text in texts))
        self.rows = float(sum(len(text) - end for text in leaves))
        self.children = [Node(group, end) for group in groups.values() if len(group) > 1]

    def settle(self, rule: Rule) -> int:
        """Decide from the deepest on; tokens to compute below, with this node's own where it is kept."""
        below = sum(child.settle(rule) for child in self.children) + self.rows
        for child in self.children:
            self.branches += 1 if child.kept else child.branches
        gain = self.own * (self.branches - 1) - rule.node - rule.branch * self.branches
        gain -= rule.row * (below + rule.suffix * self.texts)
        self.kept = self.own > 0 and gain > 0
        return int(below + self.own * (1 if self.kept else self.branches))


def best(texts: list[Text], rule: Rule) -> int:
    root = Node(texts, 0)
    # The prompts' own beginning is not the texts': it costs nothing and is always there.
    if root.own:
        return root.settle(rule)
    tokens = sum(child.settle(rule) for child in root.children)
    return int(tokens + root.rows)


@settings(max_examples=300, deadline=None)
@given(
    texts_alike,
    st.sampled_from(
        [
            Rule(*costs, depth=1 << 20)
            for costs in ((3, 0, 1 / 64, 2, 0), (1, 0, 0, 0, 0), (0, 0, 1 / 4, 1, 0))
        ]
    ),
)
def test_beginnings_are_shared_where_the_rule_says_that_it_pays(texts: list[Text], rule: Rule) -> None:
    found = cut(texts, rule)
    expected = best(texts, rule) if len(texts) > 1 else sum(map(len, texts))
    assert (sum(map(len, texts)) if found is None else computed(found, texts)) == expected


@pytest.mark.parametrize("depth", [1, 2, 5, 16])
def test_where_beginnings_nest_deeply_those_that_save_most_are_kept(depth: int) -> None:
    texts = traces(Random(1), 3, 40, 50)
    found = cut(texts, Rule(depth=depth))
    assert found is not None
    assert depth / 2 < len(found.names) - 1 <= depth
    # Turns cut at even distances leave about half a distance of each turn to compute.
    ideal = 3 * 40 * (40 / (depth + 1) / 2 * 50)
    assert computed(found, texts) <= 1.8 * (ideal + 3 * 40 * 50)


def test_traces_share_every_turn() -> None:
    texts = traces(Random(2), 10, 8, 120)
    found = cut(texts, Rule())
    assert found is not None
    assert computed(found, texts) == trie_tokens(texts) == 10 * 8 * 120


def test_a_form_is_shared_and_what_few_texts_share_by_chance_is_not() -> None:
    random = Random(3)
    form = [random.randrange(1000) for _ in range(60)]
    texts = [form + [random.randrange(4) for _ in range(300)] for _ in range(50)]
    found = cut(texts, Rule())
    assert found is not None
    assert len(found.names) == 2
    assert {int(end) for end in found.ends[0]} == {60}


def test_a_level_must_save_something_for_all_texts_of_a_column() -> None:
    random = Random(4)
    twins = [[7] * 40 + [n] for n in range(2)]
    others = [[100 + n] + [random.randrange(50) for _ in range(300)] for n in range(400)]
    assert cut(twins + others[:20], Rule(row=0)) is not None
    assert cut(twins + others, Rule(row=0)) is None
    assert cut(twins + others, Rule(row=0, level=0)) is not None


@pytest.mark.parametrize("texts", [[], [[1, 2, 3]], [[], []], [[1], [2], [3]]])
def test_nothing_to_share(texts: list[Text]) -> None:
    assert cut(texts, EVERYTHING) is None


def test_windows_are_the_pieces() -> None:
    texts = family(Random(5), 30)
    column = MemoryColumn(texts)
    pieces, count = Pieces.of("folder", column, replace(EVERYTHING, depth=3))
    assert count == 30
    assert pieces is not None
    assert len(set(pieces.folders)) == len(pieces.windows) == len(pieces.heads)
    for slot, text in enumerate(texts):
        whole: Text = []
        for window, head, names in zip(pieces.windows, pieces.heads, pieces.cut.names, strict=True):
            name = int(names[slot])
            if name >= 0:
                part = window.tokens(name).tolist()
                (begin, values) = next(
                    (begins[name - first], values)
                    for first, begins, values in window.stretches
                    if first <= name < first + len(begins)
                )
                assert values[begin : begin + len(part)].tolist() == part
                assert window.lengths[name] == len(part) > 0
                whole += part
            assert head.lengths[slot] == len(whole)
            assert head.tokens(slot).tolist() == whole
        assert whole == text
