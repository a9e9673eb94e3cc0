"""The Covey client: `connect` to a server, run AI-SQL, read Arrow back; nothing of the server is imported.

The module is a DB-API 2.0 driver. Its names are loaded when first used: the Arrow driver takes seconds to
import where pandas or polars are installed, and `covey serve` does without it.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from covey.address import DEFAULT_URI

if TYPE_CHECKING:
    from covey.connection import (
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
        connect,
    )
    from covey.figures import Run

__version__ = metadata.version("covey")

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

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


def __getattr__(name: str) -> Any:
    """Load a public name where it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'covey' has no attribute {name!r}")
    return getattr(import_module("covey.figures" if name == "Run" else "covey.connection"), name)
