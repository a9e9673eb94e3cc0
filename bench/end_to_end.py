"""Whole queries through the real client and server: seconds from execute to the last batch, and tokens, come out.

    python bench/end_to_end.py MODEL [--dtype fp8] [--repeats 3] [--only filter,join_terms] [--scale 0.01]

MODEL is a Hugging Face folder with a tokenizer.json. The server runs as a process of its own; each query runs once to
build its token columns and to warm up, then `repeats` times. Nothing is kept between runs but the token columns.
With --name, a line of figures that `bench/peers/summary.py` reads goes out after each run too.
The datasheet limit counts two operations a weight of the linear layers and token at 1,979 TFLOP/s (fp8), for the fresh
tokens; it leaves attention out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import covey
import workloads
from measure import energy

FP8_FLOPS = 1979e12


@contextmanager
def server(folder: Path, *arguments: str) -> Iterator[str]:
    """A running server's address; its log stays in the folder."""
    ready = folder / "ready"
    command = [sys.executable, "-m", "covey_server", "--port", "0", "--ready-file", str(ready), *arguments]
    began = time.perf_counter()
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        while not ready.exists():
            if process.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.05)
        print(f"ready after {time.perf_counter() - began:.1f} s")
        print((folder / "server.log").read_text().strip(), flush=True)
        yield ready.read_text().strip()
    finally:
        process.terminate()
        process.wait(30)


def linear_flops(config: dict[str, int]) -> float:
    """Floating-point operations a token in a model's linear layers."""
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    attention = hidden * size * (2 * heads + 2 * kv_heads)
    return 2.0 * config["num_hidden_layers"] * (attention + 3 * hidden * inner)


def figures(connection: covey.Connection, sql: str) -> tuple[int, int, int, float]:
    """Prompts, their tokens, fresh tokens and device seconds of the last run of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT prompts, prompt_tokens, fresh_tokens, device_seconds FROM covey_queries WHERE sql = ? "
            "ORDER BY started DESC LIMIT 1",
            (sql,),
        )
        prompts, prompt_tokens, fresh, device = cursor.fetchone()
    return prompts, prompt_tokens, fresh, device


def measure(
    connection: covey.Connection,
    workload: workloads.Workload,
    repeats: int,
    flops: float,
    about: dict[str, str],
) -> None:
    """Run a query 1 + repeats times and print its figures, for a program too where `about` says whose they are."""
    seconds: list[float] = []
    for repeat in range(repeats + 1):
        joules, began = energy(), time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute(workload.sql)
            rows = cursor.fetch_arrow_table().num_rows
        seconds.append(time.perf_counter() - began)
        joules = energy() - joules
        prompts, prompt_tokens, fresh, device = figures(connection, workload.sql)
        print(
            f"{workload.name:14} {'first' if repeat == 0 else repeat:>5}: {seconds[-1]:8.3f} s, "
            f"device {device:8.3f} s, {rows} rows, {prompts} prompts, {prompt_tokens} tokens, "
            f"{fresh} fresh, {joules / max(fresh, 1) * 1e3:.2f} mJ a token",
            flush=True,
        )
        if about:
            known = {"seconds": round(seconds[-1], 3), "prompts": prompts, "prompt_tokens": prompt_tokens}
            known |= {"fresh_tokens": fresh, "device": device, "rows": rows}
            print(
                "RESULT",
                json.dumps({**about, "workload": workload.name, "repeat": repeat, **known}),
                flush=True,
            )
    median = statistics.median(seconds[1:])
    limit = fresh * flops / FP8_FLOPS
    print(
        f"{workload.name:14} median {median:.3f} s, {median / max(fresh, 1) * 1e6:.2f} us a fresh token, "
        f"{limit / median:.1%} of the datasheet limit of its linear layers ({limit:.2f} s)",
        flush=True,
    )


def options(description: str | None) -> argparse.ArgumentParser:
    """What a run of the workloads can be told."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--profile", default="qwen3_short")
    parser.add_argument("--only", default="", help="workloads, by name, with commas between them")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a look")
    return parser


@contextmanager
def serving(
    wished: argparse.Namespace, *more: str
) -> Iterator[tuple[Path, covey.Connection, list[workloads.Workload]]]:
    """A server on the workloads' tables: its folder, a connection, and the workloads that are wished for."""
    names = wished.only.split(",") if wished.only else [workload.name for workload in workloads.WORKLOADS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workloads.write(folder / "tables", wished.model / "tokenizer.json", wished.scale)
        arguments = ["--model", str(wished.model), "--data", str(folder / "tables")]
        arguments += ["--profile", wished.profile, "--dtype", wished.dtype, "--device", wished.device]
        with server(folder, *arguments, *more) as address, covey.connect(address) as connection:
            yield folder, connection, [each for each in workloads.WORKLOADS if each.name in names]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--name", default="", help="whose figures they are, for bench/peers/summary.py")
    parser.add_argument("--prompts-of", default="own", help="whose prompts the profile says, likewise")
    parser.add_argument("--repeats", type=int, default=3)
    wished = parser.parse_args()
    flops = linear_flops(json.loads((wished.model / "config.json").read_text()))
    about = {"engine": wished.name, "prompts_of": wished.prompts_of} if wished.name else {}
    with serving(wished) as (folder, connection, chosen):
        for workload in chosen:
            measure(connection, workload, wished.repeats, flops, about)
        print((folder / "server.log").read_text()[-2000:])


if __name__ == "__main__":
    main()
