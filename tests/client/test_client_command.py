"""The `covey` command without a server: usage, and what it says where no server answers or is installed."""

from __future__ import annotations

import importlib.metadata
import socket
from collections.abc import Iterator

import covey
import pytest
from covey import cli


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that nobody listens on: bound, never listening, until the test ends."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize("command", [["sql", "select 1"], ["status"], ["shell"], ["demo"]])
def test_no_server_is_one_line_that_says_how_to_start_one(
    command: list[str], free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command, "--uri", f"grpc://127.0.0.1:{free_port}"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        f"covey: no server answers at 127.0.0.1:{free_port} (connection refused); start one:"
    )
    assert f"covey serve --port {free_port}" in said


def test_connect_raises_the_same(free_port: int) -> None:
    with pytest.raises(covey.UnreachableError, match=f"127.0.0.1:{free_port}") as error:
        covey.connect(f"127.0.0.1:{free_port}")
    assert isinstance(error.value, covey.OperationalError)


@pytest.mark.parametrize("tag", ["it's", "a b", "x" * 65, "é"])
def test_a_tag_that_is_none_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="is not a tag"):
        covey.connect(tag=tag)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql", "select 1", "--uri", "http://x"], "'http://x' is not an address"),
        (["sql", "select 1", "--format", "xml"], "invalid choice"),
        (["nonsense"], "invalid choice"),
        ([], "required"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_code:
        cli.main(arguments)
    assert exit_code.value.code == 2
    assert said in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        cli.main(["--help"])
    assert exit_code.value.code == 0
    shown = capsys.readouterr().out
    for command in ("sql", "shell", "status", "demo", "serve", "model"):
        assert f"\n    {command} " in shown


def test_nothing_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", " -- nothing\n;"]) == 1
    assert capsys.readouterr().err == "covey: there is no statement to run\n"


def test_without_the_server_extra_serve_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = importlib.metadata.EntryPoint("serve", "covey_server_that_is_not_there.cli:serve", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [point])
    assert cli.main(["serve"]) == 1
    said = capsys.readouterr().err
    assert said.endswith('pip install "covey[server]"\n')
    assert "covey_server_that_is_not_there" in said


def test_server_commands_get_the_rest_of_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("model", "builtins:len", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [point])
    assert cli.main(["model", "--port", "0", "x"]) == 3
