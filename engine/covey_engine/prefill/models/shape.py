"""A model's own description (config.json or GGUF keys) goes in, its sizes come out; never touches weights.

What the runners cannot compute exactly (sliding windows, unknown rotary scaling, other activations) is
refused here, by name, before any weight is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from covey_engine.prefill.api import ModelSizes
from covey_engine.prefill.errors import ModelError
from covey_engine.prefill.models.rope import inverse_frequencies

ARCHITECTURES = ("llama", "qwen3")


@dataclass(frozen=True, eq=False)
class ModelShape:
    """Sizes of a decoder: what the tensors must look like.

    inverse_frequencies: float32 [head_dim / 2], rotary scaling included; tied: the output head is the
    embedding.
    """

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context_length: int
    norm_epsilon: float
    inverse_frequencies: Tensor
    tied: bool
    attention_bias: bool = False
    mlp_bias: bool = False

    def sizes(self, linear: str, numbers: str) -> ModelSizes:
        """What a planner has to know. linear, numbers: the precision of the matrices and of everything else."""
        return ModelSizes(
            self.layers,
            self.hidden,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.intermediate,
            linear,
            numbers,
        )

    @property
    def query_width(self) -> int:
        """Columns of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of all key heads (and as many of values)."""
        return self.kv_heads * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Entries of one layer's matrices: multiplications of a token in its products."""
        return self.hidden * (2 * self.query_width + 2 * self.kv_width + 3 * self.intermediate)


def shape_from_config(config: Mapping[str, object]) -> ModelShape:
    """Sizes from a Hugging Face config.json, of old (`rope_scaling`) or new (`rope_parameters`) style."""
    keys = _Keys(config, "config.json")
    architecture = keys.text("model_type")
    _check_architecture(architecture)
    _refuse_variants(config)
    heads, hidden = keys.integer("num_attention_heads"), keys.integer("hidden_size")
    head_dim = keys.integer("head_dim", hidden // heads)
    rope = config.get("rope_parameters")
    rope = rope if isinstance(rope, Mapping) else {}
    scaling = config.get("rope_scaling")
    theta = _Keys(rope, "config.json").number("rope_theta", keys.number("rope_theta", 10000.0))
    context = keys.integer("max_position_embeddings", 2048)
    settings = {
        "original_max_position_embeddings": context,
        **(scaling if isinstance(scaling, Mapping) else rope),
    }
    return _checked(
        ModelShape(
            architecture=architecture,
            layers=keys.integer("num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=keys.integer("num_key_value_heads", heads),
            head_dim=head_dim,
            intermediate=keys.integer("intermediate_size"),
            vocabulary=keys.integer("vocab_size"),
            context_length=context,
            norm_epsilon=keys.number("rms_norm_eps", 1e-6),
            inverse_frequencies=inverse_frequencies(theta, head_dim, settings),
            tied=bool(config.get("tie_word_embeddings", False)),
            attention_bias=bool(config.get("attention_bias", False)),
            mlp_bias=bool(config.get("mlp_bias", False)),
        )
    )


def shape_from_gguf(
    fields: Mapping[str, object], vocabulary: int, factors: Tensor | None, tied: bool
) -> ModelShape:
    """Sizes from the header of a GGUF file; `factors` [head_dim / 2] divide the rotary frequencies."""
    keys = _Keys(fields, "the GGUF header")
    name = keys.text("general.architecture")
    _check_architecture(name)
    if keys.integer(f"{name}.attention.sliding_window", 0):
        raise ModelError("sliding-window attention is not supported")
    heads, hidden = keys.integer(f"{name}.attention.head_count"), keys.integer(f"{name}.embedding_length")
    head_dim = keys.integer(f"{name}.attention.key_length", hidden // heads)
    if keys.integer(f"{name}.rope.dimension_count", head_dim) != head_dim:
        raise ModelError("rotary embedding of a part of each head is not supported")
    scaling = {
        "rope_type": fields.get(f"{name}.rope.scaling.type", "default"),
        "factor": fields.get(f"{name}.rope.scaling.factor"),
    }
    frequencies = inverse_frequencies(keys.number(f"{name}.rope.freq_base", 10000.0), head_dim, scaling)
    return _checked(
        ModelShape(
            architecture=name,
            layers=keys.integer(f"{name}.block_count"),
            hidden=hidden,
            heads=heads,
            kv_heads=keys.integer(f"{name}.attention.head_count_kv", heads),
            head_dim=head_dim,
            intermediate=keys.integer(f"{name}.feed_forward_length"),
            vocabulary=vocabulary,
            context_length=keys.integer(f"{name}.context_length"),
            norm_epsilon=keys.number(f"{name}.attention.layer_norm_rms_epsilon"),
            inverse_frequencies=frequencies if factors is None else frequencies / factors,
            tied=tied,
        )
    )


def _check_architecture(name: str) -> None:
    if name not in ARCHITECTURES:
        raise ModelError(
            f"model architecture {name!r} is not supported (supported: {', '.join(ARCHITECTURES)})"
        )


def _refuse_variants(config: Mapping[str, object]) -> None:
    kinds = config.get("layer_types")
    sliding = isinstance(kinds, list) and any(kind != "full_attention" for kind in kinds)
    if config.get("use_sliding_window") or sliding:
        raise ModelError("sliding-window attention is not supported")
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise ModelError(f"activation {activation!r} is not supported (supported: silu)")


def _checked(shape: ModelShape) -> ModelShape:
    if shape.head_dim % 2:
        raise ModelError(f"rotary embedding needs an even head size, the model has {shape.head_dim}")
    if shape.heads % shape.kv_heads:
        raise ModelError(f"{shape.heads} query heads cannot share {shape.kv_heads} key heads evenly")
    return shape


class _Keys:
    def __init__(self, values: Mapping[str, object], place: str) -> None:
        self._values = values
        self._place = place

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if not isinstance(value, str):
            raise ModelError(f"{self._place} has no text {key!r}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self.number(key, default))

    def number(self, key: str, default: float | None = None) -> float:
        value = self._values.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float):
            raise ModelError(f"{self._place} has no number {key!r}")
        return value
