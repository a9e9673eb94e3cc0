"""Servers without a model, or with one that hashes prompts, for the tests of this folder, and connections to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pytest
from covey_engine.operators import groups, waves
from covey_server.core import AiSide, Core
from covey_server.guard import Guard
from covey_server.lifecycle import History
from covey_storage.catalog import Database
from support.hash_server import Host
from support.serving import ServerProcess, serve

ANIMALS = "name,legs,says\nowl,2,hoot\ncat,4,purr\nbee,6,buzz\n"

Connect = Callable[..., dbapi.Connection]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serves ordinary SQL on a database in memory with the table `animals`."""
    folder = tmp_path_factory.mktemp("server")
    data = folder / "data"
    data.mkdir()
    (data / "animals.csv").write_text(ANIMALS)
    process = serve(folder, "--model", "none", "--data", str(data), "--slice-bytes", str(1 << 20))
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.output()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Starts servers with a model that hashes prompts."""
    found = Host()
    yield found
    found.close()


@pytest.fixture
def connect(server: ServerProcess) -> Iterator[Connect]:
    """Opens connections that are closed after the test."""
    with ExitStack() as stack:

        def open_one(**options: object) -> dbapi.Connection:
            return stack.enter_context(dbapi.connect(server.uri, **options))

        yield open_one


@pytest.fixture
def connection(connect: Connect) -> dbapi.Connection:
    """A connection that commits each statement."""
    return connect(autocommit=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for a server of the test's own."""
    return tmp_path


@pytest.fixture
def model() -> AiSide | None:
    """What answers AI calls in `core`: nothing, unless a module says otherwise."""
    return None


@pytest.fixture
def core(model: AiSide | None) -> Iterator[Core]:
    """What queries share, over a database in memory."""
    database = Database.open()
    cursor = database.cursor()
    guard = Guard(cursor)
    yield Core(database, guard, History(10), model, 1 << 20)
    cursor.close()
    guard.close()
    database.close()


@pytest.fixture
def small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is asked at a time, so that small tables show where asking ends."""
    for module in (groups, waves):
        monkeypatch.setattr(module, "LEAST", 8)


@pytest.fixture
def channel(server) -> Iterator[grpc.Channel]:
    """A channel of plain gRPC to the server."""
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as opened:
        yield opened
