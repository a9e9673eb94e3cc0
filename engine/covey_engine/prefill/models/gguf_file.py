"""A GGUF file goes in, its header and its tensors (float32, Hugging Face names and layout) come out.

The tokenizer's string arrays are stepped over, not decoded: reading the header takes milliseconds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from covey_engine.prefill.errors import ModelError
from covey_engine.prefill.models.shape import ModelShape, shape_from_gguf

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@dataclass(frozen=True)
class _Entry:
    """One tensor: its dimensions, outermost first, its quantization and its place in the file."""

    dimensions: tuple[int, ...]
    kind: gguf.GGMLQuantizationType
    offset: int


class GgufFile:
    """Tensors of a GGUF file (version 2 or 3) under Hugging Face names. Raises ModelError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = np.memmap(path, np.uint8, "r")
        try:
            self.fields, self._entries = _read_header(self._data)
        except (struct.error, UnicodeDecodeError, KeyError, ValueError) as error:
            raise ModelError(f"{path}: not a readable GGUF file ({error})") from error
        self.shape = self._shape()

    def names(self) -> frozenset[str]:
        """Tensor names as the file spells them."""
        return frozenset(self._entries)

    def tensor(self, name: str) -> Tensor | None:
        """Float32 tensor of a Hugging Face name, rows in Hugging Face order; None where absent."""
        entry = self._entries.get(_gguf_name(name))
        if entry is None:
            return None
        values = self._dequantize(entry)
        rows = {"q_proj.weight": self.shape.heads, "k_proj.weight": self.shape.kv_heads}
        heads = rows.get(name.rpartition("self_attn.")[2])
        if self.shape.architecture == "llama" and heads is not None:
            # Llama files hold rotary pairs side by side: (head, pair, 2) back to (head, 2, pair).
            values = values.view(heads, -1, 2, *values.shape[1:]).transpose(1, 2).reshape(values.shape)
        return values

    def _shape(self) -> ModelShape:
        embedding = self._entries.get("token_embd.weight")
        if embedding is None:
            raise ModelError(f"{self.path}: tensor 'token_embd.weight' is missing")
        factors = self._entries.get("rope_freqs.weight")
        return shape_from_gguf(
            self.fields,
            vocabulary=embedding.dimensions[0],
            factors=None if factors is None else self._dequantize(factors),
            tied="output.weight" not in self._entries,
        )

    def _dequantize(self, entry: _Entry) -> Tensor:
        block, size = gguf.GGML_QUANT_SIZES[entry.kind]
        elements = prod(entry.dimensions)
        raw = self._data[entry.offset : entry.offset + elements // block * size]
        if len(raw) < elements // block * size:
            raise ModelError(f"{self.path}: the file is cut short")
        rows = raw.reshape(*entry.dimensions[:-1], -1)
        match entry.kind:
            case gguf.GGMLQuantizationType.Q4_1:
                values = _dequantize_q4_1(raw)
            case gguf.GGMLQuantizationType.Q8_0:
                values = _dequantize_q8_0(raw)
            case _:
                values = torch.from_numpy(np.array(gguf.quants.dequantize(rows, entry.kind), np.float32))
        return values.reshape(entry.dimensions)


def _gguf_name(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    module, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{_LAYER_NAMES[module]}.{kind}"


def _dequantize_q4_1(raw: NDArray[np.uint8]) -> Tensor:
    # Blocks of 32 values: scale and minimum (float16), then 16 bytes; low nibbles are the first 16 values.
    blocks = torch.from_numpy(raw.reshape(-1, 20).copy())
    scales = blocks[:, :4].contiguous().view(torch.float16).float()
    packed = blocks[:, 4:]
    values = torch.empty(len(blocks), 32)
    values[:, :16] = packed & 15
    values[:, 16:] = packed >> 4
    return values.mul_(scales[:, :1]).add_(scales[:, 1:])


def _dequantize_q8_0(raw: NDArray[np.uint8]) -> Tensor:
    # Blocks of 32 values: scale (float16), then 32 signed bytes.
    blocks = torch.from_numpy(raw.reshape(-1, 34).copy())
    scales = blocks[:, :2].contiguous().view(torch.float16).float()
    return blocks[:, 2:].view(torch.int8).float().mul_(scales)


class _Cursor:
    """Reads little-endian values one after another."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._buffer = data.data
        self.position = 0

    def scalar(self, code: str) -> int | float | bool:
        (value,) = struct.unpack_from("<" + code, self._buffer, self.position)
        self.position += struct.calcsize("<" + code)
        return value  # type: ignore[no-any-return]

    def count(self, code: str = "Q") -> int:
        return int(self.scalar(code))

    def string(self) -> str:
        length = self.count()
        start, self.position = self.position, self.position + length
        return bytes(self._buffer[start : self.position]).decode()

    def value(self, kind: int) -> object:
        """The value, or None for an array: no array says anything about the model's shape."""
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        item, length = self.count("I"), self.count()
        if item == _STRING:
            self._skip_strings(length)
        else:
            self.position += length * struct.calcsize("<" + _SCALARS[item])
        return None

    def _skip_strings(self, count: int) -> None:
        position, unpack, buffer = self.position, struct.Struct("<Q").unpack_from, self._buffer
        for _ in range(count):
            position += 8 + unpack(buffer, position)[0]
        self.position = position


def _read_header(data: NDArray[np.uint8]) -> tuple[dict[str, object], dict[str, _Entry]]:
    cursor = _Cursor(data)
    magic, version = cursor.count("I"), cursor.count("I")
    if magic != gguf.GGUF_MAGIC or version not in (2, 3):
        raise ValueError("wrong magic number or version")
    tensors, keys = cursor.count(), cursor.count()
    fields: dict[str, object] = {}
    for _ in range(keys):
        key = cursor.string()
        fields[key] = cursor.value(cursor.count("I"))
    found: dict[str, _Entry] = {}
    for _ in range(tensors):
        name = cursor.string()
        dimensions = tuple(cursor.count() for _ in range(cursor.count("I")))[::-1]
        kind = gguf.GGMLQuantizationType(cursor.count("I"))
        found[name] = _Entry(dimensions, kind, cursor.count())
    alignment = fields.get("general.alignment", gguf.GGUF_DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"general.alignment is {alignment!r}, no number of bytes")
    start = -(-cursor.position // alignment) * alignment
    return fields, {name: _Entry(e.dimensions, e.kind, start + e.offset) for name, e in found.items()}
