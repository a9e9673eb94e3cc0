"""One server with the embedded model and the demo's tables, for all the client's tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import covey
import pytest
from covey.demo.server import DATA
from support.serving import serve


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server listens."""
    server = serve(tmp_path_factory.mktemp("client"), "--data", str(DATA), ready_seconds=180)
    yield server.uri
    assert server.stop() == 0, server.output()


@pytest.fixture
def connection(uri: str) -> Iterator[covey.Connection]:
    """A connection of the test's own."""
    with covey.connect(uri) as opened:
        yield opened
