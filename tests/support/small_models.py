"""Small random models, made and saved by transformers, whose own forward pass is the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.runner import Runner
from numpy.typing import NDArray
from support.hand_packing import HandPacker
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

VOCABULARY = 97
TOLERANCE = 1e-4
"""Largest deviation of a logit, as a part of the spread of the oracle's logits."""

_KINDS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
_SIZES: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 70,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    # Weights large enough that every key matters: a fault anywhere moves the logits visibly.
    "initializer_range": 0.2,
}


def make_model(
    folder: Path,
    architecture: str,
    *,
    seed: int = 0,
    shard: str = "1GB",
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> torch.nn.Module:
    """Save a random model in a folder; returns transformers' model of the same weights."""
    logging.disable_progress_bar()
    torch.manual_seed(seed)
    config_type, model_type = _KINDS[architecture]
    model = model_type(config_type(**{**_SIZES, **settings})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
            # Rounded to what will be stored, but kept in float32 as the oracle; buffers are not rounded.
            parameter.copy_(parameter.to(dtype))
    deepcopy(model).to(dtype).save_pretrained(folder, max_shard_size=shard)
    return model


def oracle_logits(model: torch.nn.Module, prompts: Sequence[tuple[int, ...]]) -> NDArray[np.float32]:
    """The next-token logits of every prompt, each computed alone and in full."""
    with torch.inference_mode():
        rows = [model(torch.tensor([prompt])).logits[0, -1].float().numpy() for prompt in prompts]
    return np.stack(rows)


def deviation(logits: NDArray[np.float32], oracle: NDArray[np.float32]) -> float:
    """The largest deviation of any logit, as a part of the spread of the oracle's logits."""
    return float(np.abs(logits - oracle).max() / oracle.std())


def random_tokens(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Token ids of the small vocabulary."""
    return rng.integers(0, VOCABULARY, count)


Packed = list[tuple[Chunk, list[tuple[int, ...]]]]


def run_all(runner: Runner, packed: Packed) -> NDArray[np.float32]:
    """The logits of all chunks' answers, one below the other."""
    return np.concatenate([runner.run(chunk) for chunk, _ in packed])


def fan_out(rng: np.random.Generator) -> Packed:
    """A shared head, an anchor, then in the next chunk many suffixes of equal and of ragged lengths."""
    packer = HandPacker(gap=3)
    head = packer.add(random_tokens(rng, 7))
    anchor = packer.add(random_tokens(rng, 37), head, after=True)
    other = packer.add(random_tokens(rng, 21), head)
    first = packer.chunk()
    for length in [5] * 12 + rng.integers(1, 14, 9).tolist():
        packer.add(random_tokens(rng, length), anchor, (-1,))
    for length in (4, 4, 4, 9, 1):
        packer.add(random_tokens(rng, length), other, (-1,))
    return [first, packer.chunk()]


def split_document(rng: np.random.Generator) -> Packed:
    """A document over three chunks, read in the middle, at its end and by two questions."""
    packer = HandPacker(gap=2)
    part = packer.add(random_tokens(rng, 80))
    packed = [packer.chunk()]
    part = packer.add(random_tokens(rng, 70), part, (10, -1), after=True)
    packed.append(packer.chunk())
    part = packer.add(random_tokens(rng, 33), part)
    for length in (11, 6):
        packer.add(random_tokens(rng, length), part, (-1,))
    packed.append(packer.chunk())
    return packed


def deep_paths(rng: np.random.Generator) -> Packed:
    """Documents with questions with answers' variants: four levels in one chunk, then more at every level."""
    packer = HandPacker()
    head = packer.add(random_tokens(rng, 9))
    documents = [packer.add(random_tokens(rng, length), head) for length in (66, 12, 12, 30)]
    questions = [
        packer.add(random_tokens(rng, 5 + i), d, (-1,)) for i, d in enumerate(documents) for _ in "ab"
    ]
    leaves = [packer.add(random_tokens(rng, 1 + i % 3), q, (-1,)) for i, q in enumerate(questions)]
    packed = [packer.chunk()]
    for parent in (head, documents[1], questions[3], leaves[2]):
        packer.add(random_tokens(rng, 6), parent, (0, 2, -1))
    packed.append(packer.chunk())
    return packed


def random_forest(rng: np.random.Generator) -> Packed:
    """Segments under random earlier ones, of random lengths, in chunks of random sizes."""
    packer = HandPacker(gap=int(rng.integers(0, 4)))
    packed: Packed = []
    grown: list[Any] = [None]
    for _ in range(int(rng.integers(2, 5))):
        for _ in range(int(rng.integers(1, 12))):
            length = int(rng.choice([1, 2, 3, 8, 8, 8, 20, 65, 90]))
            parent = grown[int(rng.integers(len(grown)))]
            answers = rng.integers(0, length, int(rng.integers(0, 3))).tolist()
            grown.append(packer.add(random_tokens(rng, length), parent, answers))
        packer.add(random_tokens(rng, 3), grown[-1], (-1,))
        packed.append(packer.chunk())
    return packed
