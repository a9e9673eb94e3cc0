"""A model's tensors go in, its layers on the device come out, in one precision; runs nothing.

Heads keep the checkpoint's order (first halves, then second halves): block scales stay valid, and the rotary
kernel expects it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from covey_engine.prefill.errors import ModelError
from covey_engine.prefill.kernels.linear import Bf16Linear, BlockGemm, BlockLinear, Linear, quantize_rows
from covey_engine.prefill.kernels.precision import GROUP, Precision
from covey_engine.prefill.kernels.rotary import HeadNorms, Phases
from covey_engine.prefill.models.shape import ModelShape
from covey_engine.prefill.models.weights import SafetensorsFolder, TensorReader, TensorSource, open_source


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights of one decoder layer."""

    attention_norm: Tensor
    qkv: Linear
    head_norms: HeadNorms | None
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, eq=False)
class Weights:
    """A decoder on the device; embedding and head: bfloat16 [vocabulary, hidden], one where tied."""

    shape: ModelShape
    precision: Precision
    embedding: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Tensor
    phases: Phases


class BlockCheckpoint(SafetensorsFolder):
    """A folder of block-quantized fp8 weights, read as they are stored."""

    @property
    def in_blocks(self) -> bool:
        """Whether its linear weights are fp8 with scales for blocks of 128 x 128."""
        return self._scale_block == (GROUP, GROUP)

    def stored(self, name: str) -> Tensor:
        """A tensor as stored. Raises ModelError where it is missing."""
        values = self._stored(name)
        if values is None:
            raise ModelError(f"{self.path}: tensor {name!r} is missing")
        return values


def open_checkpoint(path: Path) -> TensorSource:
    """The model's tensors; a BlockCheckpoint where the folder holds safetensors."""
    if path.is_dir() and (path / "config.json").is_file():
        return BlockCheckpoint(path)
    return open_source(path)


def choose_precision(source: TensorSource, dtype: str) -> Precision:
    """The precision for a model and the setting `dtype`.

    "auto" keeps what the checkpoint stores; "fp8" quantizes rows of what is not yet fp8. Raises ModelError
    for other settings.
    """
    shape = source.shape
    blocks = isinstance(source, BlockCheckpoint) and source.in_blocks and _fits_blocks(shape)
    match dtype:
        case "auto":
            return Precision.BLOCK if blocks else Precision.BF16
        case "fp8":
            return Precision.BLOCK if blocks else Precision.ROW
        case "bfloat16":
            return Precision.BF16
    raise ModelError(f"the hopper backend computes in auto, bfloat16 or fp8, not {dtype!r}")


def _fits_blocks(shape: ModelShape) -> bool:
    widths = (shape.hidden, shape.query_width, shape.kv_width, shape.intermediate)
    return shape.head_dim == GROUP and all(width % GROUP == 0 for width in widths)


def load_weights(
    source: TensorSource, device: torch.device, precision: Precision, gemm: BlockGemm | None
) -> Weights:
    """Read the model; BLOCK layers run on gemm. Raises ModelError naming what is missing or misshapen."""
    shape = source.shape
    if precision is not Precision.BF16 and (shape.attention_bias or shape.mlp_bias):
        raise ModelError("fp8 linear layers with a bias are not supported: use dtype bfloat16")
    reader = _LayerReader(source, device, precision, gemm)
    embedding = reader.read("model.embed_tokens.weight", shape.vocabulary, shape.hidden)
    head = embedding if shape.tied else reader.read("lm_head.weight", shape.vocabulary, shape.hidden)
    layers = tuple(reader.layer(f"model.layers.{index}") for index in range(shape.layers))
    return Weights(
        shape=shape,
        precision=precision,
        embedding=embedding,
        layers=layers,
        norm=reader.read("model.norm.weight", shape.hidden),
        head=head,
        phases=rotary_tables(shape, device),
    )


def rotary_tables(shape: ModelShape, device: torch.device) -> Phases:
    """Cosines and sines for every position of the context."""
    positions = torch.arange(shape.context_length, device=device, dtype=torch.float32)
    angles = positions[:, None] * shape.inverse_frequencies.to(device)
    return Phases(angles.cos(), angles.sin())


class _LayerReader(TensorReader):
    def __init__(
        self, source: TensorSource, device: torch.device, precision: Precision, gemm: BlockGemm | None
    ) -> None:
        super().__init__(source, device, torch.bfloat16)
        self._checkpoint = source
        self._to = device
        self._precision = precision
        self._gemm = gemm

    def layer(self, name: str) -> Layer:
        shape = self.shape
        attention, mlp = f"{name}.self_attn", f"{name}.mlp"
        projections = {
            f"{attention}.q_proj": shape.query_width,
            f"{attention}.k_proj": shape.kv_width,
            f"{attention}.v_proj": shape.kv_width,
        }
        gates = {f"{mlp}.gate_proj": shape.intermediate, f"{mlp}.up_proj": shape.intermediate}
        return Layer(
            attention_norm=self.read(f"{name}.input_layernorm.weight", shape.hidden),
            qkv=self._linear(projections, shape.hidden, shape.attention_bias),
            head_norms=self._head_norms(attention) if shape.architecture == "qwen3" else None,
            output=self._linear(
                {f"{attention}.o_proj": shape.hidden}, shape.query_width, shape.attention_bias
            ),
            mlp_norm=self.read(f"{name}.post_attention_layernorm.weight", shape.hidden),
            gate_up=self._linear(gates, shape.hidden, shape.mlp_bias),
            down=self._linear({f"{mlp}.down_proj": shape.hidden}, shape.intermediate, shape.mlp_bias),
        )

    def _head_norms(self, attention: str) -> HeadNorms:
        size = self.shape.head_dim
        query, key = (self.read(f"{attention}.{which}_norm.weight", size) for which in "qk")
        return HeadNorms(query, key, self.shape.norm_epsilon)

    def _linear(self, parts: dict[str, int], inputs: int, biased: bool) -> Linear:
        if self._precision is Precision.BLOCK:
            return self._block_linear(parts, inputs)
        weight = torch.cat([self.read(f"{name}.weight", rows, inputs) for name, rows in parts.items()])
        if self._precision is Precision.ROW:
            return quantize_rows(weight)
        bias = (
            torch.cat([self.read(f"{name}.bias", rows) for name, rows in parts.items()]) if biased else None
        )
        return Bf16Linear(weight, bias)

    def _block_linear(self, parts: dict[str, int], inputs: int) -> Linear:
        source = self._checkpoint
        assert isinstance(source, BlockCheckpoint)
        assert self._gemm is not None
        weights, scales = [], []
        for name, rows in parts.items():
            weight, scale = source.stored(f"{name}.weight"), source.stored(f"{name}.weight_scale_inv")
            blocks = (rows // GROUP, inputs // GROUP)
            if (
                weight.dtype != torch.float8_e4m3fn
                or tuple(weight.shape) != (rows, inputs)
                or scale.shape != blocks
            ):
                raise ModelError(
                    f"{source.path}: tensor {name!r} is not {rows} x {inputs} fp8 in blocks of {GROUP}"
                )
            weights.append(weight.to(self._to).view(torch.uint8))
            scales.append(scale.to(self._to, torch.float32))
        return BlockLinear(
            torch.cat(weights).view(torch.float8_e4m3fn), torch.cat(scales).contiguous(), self._gemm
        )
