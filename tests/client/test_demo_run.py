"""`covey demo` as a person runs it: five results, its token budget, nothing left behind; and how it fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from covey import cli
from covey.demo.queries import QUERIES
from support.serving import serve

BUDGET = 60_000  # fresh tokens of all five queries


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """Start the demo in a folder that is also the place of its temporary files."""
    return subprocess.Popen(
        [sys.executable, "-m", "covey", "demo"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "160"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Files in the folder, and processes that name it."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [path.name for path in folder.iterdir()] + [line for line in lines if str(folder) in line]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_demo_gives_five_results_within_its_budget(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    shown, said = demo.communicate()
    assert demo.returncode == 0, said + shown
    assert said == ""
    for query in QUERIES:
        assert query.title.split(":")[0] in shown
        assert query.sql.splitlines()[0] in shown
    figures = re.findall(
        r"^(\d+) rows?, (?:no|([\d,]+) fresh and ([\d,]+) shared) tokens, [\d.]+ s$", shown, re.M
    )
    assert [bool(fresh) for _, fresh, _ in figures] == [query.asks for query in QUERIES]
    assert sum(int(fresh.replace(",", "")) for _, fresh, _ in figures if fresh) <= BUDGET
    assert shown.count("Sharing saved") == 4
    assert "for trying" in shown
    assert left_behind(tmp_path) == []


def test_demo_that_is_ended_ends_its_server(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    assert demo.stdout is not None
    assert any("It listens on" in line for line in demo.stdout)
    assert left_behind(tmp_path) != []
    demo.send_signal(signal.SIGTERM)
    demo.communicate(timeout=60)
    assert demo.returncode == 128 + signal.SIGTERM
    assert left_behind(tmp_path) == []


def test_demo_on_a_server_without_its_tables_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(tmp_path, "--model", "none")
    try:
        assert cli.main(["demo", "--uri", server.uri]) == 1
    finally:
        server.stop()
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("covey: query 1 failed: ")
    assert any("covey serve --data" in line for line in said)
    assert said[-1] == "covey: 5 of the demo's 5 queries failed"
