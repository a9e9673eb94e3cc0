"""Seeds go in, token lists of which many begin alike come out: traces, forms, and anything in between."""

from __future__ import annotations

from random import Random


def family(random: Random, count: int, vocabulary: int = 3, longest: int = 40) -> list[list[int]]:
    """Texts with common beginnings: empty ones, duplicates, beginnings of others, long ones in common."""
    texts: list[list[int]] = []
    for _ in range(count):
        base = random.choice(texts) if texts and random.random() < 0.8 else []
        base = base[: random.randint(0, len(base))] if random.random() < 0.4 else base
        more = random.choice((0, 0, 1, 2, 5, longest))
        texts.append(base + [random.randrange(vocabulary) for _ in range(random.randint(0, more))])
    return texts


def traces(random: Random, count: int, turns: int, tokens: int) -> list[list[int]]:
    """Agent traces: the text of each turn is the beginning of the next one's."""
    texts = []
    for _ in range(count):
        text: list[int] = []
        for _ in range(turns):
            text = text + [random.randrange(50_000) for _ in range(tokens)]
            texts.append(text)
    return texts
