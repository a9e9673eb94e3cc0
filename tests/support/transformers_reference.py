"""Margins of whole prompts by transformers, same weights, float32: what the engine is compared with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from covey_engine.prefill import api
from covey_planner.physical import AskStep
from covey_storage.tokens import TokenColumn
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM
from transformers.utils import logging

Prompt = tuple[int, ...]


class Recorder:
    """An observer of a query: the margin of every prompt that was asked, by its exact tokens."""

    def __init__(self) -> None:
        self.margins: dict[Prompt, float] = {}

    def __call__(self, step: AskStep, order: api.WorkOrder, answers: api.Answers) -> None:
        for item, margin in zip(answers.items.tolist(), answers.margins.tolist(), strict=True):
            self.margins[prompt_tokens(order, answers.ask, item)] = margin


def prompt_tokens(order: api.WorkOrder, ask: int, item: int) -> Prompt:
    """The tokens of the prompt that an item stands for."""
    anchor, partner = item, 0
    if order.partners and order.pairs is None:
        anchor, partner = divmod(item, order.partner_count)
    elif order.pairs is not None:
        anchor = int(np.searchsorted(order.pairs.offsets, item, "right")) - 1
        partner = int(order.pairs.indices[item])
    tokens: list[int] = []
    for part in (*order.prefix, *order.asks[ask].suffix):
        match part:
            case api.Literal(fixed):
                tokens += fixed
            case api.Anchor(argument):
                tokens += _text(order.anchors[argument], anchor)
            case api.Partner(argument):
                tokens += _text(order.partners[argument], partner)
    return tuple(tokens)


def _text(argument: api.Argument, row: int) -> list[int]:
    return TokenColumn(argument.column).tokens(int(argument.slots[row])).tolist()


def reference_scores(model: Any, prompts: Sequence[Prompt], labels: Sequence[Prompt]) -> NDArray[np.float64]:
    """The summed log-probabilities of each label's tokens after each prompt, each whole text computed alone."""
    scores = np.empty((len(prompts), len(labels)))
    for row, prompt in enumerate(prompts):
        for column, label in enumerate(labels):
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + label]), logits_to_keep=len(label) + 1).logits[0, :-1]
                steps = logits.double().log_softmax(1)[torch.arange(len(label)), torch.tensor(label)]
            scores[row, column] = float(steps.sum())
    return scores


def load(gguf: Path) -> Any:
    """The model of a GGUF file, float32, on the CPU.

    transformers takes minutes to read a GGUF, so its conversion is kept beside the file.
    """
    logging.disable_progress_bar()
    kept = gguf.parent / f"{gguf.stem}-transformers-float32"
    if not kept.is_dir():
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # The weights are plain float32 now; what is left of the GGUF would forbid saving them.
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        unfinished = kept.with_name(f"{kept.name}.{os.getpid()}")
        model.save_pretrained(unfinished)
        unfinished.rename(kept)
    return AutoModelForCausalLM.from_pretrained(kept, dtype=torch.float32).eval()


def reference_margins(
    model: Any, prompts: Sequence[Prompt], readout: api.YesNo, batch: int = 8
) -> NDArray[np.float64]:
    """The margin of each prompt, computed whole, in padded batches of nearly equal lengths."""
    margins = np.empty(len(prompts))
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        longest = max(len(prompts[index]) for index in chosen)
        ids = torch.tensor([[*prompts[i], *[0] * (longest - len(prompts[i]))] for i in chosen])
        mask = torch.tensor([[1] * len(prompts[i]) + [0] * (longest - len(prompts[i])) for i in chosen])
        with torch.inference_mode():
            hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
            last = hidden[torch.arange(len(chosen)), torch.tensor([len(prompts[i]) - 1 for i in chosen])]
            logits = model.lm_head(last).double()
            yes, no = (logits[:, list(tokens)].logsumexp(1) for tokens in (readout.yes, readout.no))
        margins[chosen] = (yes - no).numpy()
    return margins
