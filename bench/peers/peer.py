"""Run the workloads on a peer; a line of figures goes to standard output after each run.

    python bench/peers/peer.py quail|vllm MODEL TABLES [--only filter,…] [--repeats 2] [--once join_terms]

MODEL is a Hugging Face folder with its tokenizer, TABLES the folder that `bench/peers/write_tables.py` wrote. Each
round runs every workload once; the first one pays for compiling. vLLM is driven by Quail's own backend for it. What
must be importable: quail-engine 0.1.0, vllm 0.26.0 and all they need.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from queries import QUERIES

BACKENDS = {"quail": "quail", "vllm": "pipelined_vllm"}
H200 = {"mem_bytes": 141e9, "hbm_bw": 4.8e12}
"""What Quail's planner is told of the device, whose only Hopper one is an H100."""


def session(engine: str, model: Path) -> Any:
    """A session of Quail with the model and the device."""
    import quail
    from quail import specs

    specs.MODELS["qwen3-4b-fp8"] = replace(specs.QWEN3_4B_FP8, hf_name=str(model), revision=None)
    specs.DEVICES["h100-sxm"] = replace(specs.H100_SXM, **H200)
    config = quail.EngineConfig(model="qwen3-4b-fp8", device="h100-sxm", backend=BACKENDS[engine])
    return quail.Session(config=config)


def register(opened: Any, tables: Path) -> None:
    import pyarrow.parquet as parquet
    import quail

    for file in sorted(tables.glob("*.parquet")):
        provider = quail.DocumentProvider.from_table(parquet.read_table(file), id_col="id")
        opened.register(file.stem, provider)


def run(opened: Any, sql: str) -> dict[str, object]:
    """The figures of one run. seconds: the peer's own, without boot, planning and tokenizing; whole: all of it."""
    began = time.perf_counter()
    result = opened.sql(sql, dialect="bq").run()
    rows = result.collect().num_rows
    return {"whole": round(time.perf_counter() - began, 3), "rows": rows, **figures(result.report)}


def figures(report: Mapping[str, Any]) -> dict[str, object]:
    """What a peer's report says of a run."""
    stages = report.get("stages") or []
    return {
        "seconds": report["wall_s"],
        "boot": report.get("boot_s"),
        "prompts": sum(stage.get("evaluated", stage.get("tuples", 0)) for stage in stages),
        "fresh_tokens": report.get("fresh_tokens"),
        "cached_tokens": report.get("cached_tokens"),
        "anchor": next((stage["anchor"] for stage in stages if stage.get("anchor")), None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engine", choices=tuple(BACKENDS))
    parser.add_argument("model", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--only", default=",".join(QUERIES), help="workloads, with commas between them")
    parser.add_argument("--repeats", type=int, default=2, help="rounds after the first")
    parser.add_argument("--once", default="", help="workloads that run last, and once")
    wished = parser.parse_args()
    once = [name for name in wished.once.split(",") if name]
    chosen = [name for name in wished.only.split(",") if name not in once]
    rounds = [(name, repeat) for repeat in range(wished.repeats + 1) for name in chosen]
    if unknown := {*chosen, *once} - set(QUERIES):
        parser.error(f"no workload {min(unknown)!r}; there are: {', '.join(QUERIES)}")
    with session(wished.engine, wished.model) as opened:
        register(opened, wished.tables)
        for name, repeat in [*rounds, *((name, 0) for name in once)]:
            about = {"engine": wished.engine, "prompts_of": "peer", "workload": name, "repeat": repeat}
            print("RESULT", json.dumps({**about, **run(opened, QUERIES[name])}), flush=True)


if __name__ == "__main__":
    main()
