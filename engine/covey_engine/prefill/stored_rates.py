"""A runner and its configuration go in, rates come out: those that were stored before, or measured ones, then kept.

The file holds the rates of any number of setups: of a device, a model's files, a runner's kind and its numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from covey_engine.prefill.api import Rates
from covey_engine.prefill.calibration import measure
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.runner import Runner

_MEANING = 1
"""Rates of another meaning are measured again."""


def rates_of(runner: Runner, config: EngineConfig) -> Rates | None:
    """The rates of a runner that has run nothing yet, as `config.calibrate` says; None where there are none.

    A runner that cannot run the measurement has none: what keeps it from that, its queries will say.
    """
    if config.rates is not None or config.calibrate == "never":
        return config.rates
    if config.calibrate == "auto" and not config.rates_file:
        return None
    file = Path(config.rates_file) if config.rates_file else None
    setup = describe(runner, config)
    rates = load(file, setup) if file is not None and config.calibrate == "auto" else None
    if rates is not None:
        return rates
    try:
        rates = measure(runner)
    except EngineError:
        return None
    if file is not None and rates is not None:
        store(file, setup, rates)
    return rates


def describe(runner: Runner, config: EngineConfig) -> str:
    """What the rates are of: the same text for the same setup."""
    info = runner.info
    device = _device(info.device, config.threads or os.cpu_count() or 1)
    kind = type(runner).__name__.removesuffix("Runner").lower()
    model = f"{info.model} {fingerprint(Path(config.model))}"
    return " | ".join([device, model, kind, info.dtype, f"chunks of {info.chunk_tokens}", f"{_MEANING}"])


def fingerprint(model: Path) -> str:
    """16 hex digits that differ where a model's files have other names or sizes, or its config.json another text."""
    files = sorted(model.iterdir()) if model.is_dir() else [model] if model.is_file() else []
    said: list[object] = [(file.name, file.stat().st_size) for file in files if file.is_file()]
    if (model / "config.json").is_file():
        said.append((model / "config.json").read_text("utf-8", errors="replace"))
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def load(file: Path, setup: str) -> Rates | None:
    """The stored rates of a setup; None where there are none or they cannot be read."""
    stored = _read(file).get(setup)
    if not isinstance(stored, dict):
        return None
    try:
        return Rates(**{name: float(value) for name, value in stored.items()})
    except (TypeError, ValueError):
        return None


def store(file: Path, setup: str, rates: Rates) -> None:
    """Keep the rates of a setup beside those of others. Where that cannot be, the next start measures again."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps({**_read(file), setup: asdict(rates)}, indent=1) + "\n", "utf-8")
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, object]:
    try:
        stored = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _device(name: str, threads: int) -> str:
    if name == "cpu":
        return f"{_processor()} x {threads}"
    if name.startswith("cuda"):
        # A runner for any device says no more than this, and has it loaded.
        import torch

        return torch.cuda.get_device_name(name)
    return name


def _processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
