"""Tokens that live as long as a query: computed and shortened texts; nothing is made until one is needed."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np
from covey_storage.keys import KEY
from covey_storage.library import ScratchColumn, TokenLibrary
from covey_storage.tokens import TokenColumn, TokenColumnWriter
from numpy.typing import NDArray

from covey_engine.prefill import api


class Scratch:
    """The scratch token columns of one query; leaving the context removes them."""

    def __init__(self, library: TokenLibrary, query_id: str) -> None:
        self._library = library
        self._query_id = query_id
        self._made: ScratchColumn | None = None
        self._shortened = 0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            self._made.close()

    @property
    def column(self) -> TokenColumn:
        """The column of computed texts as it is now."""
        return self._scratch().column

    def add(self, keys: NDArray[np.void], texts: Sequence[str]) -> None:
        """Tokenize computed texts that are not yet there."""
        self._scratch().add(keys, texts)

    def shortened(self, argument: api.Argument, lengths: NDArray[np.int64]) -> api.Argument:
        """The argument with each row's text cut to so many tokens; its column holds these rows alone."""
        source = TokenColumn(argument.column)
        rows = [source.tokens(slot)[:length] for slot, length in zip(argument.slots, lengths, strict=True)]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Nobody looks these rows up by key: any distinct keys serve.
        keys = np.zeros((len(rows), 2), dtype=np.int64)
        keys[:, 0] = np.arange(len(rows))
        folder = self._scratch().folder / f"shortened-{self._shortened}"
        self._shortened += 1
        writer = TokenColumnWriter(folder, durable=False)
        writer.append(keys.view(KEY).ravel(), offsets, np.concatenate(rows))
        return api.Argument(str(folder), np.arange(len(rows), dtype=np.int32))

    def _scratch(self) -> ScratchColumn:
        if self._made is None:
            self._made = self._library.scratch(self._query_id)
        return self._made
