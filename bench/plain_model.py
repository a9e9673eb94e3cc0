"""Prompts as token ids go in; margins by transformers, at its best batch size, and the tokens it computed come out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from covey_engine.prefill.api import YesNo
from covey_engine.prefill.readout import answer_tokens
from covey_engine.prefill.scheduling.compiled import compile_kernels
from covey_engine.prefill.scheduling.margins import MarginReader
from numpy.typing import NDArray
from torch.nn import functional
from transformers import DynamicCache

READOUT = YesNo((10576, 7197), (2459, 1781))
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


def full_prompts(model: Any, prompts: Ids, batch: int) -> tuple[Floats, int]:
    """Prompts [P, tokens] in full, the head on the last position only."""
    margins = np.empty(len(prompts), np.float32)
    with torch.inference_mode():
        for start in range(0, len(prompts), batch):
            rows = slice(start, start + batch)
            margins[rows] = _read(model(_tensor(prompts[rows]), use_cache=False, logits_to_keep=1).logits)
    return margins, prompts.size


def past_key_values(model: Any, anchors: Ids, partners: Ids, batch: int) -> tuple[Floats, int]:
    """All pairs [A * P]: each anchor once, its keys and values given to batches of partners."""
    margins = np.empty((len(anchors), len(partners)), np.float32)
    with torch.inference_mode():
        for index, anchor in enumerate(anchors):
            past = model(_tensor(anchor[None]), use_cache=True, logits_to_keep=1).past_key_values
            for start in range(0, len(partners), batch):
                rows = slice(start, start + batch)
                suffixes = _tensor(partners[rows])
                logits = model(suffixes, cache=_expanded(past, len(suffixes)), logits_to_keep=1).logits
                margins[index, rows] = _read(logits)
    return margins.reshape(-1), anchors.size + len(anchors) * partners.size


def fastest(run: Callable[[int], object], batches: tuple[int, ...]) -> int:
    """The batch size with the least seconds on a trial."""
    run(batches[0])
    seconds: dict[int, float] = dict.fromkeys(batches, np.inf)
    for batch in batches * 2:
        began = time.perf_counter()
        run(batch)
        seconds[batch] = min(seconds[batch], time.perf_counter() - began)
    return min(seconds, key=seconds.__getitem__)


class Linears:
    """The linear layers of a model alone, as plain calls of so many rows: what no runner of float32 goes below."""

    def __init__(self, config: Any, rows: int = 512) -> None:
        hidden, inner, size = config.hidden_size, config.intermediate_size, config.head_dim
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        shapes = {
            ((heads + 2 * kv_heads) * size, hidden): 1,
            (hidden, heads * size): 1,
            (inner, hidden): 2,
            (hidden, inner): 1,
        }
        self._rows = rows
        self._weights = [
            [(torch.randn(shape), count) for shape, count in shapes.items()]
            for _ in range(config.num_hidden_layers)
        ]
        self._inputs = {columns: torch.randn(rows, columns) for _, columns in shapes}

    def run(self, tokens: int) -> None:
        """As many products as that number of tokens needs."""
        with torch.inference_mode():
            for start in range(0, tokens, self._rows):
                rows = min(self._rows, tokens - start)
                for layer in self._weights:
                    for weight, count in layer:
                        for _ in range(count):
                            functional.linear(self._inputs[weight.shape[1]][:rows], weight)


def _expanded(past: Any, rows: int) -> DynamicCache:
    """One prompt's keys and values as those of `rows` prompts, without a copy."""
    cache = DynamicCache()
    for index, layer in enumerate(past.layers):
        cache.update(layer.keys, layer.values, index)
        own = cache.layers[index]
        own.keys, own.values = (x.expand(rows, -1, -1, -1) for x in (own.keys, own.values))
    return cache


def _tensor(ids: Ids) -> torch.Tensor:
    return torch.from_numpy(ids.astype(np.int64))


def _read(logits: torch.Tensor) -> Floats:
    compile_kernels()
    tokens = answer_tokens([READOUT])
    chosen = logits[:, -1, list(tokens)].numpy()
    return MarginReader(tokens).margins(chosen, READOUT, np.arange(len(chosen)))
