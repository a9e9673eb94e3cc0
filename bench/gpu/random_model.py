"""A folder goes in; a random checkpoint with the shapes of Qwen3-4B comes out there, for timing alone.

    python bench/gpu/random_model.py FOLDER [--bfloat16]

Linear layers are fp8 in blocks of 128 x 128, as the published FP8 checkpoint has them, or bfloat16.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, SIZE, VOCABULARY = 2560, 9728, 36, 32, 8, 128, 151936
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_window_layers": LAYERS,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "head_dim": SIZE,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "initializer_range": 0.02,
    "max_position_embeddings": 40960,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": VOCABULARY,
}
BLOCKS = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ["lm_head"],
}


def linear(tensors: dict[str, Tensor], name: str, outputs: int, inputs: int, blocks: bool) -> None:
    deviation = 0.02 * (HIDDEN / inputs) ** 0.5
    values = torch.randn(outputs, inputs, device="cuda")
    if not blocks:
        tensors[f"{name}.weight"] = (values * deviation).bfloat16().cpu()
        return
    tensors[f"{name}.weight"] = (values * 64).clamp_(-440, 440).to(torch.float8_e4m3fn).cpu()
    scale = torch.full((outputs // 128, inputs // 128), deviation / 64)
    tensors[f"{name}.weight_scale_inv"] = scale.bfloat16()


def layer(tensors: dict[str, Tensor], name: str, blocks: bool) -> None:
    attention, mlp = f"{name}.self_attn", f"{name}.mlp"
    linear(tensors, f"{attention}.q_proj", HEADS * SIZE, HIDDEN, blocks)
    linear(tensors, f"{attention}.k_proj", KV_HEADS * SIZE, HIDDEN, blocks)
    linear(tensors, f"{attention}.v_proj", KV_HEADS * SIZE, HIDDEN, blocks)
    linear(tensors, f"{attention}.o_proj", HIDDEN, HEADS * SIZE, blocks)
    linear(tensors, f"{mlp}.gate_proj", INNER, HIDDEN, blocks)
    linear(tensors, f"{mlp}.up_proj", INNER, HIDDEN, blocks)
    linear(tensors, f"{mlp}.down_proj", HIDDEN, INNER, blocks)
    for norm, size in ((f"{attention}.q_norm", SIZE), (f"{attention}.k_norm", SIZE)):
        tensors[f"{norm}.weight"] = torch.ones(size, dtype=torch.bfloat16)
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{name}.{norm}.weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)


def main() -> None:
    parser = argparse.ArgumentParser(description="a random model with the shapes of Qwen3-4B")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bfloat16", action="store_true")
    wished = parser.parse_args()
    blocks = not wished.bfloat16
    torch.manual_seed(0)
    wished.folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "quantization_config": BLOCKS} if blocks else CONFIG
    (wished.folder / "config.json").write_text(json.dumps(config))
    (wished.folder / "generation_config.json").write_text(
        json.dumps({"eos_token_id": CONFIG["eos_token_id"]})
    )
    tensors = {
        "model.embed_tokens.weight": (torch.randn(VOCABULARY, HIDDEN, device="cuda") * 0.02).bfloat16().cpu(),
        "model.norm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
    }
    for index in range(LAYERS):
        layer(tensors, f"model.layers.{index}", blocks)
    save_file(tensors, wished.folder / "model.safetensors", metadata={"format": "pt"})
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    print(f"{wished.folder}: {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
