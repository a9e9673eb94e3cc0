"""Reading a GGUF file's metadata: equal to the reference reader, one clear line for what is not one."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
from covey_storage.errors import NotFound, StorageError
from covey_storage.gguf_metadata import read_metadata


def write(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("text", "naïve ☕")
    writer.add_bool("yes", True)
    writer.add_int8("small", -7)
    writer.add_uint64("large", 2**63 + 1)
    writer.add_float32("half", 0.5)
    writer.add_float64("third", 1 / 3)
    writer.add_array("pieces", ["a", "", "Ġthe"])
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("rates", [0.5, 0.25])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_every_kind_of_value(tmp_path: Path) -> None:
    metadata = read_metadata(write(tmp_path / "m.gguf"))
    assert metadata == {
        "general.architecture": "llama",
        "text": "naïve ☕",
        "yes": True,
        "small": -7,
        "large": 2**63 + 1,
        "half": 0.5,
        "third": 1 / 3,
        "pieces": ["a", "", "Ġthe"],
        "numbers": [1, -2, 3],
        "rates": [0.5, 0.25],
    }


def test_what_is_no_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    with pytest.raises(NotFound, match=f"^no model file at {path}$"):
        read_metadata(path)
    for content in (b"", b"GGUF", b"PK\3\4" + b"\0" * 100, b"GGUF\x09\0\0\0" + b"\0" * 16):
        path.write_bytes(content)
        with pytest.raises(StorageError, match=str(path)):
            read_metadata(path)
    with pytest.raises(StorageError, match=str(tmp_path)):
        read_metadata(tmp_path)


def test_a_file_that_ends_early_or_lies_about_its_size(tmp_path: Path) -> None:
    content = write(tmp_path / "whole.gguf").read_bytes()
    path = tmp_path / "m.gguf"
    for length in range(24, len(content) - 40, 7):
        path.write_bytes(content[:length])
        with pytest.raises(StorageError, match=r"damaged or cut off|unknown kind"):
            read_metadata(path)
    path.write_bytes(content[:24] + b"\xff" * 8 + content[32:])
    with pytest.raises(StorageError, match=f"^{path} is not a readable GGUF file"):
        read_metadata(path)
