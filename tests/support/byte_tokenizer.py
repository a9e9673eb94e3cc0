"""A real Tokenizer with a vocabulary of bytes: one token a byte, control tokens, answer words."""

from __future__ import annotations

from covey_storage.tokenizer import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
WORDS = (
    "Yes",
    "No",
    "yes",
    "no",
    " Yes",
    " No",
    " yes",
    " no",
    "TRUE",
    "FALSE",
    "True",
    "False",
    " True",
    " False",
)


def byte_tokenizer() -> Tokenizer:
    """Tokenize every UTF-8 byte alone; CONTROL and WORDS are single tokens in template text."""
    pieces = [*sorted(ByteLevel.alphabet()), *CONTROL, *WORDS]
    added = [
        {
            "id": number,
            "content": piece,
            "special": piece in CONTROL,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for number, piece in enumerate(pieces)
        if piece in CONTROL or piece in WORDS
    ]
    spec = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {piece: n for n, piece in enumerate(pieces)}, "merges": []},
    }
    return Tokenizer(spec, None)
