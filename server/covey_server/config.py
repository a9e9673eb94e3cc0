"""Defaults, `covey.toml` and the command line in, one frozen configuration out; never opens what it names."""

from __future__ import annotations

import argparse
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from covey_server.errors import StartupError

NO_MODEL = "none"
"""The model's name where the server is to run ordinary SQL only."""

_DEFAULT_FILE = Path("covey.toml")
_MOST_THREADS = 1024
"""More would only take memory: they are started at once, whatever the machine has."""


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A field of the configuration. low, high: the smallest and largest value allowed; choices: the values allowed."""
    metadata = {"help": help, "low": low, "high": high, "choices": tuple(choices)}
    if isinstance(default, list):
        return field(default_factory=tuple, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class ServerConfig:
    """Every setting of the server.

    In `covey.toml` the keys are these names; on the command line `--some-name`.
    """

    model: str = setting(
        "embedded", "folder, GGUF file or Hugging Face repository; `none`: ordinary SQL only"
    )
    database: str = setting("", "DuckDB file; empty: in memory, gone when the server stops")
    data: tuple[str, ...] = setting([], "folders and files that become tables")
    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(31337, "port to listen on; 0 picks a free one", low=0)
    profile: str = setting(
        "", "prompt profile, by name or as a .toml file; empty: the default of the model's family"
    )
    device: str = setting("auto", "where the model runs", choices=("auto", "cpu", "cuda"))
    dtype: str = setting("auto", "numbers of the model", choices=("auto", "float32", "bfloat16", "fp8"))
    backend: str = setting("auto", "runner of the model", choices=("auto", "reference", "hopper"))
    arena_bytes: int = setting(0, "memory of the key-value arena; 0: sized by the device", low=0)
    chunk_tokens: int = setting(0, "tokens of one forward pass; 0: chosen by the device", low=0)
    threads: int = setting(0, "CPU threads of the model; 0: all cores", low=0, high=_MOST_THREADS)
    hang_seconds: float = setting(120.0, "a forward pass longer than this means the worker is lost", low=1)
    calibrate: str = setting(
        "auto",
        "when the device's rates are measured at the start: auto (once for a database file), always, never",
        choices=("auto", "always", "never"),
    )
    dollars_per_hour: float = setting(0.0, "price of the model's device, for EXPLAIN; 0: none", low=0)
    device_dollars: str = setting("", "prices by device, such as `H200=3.5, L40S=0.9`, before the one above")
    sql_memory: str = setting("", "DuckDB's memory limit, such as `4GB`; empty: DuckDB's own default")
    sql_threads: int = setting(0, "DuckDB's threads; 0: all cores", low=0, high=_MOST_THREADS)
    slice_bytes: int = setting(2 << 20, "size of one message of a result", low=1 << 10, high=1 << 30)
    statement_bytes: int = setting(
        1 << 20, "longest statement; others wait while a long one is read", low=1 << 10, high=1 << 30
    )
    history: int = setting(1000, "queries kept in `covey_queries`", low=1)
    statement_ttl_seconds: float = setting(3600.0, "unused prepared statements are closed after this", low=1)
    transaction_ttl_seconds: float = setting(1800.0, "idle transactions are rolled back after this", low=1)
    ticket_ttl_seconds: float = setting(600.0, "results that nobody fetches are dropped after this", low=1)
    session_ttl_seconds: float = setting(7200.0, "unused sessions are forgotten after this", low=1)
    grace_seconds: float = setting(1.0, "running requests get this long to end when the server stops", low=0)
    ready_file: str = setting("", "file that gets the server's address once it is ready")


def load_config(argv: Sequence[str]) -> ServerConfig:
    """Defaults, overridden by the file, overridden by the command line.

    Raises StartupError; exits on --help.
    """
    given = vars(_parser().parse_args(argv))
    named = given.pop("config")
    path = Path(named) if named is not None else _DEFAULT_FILE
    values = _read(path) if named is not None or path.is_file() else {}
    values.update(
        {name: tuple(v) if isinstance(v, list) else v for name, v in given.items() if v is not None}
    )
    config = ServerConfig(**values)
    if config.port > 65535:
        raise StartupError(f"port: {config.port} is not a port")
    device_dollars(config.device_dollars)
    return config


def device_dollars(text: str) -> dict[str, float]:
    """Dollars per hour by a part of a device's name, from `H200=3.5, L40S=0.9`. Raises StartupError."""
    prices: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, price = (word.strip() for word in part.partition("="))
        try:
            prices[name] = float(price)
        except ValueError:
            prices[name] = -1.0
        if not name or not 0 <= prices[name] < float("inf"):
            raise StartupError(f"device_dollars: {part!r} is no price such as H200=3.5")
    return prices


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are one line, like everything else that is wrong."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and exiting."""
        raise StartupError(f"{message} (covey serve --help shows all arguments)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="covey serve", description="Serve AI-SQL over Arrow Flight SQL.", allow_abbrev=False
    )
    parser.add_argument(
        "--config", metavar="FILE", help="file with settings (default: covey.toml here, if there is one)"
    )
    for setting_ in fields(ServerConfig):
        kind = _kind(setting_.name)
        options: dict[str, Any] = {"type": _checked(setting_.name, kind), "metavar": kind.__name__.upper()}
        if setting_.name == "data":
            options |= {"nargs": "+", "action": "extend", "metavar": "PATH", "type": str}
        parser.add_argument(
            f"--{setting_.name.replace('_', '-')}",
            default=None,
            help=str(setting_.metadata["help"]).replace("%", "%%"),
            **options,
        )
    return parser


def _read(path: Path) -> dict[str, Any]:
    """The file's settings. Relative paths in it are meant from its folder."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StartupError(f"cannot read {path}: {error}") from None
    known = {setting_.name for setting_ in fields(ServerConfig)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise StartupError(f"{path}: unknown key {key!r}")
        try:
            values[key] = _value(key, value)
        except ValueError as error:
            raise StartupError(f"{path}: {key}: {error}") from None
    return _located(values, path.parent)


def _located(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    if values.get("database"):
        values["database"] = str(folder / Path(values["database"]).expanduser())
    if "data" in values:
        values["data"] = tuple(str(folder / Path(source).expanduser()) for source in values["data"])
    if values.get("profile", "").endswith(".toml"):
        values["profile"] = str(folder / Path(values["profile"]).expanduser())
    model = values.get("model")
    if model and (model.startswith((".", "~")) or (folder / model).exists()):
        values["model"] = str(folder / Path(model).expanduser())
    return values


def _kind(name: str) -> type:
    """The type of a setting, from its default."""
    if name == "data":
        return tuple
    default = next(setting_.default for setting_ in fields(ServerConfig) if setting_.name == name)
    return type(default)


def _checked(name: str, kind: type) -> Any:
    """A converter for argparse, which names the setting itself."""

    def convert(text: str) -> Any:
        try:
            return _value(name, kind(text))
        except ValueError as error:
            reason = str(error)
            raise argparse.ArgumentTypeError(
                reason if "literal" not in reason and "convert" not in reason else f"{text!r} is not a number"
            ) from None

    return convert


def _value(name: str, value: Any) -> Any:
    """A setting's value, checked. Raises ValueError."""
    kind = _kind(name)
    if kind is tuple:
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError("expected a list of paths")
        return tuple(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"expected {_NAMES[kind]}, found {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    rules: Mapping[str, Any] = next(f.metadata for f in fields(ServerConfig) if f.name == name)
    if rules["low"] is not None and value < rules["low"]:
        raise ValueError(f"{value} is less than {rules['low']}")
    if rules["high"] is not None and value > rules["high"]:
        raise ValueError(f"{value} is more than {rules['high']}")
    if rules["choices"] and value not in rules["choices"]:
        raise ValueError(f"{value!r} is none of {', '.join(rules['choices'])}")
    return value


_NAMES = {str: "a text", int: "a whole number", float: "a number"}
