"""The Covey client: `connect` to a server, run AI-SQL, read Arrow back; nothing of the server is imported."""

from __future__ import annotations

from importlib.metadata import version

from covey.connection import (
    DEFAULT_URI,
    Connection,
    Cursor,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    UnreachableError,
    Warning,
    apilevel,
    connect,
    paramstyle,
    threadsafety,
)
from covey.figures import Run

__version__ = version("covey")

__all__ = [
    "DEFAULT_URI",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Run",
    "UnreachableError",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
