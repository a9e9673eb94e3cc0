"""A model's files in, texts to token ids out; never touches weights, tables or stored tokens.

Texts are of two kinds. *Template* text is ours: a control token written in it is one. *Document* text comes
from rows: nothing in it is ever a control token, `<|im_end|>` in an email is just these ten characters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from covey_storage.errors import NotFound, StorageError
from covey_storage.gguf_metadata import Value, read_metadata
from covey_storage.model_files import ModelFiles

Spec = dict[str, Any]
"""The content of a Hugging Face tokenizer.json."""

_CONTROL, _USER_DEFINED = 3, 4


class Tokenizer:
    """Encodes template and document text; every method may be called from any thread.

    fingerprint: 16 hex digits that differ wherever two tokenizers may differ; chat_template: the model's
    Jinja template, None where it has none.
    """

    def __init__(self, spec: Spec, chat_template: str | None) -> None:
        model = spec.get("model")
        kind = model.get("type") if isinstance(model, dict) else None
        if kind != "BPE":
            raise StorageError(f"a tokenizer of type {kind} is not supported, only BPE is")
        # Segments are encoded alone and concatenated: nothing may be cut, padded or put around them.
        spec = spec | {"truncation": None, "padding": None, "post_processor": None}
        self.fingerprint = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
        self.chat_template = chat_template
        self._template = tokenizers.Tokenizer.from_str(json.dumps(spec))
        self._document = tokenizers.Tokenizer.from_str(json.dumps(_without_added_tokens(spec)))

    def encode_batch(
        self, texts: Sequence[str], special: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Encode texts in parallel: offsets int64 [n + 1] into ids int32.

        special: the texts are template text, whose control tokens are recognized.
        """
        encoder = self._template if special else self._document
        ids = [encoding.ids for encoding in encoder.encode_batch_fast(list(texts), add_special_tokens=False)]
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum([len(row) for row in ids], out=offsets[1:])
        flat = np.empty(offsets[-1], np.int32)
        for row, begin, end in zip(ids, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            flat[begin:end] = row
        return offsets, flat

    def encode(self, text: str, special: bool = False) -> tuple[int, ...]:
        """Encode one text."""
        encoder = self._template if special else self._document
        return tuple(encoder.encode(text, add_special_tokens=False).ids)

    def token_id(self, piece: str) -> int | None:
        """The id of a piece of template text that is exactly one token, else None."""
        ids = self.encode(piece, special=True)
        return ids[0] if len(ids) == 1 else None


def load_tokenizer(files: ModelFiles) -> Tokenizer:
    """Load a model's tokenizer: tokenizer.json of a folder, or the vocabulary and merges of a GGUF file.

    Raises NotFound or StorageError, one line that names the file.
    """
    source = files.path if files.kind == "gguf" else files.path / "tokenizer.json"
    try:
        if files.kind == "gguf":
            metadata = read_metadata(source)
            template = metadata.get("tokenizer.chat_template")
            return Tokenizer(_gguf_spec(metadata), template if isinstance(template, str) else None)
        return Tokenizer(json.loads(source.read_text("utf-8")), _folder_chat_template(files.path))
    except FileNotFoundError:
        raise NotFound(f"no tokenizer in the model folder {files.path}: it has no tokenizer.json") from None
    except NotFound:
        raise
    except StorageError as error:
        raise StorageError(f"cannot read the tokenizer of {files.path}: {error}") from None
    except Exception as error:
        # `tokenizers` raises bare Exception where the content does not fit.
        raise StorageError(f"cannot read the tokenizer in {source}: {error}") from None


def _folder_chat_template(folder: Path) -> str | None:
    """The template of chat_template.jinja, else of tokenizer_config.json."""
    separate, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if separate.is_file():
        return separate.read_text("utf-8")
    template = json.loads(config.read_text("utf-8")).get("chat_template") if config.is_file() else None
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _without_added_tokens(spec: Spec) -> Spec:
    """The tokenizer for document text: no added token is looked for, and no merge leads to a special one."""
    special = {token["content"] for token in spec.get("added_tokens") or () if token.get("special")}
    model = dict(spec["model"])
    model["vocab"] = {piece: number for piece, number in model["vocab"].items() if piece not in special}
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
    model["merges"] = [
        (left, right)
        for left, right in pairs
        if left + right not in special and left not in special and right not in special
    ]
    return spec | {"model": model, "added_tokens": []}


# --- GGUF ---

# The patterns that the merges were learned with: part of each model's definition.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def _split(pattern: str) -> Spec:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _byte_level(use_regex: bool) -> Spec:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _pre_tokenizer(name: str) -> Spec:
    """How text is cut before merging, by GGUF's name for it (`tokenizer.ggml.pre`)."""
    match name:
        case "default" | "gpt-2":
            steps = [_byte_level(True)]
        case "smollm":
            steps = [{"type": "Digits", "individual_digits": True}, _byte_level(True)]
        case "qwen2":
            steps = [_split(_QWEN2), _byte_level(False)]
        case "llama-bpe" | "llama3" | "llama-v3":
            steps = [_split(_LLAMA3), _byte_level(False)]
        case _:
            raise StorageError(f"the pre-tokenizer {name!r} is not supported")
    return {"type": "Sequence", "pretokenizers": steps}


def _gguf_spec(metadata: Mapping[str, Value]) -> Spec:
    """What tokenizer.json would say for the vocabulary and the merges in a GGUF file's metadata."""
    kind, name = metadata.get("tokenizer.ggml.model"), str(metadata.get("tokenizer.ggml.pre", "default"))
    if kind != "gpt2":
        raise StorageError(f"a tokenizer of type {kind} is not supported, only byte-level BPE (gpt2) is")
    pieces, merges = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.merges")
    if not isinstance(pieces, list) or not isinstance(merges, list):
        raise StorageError("the file has no vocabulary or no merges")
    roles = metadata.get("tokenizer.ggml.token_type")
    roles = roles if isinstance(roles, list) else []
    added = [
        _added_token(number, str(piece), role == _CONTROL)
        for number, (piece, role) in enumerate(zip(pieces, roles, strict=False))
        if role in (_CONTROL, _USER_DEFINED)
    ]
    model = {
        "type": "BPE",
        "vocab": {piece: number for number, piece in enumerate(pieces)},
        "merges": [str(merge).split(" ", 1) for merge in merges],
        "ignore_merges": name.startswith("llama"),
    }
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if name == "qwen2" else None,
        "pre_tokenizer": _pre_tokenizer(name),
        "decoder": _byte_level(True),
        "model": model,
    }


def _added_token(number: int, content: str, special: bool) -> Spec:
    kept = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": content, "special": special, **kept}
