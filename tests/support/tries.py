"""Prompts in, the tokens of a trie of them out: the fewest that sharing can leave to compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def trie_tokens(texts: Iterable[Sequence[int]]) -> int:
    """Number of distinct beginnings of some texts, without the empty one."""
    root: dict[int, dict] = {}  # type: ignore[type-arg]
    count = 0
    for text in texts:
        node = root
        for token in text:
            if token not in node:
                count += 1
                node[token] = {}
            node = node[token]
    return count
