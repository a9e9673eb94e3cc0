"""Loading: folders, shards, dtypes, GGUF, block-fp8; and one clear line for what cannot be loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import ModelError, OutOfDeviceMemory
from covey_engine.prefill.loader import is_installed, open_runner
from covey_engine.prefill.models.weights import open_source
from safetensors.torch import load_file, save_file
from support import small_models
from support.small_models import TOLERANCE, VOCABULARY, deviation, make_model, oracle_logits, run_all


def load_error(path: Path, **settings: Any) -> str:
    with pytest.raises(ModelError) as caught:
        open_runner(EngineConfig(str(path), device=settings.pop("device", "cpu"), **settings))
    message = str(caught.value)
    assert "\n" not in message
    return message


def check(path: Path, model: torch.nn.Module) -> None:
    runner = open_runner(EngineConfig(str(path), device="cpu", arena_bytes=1 << 21))
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    packed = small_models.deep_paths(np.random.default_rng(0))
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(runner, packed), oracle) < TOLERANCE


def rewrite_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config.update(changes)
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def test_shards(tmp_path: Path) -> None:
    model = make_model(tmp_path, "qwen3", shard="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    check(tmp_path, model)


def test_bfloat16_weights_in_float32(tmp_path: Path) -> None:
    check(tmp_path, make_model(tmp_path, "llama", dtype=torch.bfloat16))


def test_rope_settings_of_the_old_style(tmp_path: Path) -> None:
    scaling = {"type": "linear", "factor": 2.0}
    rope = {"rope_type": "linear", "rope_theta": 777.0, "factor": 2.0}
    model = make_model(tmp_path, "llama", rope_parameters=rope)
    rewrite_config(tmp_path, rope_parameters=None, rope_theta=777.0, rope_scaling=scaling)
    check(tmp_path, model)


def test_block_fp8(tmp_path: Path) -> None:
    model = make_model(tmp_path, "qwen3")
    tensors, block = load_file(tmp_path / "model.safetensors"), (32, 16)
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        values = tensors[name]
        grid = tuple(-(-size // step) for size, step in zip(values.shape, block, strict=True))
        scale = torch.rand(grid) + 0.5
        spread = scale.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
        spread = spread[: values.shape[0], : values.shape[1]]
        tensors[name] = (values / spread).to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scale
        model.get_parameter(name).data = tensors[name].float() * spread
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    quantization = {"quant_method": "fp8", "weight_block_size": list(block)}
    rewrite_config(tmp_path, quantization_config=quantization)
    check(tmp_path, model)
    rewrite_config(tmp_path, quantization_config={"quant_method": "awq"})
    assert "quantization 'awq' is not supported" in load_error(tmp_path)


GGUF_KINDS = {
    "F32": gguf.GGMLQuantizationType.F32,
    "F16": gguf.GGMLQuantizationType.F16,
    "Q4_1": gguf.GGMLQuantizationType.Q4_1,
    "Q8_0": gguf.GGMLQuantizationType.Q8_0,
    "Q5_0": gguf.GGMLQuantizationType.Q5_0,
}
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "head_dim": 32}


def write_gguf(file: Path, model: Any, architecture: str, kind: gguf.GGMLQuantizationType) -> None:
    """Write transformers' model as GGUF and give the model the weights that the file really holds."""
    config, writer = model.config, gguf.GGUFWriter(file, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_token_list(["<s>", *(f"täst{i}" for i in range(VOCABULARY - 1))])
    writer.add_token_scores([0.5] * VOCABULARY)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        values = parameter.data
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        permuted = heads.get(name.split(".")[-2]) if architecture == "llama" else None
        if permuted:
            values = values.view(permuted, 2, -1, values.shape[1]).transpose(1, 2).reshape(values.shape)
        used = kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        stored = gguf.quants.quantize(values.contiguous().numpy(), used)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), stored, raw_dtype=used)
        held = torch.from_numpy(np.array(gguf.quants.dequantize(stored, used)))
        if permuted:
            held = held.view(permuted, -1, 2, held.shape[1]).transpose(1, 2).reshape(held.shape)
        parameter.data = held
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("kind", GGUF_KINDS)
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_gguf(tmp_path: Path, architecture: str, kind: str) -> None:
    model = make_model(tmp_path / "hf", architecture, tie_word_embeddings=kind == "F16", **SIZES)
    write_gguf(tmp_path / "model.gguf", model, architecture, GGUF_KINDS[kind])
    check(tmp_path / "model.gguf", model)


def test_gguf_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"something else entirely, and more of it")
    assert "not a readable GGUF file" in load_error(file)
    model = make_model(tmp_path / "hf", "llama", **SIZES)
    write_gguf(file, model, "llama", gguf.GGMLQuantizationType.F16)
    whole = file.read_bytes()
    file.write_bytes(whole[:200])
    assert "not a readable GGUF file" in load_error(file)
    file.write_bytes(whole[:-1000])
    assert "the file is cut short" in load_error(file)


def test_missing_places(tmp_path: Path) -> None:
    assert load_error(tmp_path / "nowhere") == f"there is no model at {tmp_path / 'nowhere'}"
    assert "no config.json" in load_error(tmp_path)
    make_model(tmp_path, "llama")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    assert "not a readable safetensors file" in load_error(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "no model.safetensors and no index" in load_error(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert "not readable as JSON" in load_error(tmp_path)


def test_missing_shard(tmp_path: Path) -> None:
    make_model(tmp_path, "llama", shard="60KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.unlink()
    assert f"shard {shard.name} is missing" in load_error(tmp_path)


def test_missing_or_misshapen_tensor(tmp_path: Path) -> None:
    make_model(tmp_path, "qwen3")
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    values = tensors.pop(name)
    save_file(tensors, tmp_path / "model.safetensors")
    assert f"tensor '{name}' is missing" in load_error(tmp_path)
    save_file({**tensors, name: values[:-1]}, tmp_path / "model.safetensors")
    assert f"tensor '{name}' has size [69, 48], not [70, 48]" in load_error(tmp_path)


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "architecture": ({"model_type": "mistral"}, "model architecture 'mistral' is not supported"),
    "yarn": (
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
        "rotary scaling type 'yarn' is not supported",
    ),
    "window": ({"use_sliding_window": True}, "sliding-window attention is not supported"),
    "layers": ({"layer_types": ["sliding_attention"]}, "sliding-window attention is not supported"),
    "activation": ({"hidden_act": "gelu"}, "activation 'gelu' is not supported"),
    "size": ({"hidden_size": None}, "config.json has no number 'hidden_size'"),
    "heads": ({"num_key_value_heads": 4}, "6 query heads cannot share 4 key heads"),
    "head_dim": ({"head_dim": 15}, "an even head size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(tmp_path: Path, case: str) -> None:
    changes, message = REFUSED[case]
    make_model(tmp_path, "qwen3")
    rewrite_config(tmp_path, **changes)
    assert message in load_error(tmp_path)


def test_settings_are_checked(tmp_path: Path) -> None:
    make_model(tmp_path, "llama")
    assert "no backend 'tpu'" in load_error(tmp_path, backend="tpu")
    assert "no device 'abacus'" in load_error(tmp_path, device="abacus")
    assert "no dtype 'int3'" in load_error(tmp_path, dtype="int3")
    with pytest.raises(OutOfDeviceMemory, match="100 bytes holds no token: this model keeps 768 bytes"):
        open_runner(EngineConfig(str(tmp_path), device="cpu", arena_bytes=100))


def test_info_and_sizes(tmp_path: Path) -> None:
    make_model(tmp_path, "llama")
    runner = open_runner(EngineConfig(str(tmp_path), device="cpu", arena_bytes=768 * 1000, chunk_tokens=64))
    assert runner.arena_tokens == runner.info.arena_tokens == 1000
    assert (runner.info.architecture, runner.info.device, runner.info.dtype) == ("llama", "cpu", "float32")
    assert (runner.info.model, runner.info.chunk_tokens) == (tmp_path.name, 64)
    assert runner.info.context_length == 1024
    assert open_source(tmp_path).shape.kv_heads == 2


@pytest.mark.parametrize(
    ("module", "there"), [("json.decoder", True), ("json.nothing", False), ("no_such_package.part", False)]
)
def test_whether_a_module_is_installed(module: str, there: bool) -> None:
    assert is_installed(module) is there
