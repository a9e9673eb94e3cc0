"""A tokenizer.json small enough to compute by hand."""

from __future__ import annotations

from typing import Any

from tokenizers import pre_tokenizers


def byte_spec() -> dict[str, Any]:
    """A tokenizer.json whose tokens are the 256 bytes, one merge, and two added tokens."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    kept = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": 257, "content": "<|end|>", "special": True, **kept},
            {"id": 258, "content": "<think>", "special": False, **kept},
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {piece: number for number, piece in enumerate(pieces)},
            "merges": [["a", "b"]],
        },
    }
