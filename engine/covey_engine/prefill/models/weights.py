"""A model's folder or file goes in, shape and tensors by Hugging Face names come out; computes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from covey_engine.prefill.errors import ModelError
from covey_engine.prefill.models.gguf_file import GgufFile
from covey_engine.prefill.models.shape import ModelShape, shape_from_config


class TensorSource(Protocol):
    """Where a model's tensors lie."""

    @property
    def path(self) -> Path:
        """File or folder, named in errors."""
        ...

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        ...

    def tensor(self, name: str) -> Tensor | None:
        """The tensor of a Hugging Face name in host memory, any floating dtype; None where absent."""
        ...


def open_source(path: Path) -> TensorSource:
    """A GGUF file, or a Hugging Face folder with config.json and safetensors. Raises ModelError."""
    if not path.exists():
        raise ModelError(f"there is no model at {path}")
    if path.is_file():
        return GgufFile(path)
    if not (path / "config.json").is_file():
        raise ModelError(f"{path}: no config.json in the model folder")
    return SafetensorsFolder(path)


class SafetensorsFolder:
    """config.json beside model.safetensors, or beside shards listed in model.safetensors.index.json."""

    def __init__(self, path: Path) -> None:
        self.path = path
        config = _read_json(path / "config.json")
        self.shape = shape_from_config(config)
        self._scale_block = _fp8_block(config)
        self._opened: dict[Path, safe_open] = {}
        self._files = self._locate()

    def tensor(self, name: str) -> Tensor | None:
        """The stored tensor; block-quantized fp8 weights are multiplied out to float32."""
        values = self._stored(name)
        if values is None or values.dtype != torch.float8_e4m3fn:
            return values
        scale = self._stored(f"{name}_scale_inv")
        if scale is None or self._scale_block is None:
            raise ModelError(f"{self.path}: fp8 tensor {name!r} has no block scales")
        rows, columns = self._scale_block
        spread = scale.float().repeat_interleave(rows, 0).repeat_interleave(columns, 1)
        return values.float().mul_(spread[: values.shape[0], : values.shape[1]])

    def _stored(self, name: str) -> Tensor | None:
        file = self._files.get(name)
        if file is None:
            return None
        if file not in self._opened:
            self._opened[file] = _open(file)
        try:
            tensor: Tensor = self._opened[file].get_tensor(name)  # type: ignore[no-untyped-call]
        except SafetensorError as error:
            raise ModelError(f"{file}: tensor {name!r} is not readable ({error})") from error
        return tensor

    def _locate(self) -> dict[str, Path]:
        index = self.path / "model.safetensors.index.json"
        if index.is_file():
            listed = _read_json(index).get("weight_map")
            if not isinstance(listed, Mapping):
                raise ModelError(f"{index}: no weight_map")
            files = {str(name): self.path / str(shard) for name, shard in listed.items()}
        else:
            single = self.path / "model.safetensors"
            if not single.is_file():
                raise ModelError(f"{self.path}: no model.safetensors and no index in the model folder")
            with _open(single) as tensors:
                files = dict.fromkeys(tensors.keys(), single)
        for file in sorted(set(files.values())):
            if not file.is_file():
                raise ModelError(f"{self.path}: shard {file.name} is missing")
        return files


def _fp8_block(config: Mapping[str, object]) -> tuple[int, int] | None:
    quantization = config.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return None
    method, block = quantization.get("quant_method"), quantization.get("weight_block_size")
    if method != "fp8" or not isinstance(block, list) or len(block) != 2:
        raise ModelError(f"quantization {method!r} is not supported (supported: none, fp8 in blocks)")
    return int(block[0]), int(block[1])


def _open(file: Path) -> safe_open:
    try:
        return safe_open(file, framework="pt")
    except SafetensorError as error:
        raise ModelError(f"{file}: not a readable safetensors file ({error})") from error


def _read_json(file: Path) -> Mapping[str, object]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: not readable as JSON ({error})") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file}: not a JSON object")
    return content


class TensorReader:
    """Takes tensors of one source to a device and dtype, checked against the sizes that a model expects."""

    def __init__(self, source: TensorSource, device: torch.device, dtype: torch.dtype) -> None:
        self._source = source
        self._device = device
        self._dtype = dtype
        self.shape = source.shape

    def read(self, name: str, *size: int) -> Tensor:
        """One tensor of exactly this size. Raises ModelError where it is missing or of another size."""
        tensor = self._source.tensor(name)
        if tensor is None:
            raise ModelError(f"{self._source.path}: tensor {name!r} is missing")
        if tuple(tensor.shape) != size:
            raise ModelError(
                f"{self._source.path}: tensor {name!r} has size {list(tensor.shape)}, not {list(size)}"
            )
        return tensor.to(self._device, self._dtype).contiguous()
