"""The configuration: where settings come from, what is refused, and that each is documented."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from covey_server.config import ServerConfig, device_dollars, load_config
from covey_server.errors import StartupError
from covey_server.estimating import Prices

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults(here: Path) -> None:
    config = load_config([])
    assert config == ServerConfig()
    assert (config.host, config.port, config.model) == ("127.0.0.1", 31337, "embedded")
    with pytest.raises(FrozenInstanceError):
        config.port = 1  # type: ignore[misc]


def test_the_file_wins_over_defaults_and_the_command_line_over_the_file(here: Path) -> None:
    (here / "covey.toml").write_text('port = 4000\nhistory = 5\nhang_seconds = 9\ndata = ["in"]\n')
    config = load_config(["--port", "5000"])
    assert (config.port, config.history, config.hang_seconds) == (5000, 5, 9.0)
    assert Path(config.data[0]) == Path("in")


def test_a_named_file_is_read_instead_and_its_paths_are_its_own(here: Path) -> None:
    (here / "covey.toml").write_text("port = 4000")
    other = here / "conf" / "other.toml"
    other.parent.mkdir()
    (other.parent / "weights").mkdir()
    other.write_text('database = "shop.duckdb"\ndata = ["in", "/abs"]\nmodel = "weights"\n')
    config = load_config(["--config", str(other)])
    assert config.port == 31337
    assert config.database == str(other.parent / "shop.duckdb")
    assert config.data == (str(other.parent / "in"), "/abs")
    assert config.model == str(other.parent / "weights")


def test_a_profile_file_is_found_from_the_file_that_names_it(here: Path) -> None:
    (here / "covey.toml").write_text('profile = "mine.toml"')
    assert load_config(["--config", str(here / "covey.toml")]).profile == str(here / "mine.toml")
    (here / "covey.toml").write_text('profile = "qwen3_short"')
    assert load_config([]).profile == "qwen3_short"


def test_a_file_that_names_no_model_leaves_the_default(here: Path) -> None:
    (here / "other.toml").write_text("port = 1")
    assert load_config(["--config", "other.toml"]).model == load_config([]).model


def test_a_repository_or_embedded_is_no_path(here: Path) -> None:
    for name in ("embedded", "none", "Qwen/Qwen3-4B"):
        (here / "covey.toml").write_text(f'model = "{name}"')
        assert load_config([]).model == name


def test_several_data_folders(here: Path) -> None:
    assert load_config(["--data", "a", "b", "--data", "c"]).data == ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "covey.toml: unknown key 'prot'"),
        ('port = "1"', "covey.toml: port: expected a whole number, found '1'"),
        ("port = true", "covey.toml: port: expected a whole number, found True"),
        ("history = 0", "covey.toml: history: 0 is less than 1"),
        ("sql_threads = 100000", "covey.toml: sql_threads: 100000 is more than 1024"),
        ('device = "tpu"', "covey.toml: device: 'tpu' is none of auto, cpu, cuda"),
        ("data = [1]", "covey.toml: data: expected a list of paths"),
        ("port = 70000", "port: 70000 is not a port"),
        ("[server]\nport = 1", "covey.toml: unknown key 'server'"),
    ],
)
def test_what_is_wrong_is_named(here: Path, text: str, said: str) -> None:
    (here / "covey.toml").write_text(text)
    with pytest.raises(StartupError, match=re.escape(said)):
        load_config([])


def test_every_setting_is_documented_with_its_default() -> None:
    documented = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", DOCS.read_text("utf-8"), re.MULTILINE))
    expected = {}
    for field in fields(ServerConfig):
        value = getattr(ServerConfig(), field.name)
        text = "[]" if value == () else f'"{value}"' if isinstance(value, str) else str(value)
        expected[field.name] = text
    assert documented == expected


def test_prices_by_device(here: Path) -> None:
    (here / "covey.toml").write_text('dollars_per_hour = 2\ndevice_dollars = "H200 = 3.5, l40s=0.9"\n')
    config = load_config([])
    assert config.dollars_per_hour == 2.0
    prices = Prices(config.dollars_per_hour, device_dollars(config.device_dollars))
    assert [prices.of(name) for name in ("NVIDIA H200", "NVIDIA L40S", "cpu")] == [3.5, 0.9, 2.0]
    assert Prices().of("cpu") == 0


@pytest.mark.parametrize("text", ["H200", "H200=", "H200=dear", "=3", "H200=-1", "H200=inf", "H200=nan"])
def test_a_price_that_is_none_is_named(here: Path, text: str) -> None:
    with pytest.raises(StartupError, match=f"device_dollars: '{text}' is no price such as H200=3.5"):
        load_config(["--device-dollars", f"L40S=1, {text}"])
