"""TPC-H's tables as Parquet files, made by tpchgen-cli, and its 22 queries."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

SCALE = "0.01"


def queries() -> dict[str, str]:
    """The queries by name: q1 … q22."""
    text = (Path(__file__).parents[1] / "tpch" / "queries.sql").read_text("utf-8")
    parts = [part.strip() for part in text.split("\n\n") if not part.startswith("--")]
    return {f"q{number}": part for number, part in enumerate(parts, 1)}


def generator() -> str | None:
    """The program that makes the data, None where it is not installed."""
    return shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")


def generate(folder: Path) -> Path:
    """Make the tables in a folder."""
    program = generator()
    assert program is not None, "pip install tpchgen-cli"
    command = [program, "parquet", "--scale-factor", SCALE, "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder
