"""What tests of token columns share: a tokenizer that counts, a table, and what a column must hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from covey_storage.keys import text_keys
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from covey_storage.tokens import TokenColumn
from numpy.typing import NDArray

TEXTS = "CREATE TABLE t AS SELECT range AS id, 'text ' || range % 3000 AS a FROM range(7000)"


class Counting(Tokenizer):
    """Counts the texts that it is asked for."""

    texts = 0

    def encode_batch(
        self, texts: Sequence[str], special: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        self.texts += len(texts)
        return super().encode_batch(texts, special)


def check(library: TokenLibrary, column: TokenColumn, texts: list[str]) -> None:
    slots = column.find(text_keys(texts))
    assert (slots >= 0).all()
    for slot, text in zip(slots, texts, strict=True):
        assert tuple(column.tokens(int(slot)).tolist()) == library.tokenizer.encode(text)
