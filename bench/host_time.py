"""Statements through the real client, server and worker, over a device that only takes time; a timeline comes out.

    python bench/host_time.py TOKENIZER [--only traces,filter] [--repeats 30] [--against TREE] [--us 9.75]

TOKENIZER is a folder with a tokenizer.json. The tables and the options are those of `bench/end_to_end.py`, but for
the number of documents. What a statement takes beyond its device's time is the host's part that nothing hides. Each
statement runs twice before it counts. With --against, a server of another checkout runs the same statements in turns
with this one's, since machines are shared: least and median are told for both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import covey
import psutil
import pyarrow.parquet as parquet
import workloads
from tokenizers import Tokenizer

PACKAGES = "storage", "planner", "engine", "server", "clients/python"
HERE = Path(__file__).parents[1]
AFTER = 2
"""Runs of a statement before it counts."""


@dataclass
class Run:
    """One execution. seconds: the client's; device: of its chunks; cpu: of server and worker; moments: by name, seconds
    since it began.
    """

    seconds: float
    device: float
    chunks: int
    tokens: int
    cpu: float
    moments: dict[str, list[float]]

    @property
    def host(self) -> float:
        """What the device does not account for."""
        return self.seconds - self.device


@dataclass
class Side:
    """A server of a checkout, with its events, and the runs of each workload."""

    name: str
    events: Path
    process: psutil.Process
    connection: covey.Connection
    runs: dict[str, list[Run]] = field(default_factory=dict)
    _read: int = 0

    def run(self, sql: str) -> Run:
        """Execute a statement and read what was noted meanwhile."""
        self._lines()
        cpu = self._cpu()
        began = time.monotonic_ns()
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            executed = time.monotonic_ns()
            cursor.fetch_arrow_table()
        ended = time.monotonic_ns()
        time.sleep(0.02)
        moments: dict[str, list[float]] = {"executed": [(executed - began) / 1e9]}
        device, tokens, chunks = 0.0, 0, 0
        for line in self._lines():
            at, name, *more = line.rstrip().split("|")
            moments.setdefault(name, []).append((int(at) - began) / 1e9)
            if more:
                device, tokens, chunks = device + float(more[1]), tokens + int(more[0]), chunks + 1
        moments["ended"] = [(ended - began) / 1e9]
        return Run((ended - began) / 1e9, device, chunks, tokens, self._cpu() - cpu, moments)

    def _cpu(self) -> float:
        """CPU seconds of the server and its worker so far, in steps of 10 ms."""
        whole = (self.process, *self.process.children(recursive=True))
        return sum(times.user + times.system for times in (one.cpu_times() for one in whole))

    def _lines(self) -> list[str]:
        with self.events.open() as file:
            file.seek(self._read)
            lines = file.readlines()
            self._read = file.tell()
        return lines


@contextmanager
def server(tree: Path, folder: Path, tokenizer: Path, us: float, ms: float) -> Iterator[Side]:
    """A running server of a checkout."""
    folder.mkdir()
    ready, events = folder / "ready", folder / "events"
    paths = [str(tree / package) for package in PACKAGES] + [
        str(HERE / "bench"),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(paths),
        "HOST_EVENTS": str(events),
        "HOST_US": str(us),
        "HOST_MS": str(ms),
    }
    command = [
        sys.executable,
        str(HERE / "bench" / "host_events.py"),
        "--port",
        "0",
        "--ready-file",
        str(ready),
    ]
    command += [
        "--model",
        str(tokenizer),
        "--data",
        str(folder.parent / "tables"),
        "--profile",
        "qwen3_short",
    ]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        while not ready.exists():
            if process.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.05)
        with covey.connect(ready.read_text().strip()) as connection:
            yield Side(str(tree), events, psutil.Process(process.pid), connection)
    finally:
        process.terminate()
        process.wait(30)


def timeline(runs: Sequence[Run]) -> Iterator[str]:
    """The moments of a statement's life in their order: least and median over its runs, milliseconds.

    Of a moment that comes more than once, the first and the last.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, times in run.moments.items():
            found.setdefault(name, []).append(times[0])
            if len(times) > 1:
                found.setdefault(f"last {name}", []).append(times[-1])
    for name, times in sorted(found.items(), key=lambda item: statistics.median(item[1])):
        yield f"    {name:20} {min(times) * 1e3:9.2f} {statistics.median(times) * 1e3:9.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--only", default="traces,filter,join_terms,join_claims")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--us", type=float, default=9.75, help="the device's microseconds a token")
    parser.add_argument("--ms", type=float, default=0.0, help="and milliseconds a chunk")
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--brief", action="store_true", help="no timelines")
    wished = parser.parse_args()
    chosen = [workload for workload in workloads.WORKLOADS if workload.name in wished.only.split(",")]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "tables").mkdir()
        for table, rows in workloads.tables(
            Tokenizer.from_file(str(wished.tokenizer / "tokenizer.json"))
        ).items():
            kept = rows.slice(0, wished.documents) if table == "reviews" else rows
            parquet.write_table(kept, folder / "tables" / f"{table}.parquet")
        trees = [HERE] + ([wished.against.resolve()] if wished.against else [])
        sides = [
            stack.enter_context(server(tree, folder / str(n), wished.tokenizer, wished.us, wished.ms))
            for n, tree in enumerate(trees)
        ]
        for workload in chosen:
            for repeat in range(AFTER + wished.repeats):
                for side in sides if repeat % 2 else sides[::-1]:
                    run = side.run(workload.sql)
                    if repeat >= AFTER:
                        side.runs.setdefault(workload.name, []).append(run)
            for side in sides:
                report(side, workload.name, not wished.brief)


def report(side: Side, name: str, whole: bool) -> None:
    runs = side.runs[name]
    host = [run.host * 1e3 for run in runs]
    tenth = sorted(host)[len(host) // 10]
    cpu = statistics.mean(run.cpu for run in runs) * 1e3
    print(
        f"{name:12} host {min(host):7.1f} ms least, {tenth:7.1f} p10, {statistics.median(host):7.1f} median of "
        f"{len(runs)}, {cpu:.0f} ms of CPU; device {runs[-1].device:.3f} s, {runs[-1].chunks} chunks, "
        f"{runs[-1].tokens} tokens ({side.name})"
    )
    if whole:
        print("\n".join(timeline(runs)), flush=True)


if __name__ == "__main__":
    main()
