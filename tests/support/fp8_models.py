"""A small bfloat16 checkpoint goes in, the same in block fp8 comes out; and an oracle of fp8 arithmetic.

The oracle computes everything in float32, but gives every linear layer exactly the operands that the hardware
gets: weights as stored, activations quantized at the same places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from covey_engine.prefill.hopper.weights import Weights
from covey_engine.prefill.kernels.linear import Linear
from covey_engine.prefill.kernels.precision import GROUP, Activation, Precision
from covey_engine.prefill.models.weights import SafetensorsFolder
from safetensors.torch import load_file, save_file
from support.hopper_kernels import relative_error, restored
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

Operand = Callable[[Tensor], Tensor]
"""From an activation to what a linear layer is given."""


def to_blocks(source: Path, target: Path) -> None:
    """Quantize the linear layers of a model folder in blocks of 128 x 128."""
    target.mkdir()
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "weight_block_size": [GROUP, GROUP],
    }
    (target / "config.json").write_text(json.dumps(config))
    tensors: dict[str, Tensor] = {}
    for name, tensor in load_file(source / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            tensors[name] = tensor
            continue
        blocks = tensor.float().unflatten(1, (-1, GROUP)).unflatten(0, (-1, GROUP))
        scale = blocks.abs().amax((1, 3), keepdim=True) / 448
        tensors[name] = (blocks / scale).to(torch.float8_e4m3fn).flatten(2).flatten(0, 1)
        tensors[f"{name}_scale_inv"] = scale[:, 0, :, 0].bfloat16()
    save_file(tensors, target / "model.safetensors")


def quantizer(precision: Precision) -> Operand:
    """Rounds an activation [rows, columns] the way a precision stores it."""

    def rounded(x: Tensor, groups: int) -> Tensor:
        wide = x.unflatten(1, (groups, -1))
        scale = wide.abs().amax(2, keepdim=True).clamp_min(1e-12) / 448
        return ((wide / scale).to(torch.float8_e4m3fn).float() * scale).flatten(1)

    match precision:
        case Precision.BF16:
            return lambda x: x.bfloat16().float()
        case Precision.ROW:
            return lambda x: rounded(x, 1)
        case Precision.BLOCK:
            return lambda x: rounded(x, x.shape[1] // GROUP)


class Fp8Oracle:
    """A model's forward pass over prompts, float32 but for the operands of the linear layers."""

    def __init__(self, folder: Path, precision: Precision, device: torch.device) -> None:
        self._source = SafetensorsFolder(folder)
        self._shape = self._source.shape
        self._precision = precision
        self._device = device
        self._kept: dict[str, Tensor] = {}

    def logits(self, prompts: Sequence[tuple[int, ...]], operand: Operand | None = None) -> Tensor:
        """Next-token logits over the whole vocabulary, [prompts, vocabulary].

        operand: gives each linear layer's input, in the order of a runner that computes the last layer for
        answer rows alone (keys and values, then queries); by default the oracle's own values, quantized.
        """
        with torch.inference_mode():
            return self._logits(prompts, quantizer(self._precision) if operand is None else operand)

    def _logits(self, prompts: Sequence[tuple[int, ...]], operand: Operand) -> Tensor:
        lengths = [len(prompt) for prompt in prompts]
        x = self._tensor("model.embed_tokens.weight")[[token for prompt in prompts for token in prompt]]
        answers = torch.tensor(lengths).cumsum(0).to(self._device) - 1
        for index in range(self._shape.layers):
            layer = f"model.layers.{index}"
            rows = answers if index == self._shape.layers - 1 else None
            merged = self._attend(
                f"{layer}.self_attn", self._normed(x, f"{layer}.input_layernorm"), lengths, rows, operand
            )
            x = (x if rows is None else x[rows]) + merged
            y = operand(self._normed(x, f"{layer}.post_attention_layernorm"))
            gate, up = (self._times(y, f"{layer}.mlp.{name}_proj") for name in ("gate", "up"))
            x = x + self._times(operand(silu(gate) * up), f"{layer}.mlp.down_proj")
        head = "model.embed_tokens.weight" if self._shape.tied else "lm_head.weight"
        return self._normed(x, "model.norm") @ self._tensor(head).t()

    def _attend(
        self, name: str, x: Tensor, lengths: list[int], rows: Tensor | None, operand: Operand
    ) -> Tensor:
        y = operand(x)
        k, v = (self._heads(y, f"{name}.{which}_proj") for which in "kv")
        q = self._heads(y, f"{name}.q_proj")
        if rows is not None:
            q[rows] = self._heads(operand(y[rows]), f"{name}.q_proj")
        if self._shape.architecture == "qwen3":
            q, k = self._normed(q, f"{name}.q_norm"), self._normed(k, f"{name}.k_norm")
        results = [
            _causal(*(self._turned(part) for part in (q1, k1)), v1)
            for q1, k1, v1 in zip(*(part.split(lengths) for part in (q, k, v)), strict=True)
        ]
        result = torch.cat(results)
        return self._times(operand(result if rows is None else result[rows]), f"{name}.o_proj")

    def _heads(self, x: Tensor, name: str) -> Tensor:
        return self._times(x, name).unflatten(1, (-1, self._shape.head_dim))

    def _times(self, x: Tensor, name: str) -> Tensor:
        return x @ self._linear(name).t()

    def _turned(self, x: Tensor) -> Tensor:
        angles = torch.arange(len(x))[:, None].float() * self._shape.inverse_frequencies
        cosine, sine = angles.cos().to(self._device)[:, None], angles.sin().to(self._device)[:, None]
        low, high = x.chunk(2, -1)
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)

    def _normed(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self._shape.norm_epsilon)
        return x * scale * self._tensor(f"{name}.weight")

    def _linear(self, name: str) -> Tensor:
        weight = self._tensor(f"{name}.weight")
        if self._precision is not Precision.ROW:
            return weight
        scale = weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / 448
        return (weight / scale).to(torch.float8_e4m3fn).float() * scale

    def _tensor(self, name: str) -> Tensor:
        if name not in self._kept:
            tensor = self._source.tensor(name)
            assert tensor is not None, name
            self._kept[name] = tensor.to(self._device).float()
        return self._kept[name]


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of one prompt, [tokens, heads, head_dim] each, to [tokens, heads * head_dim]."""
    repeat = q.shape[1] // k.shape[1]
    k, v = (part.repeat_interleave(repeat, 1) for part in (k, v))
    result = scaled_dot_product_attention(*(part.transpose(0, 1)[None] for part in (q, k, v)), is_causal=True)
    return result[0].transpose(0, 1).flatten(1)


class Recorded:
    """A linear layer that keeps a copy of what it is given."""

    def __init__(self, inner: Linear, log: list[Tensor]) -> None:
        self._inner = inner
        self._log = log

    def __call__(self, x: Activation, out: Tensor) -> None:
        """As Linear says."""
        self._log.append(restored(x))
        self._inner(x, out)

    def rows(self, start: int, stop: int) -> Linear:
        """As Linear says."""
        return Recorded(self._inner.rows(start, stop), self._log)


def recorded(weights: Weights, log: list[Tensor]) -> Weights:
    """The same weights; what their linear layers are given is appended to the log."""
    names = ("qkv", "output", "gate_up", "down")
    layers = [
        replace(layer, **{n: Recorded(getattr(layer, n), log) for n in names}) for layer in weights.layers
    ]
    return replace(weights, layers=tuple(layers))


def replayed(log: list[Tensor], tolerance: float) -> Operand:
    """The logged operands, one after another, each checked to be within `tolerance` of what it stands for."""
    waiting = iter(log)

    def operand(y: Tensor) -> Tensor:
        given = next(waiting)[: len(y)]
        deviation = relative_error(given, y)
        assert deviation < tolerance, f"an operand deviates by {deviation:.4f}"
        return given

    return operand
