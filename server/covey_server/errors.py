"""Exceptions of every layer in, a status code and one line of text out; never a traceback or a path."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import quote

import duckdb
import pyarrow as pa
from covey_engine.operators import errors as operators
from covey_engine.prefill import errors as prefill
from covey_planner import errors as planner
from covey_storage import errors as storage
from covey_storage.storable import NotStorable
from google.protobuf.message import DecodeError
from grpc import StatusCode


class StartupError(Exception):
    """The server cannot start; the message is one line."""


class ServerError(Exception):
    """A request cannot be served; the message is one line fit for a user."""


class BadRequest(ServerError):
    """The request makes no sense as it stands."""


class Refused(ServerError):
    """A statement or function that SQL users may not use."""


class NoSuchThing(ServerError):
    """An unknown or expired handle."""


class AlreadyThere(ServerError):
    """What was to be created exists."""


class Unsupported(ServerError):
    """A part of the protocol that is not implemented."""


class TransactionAborted(ServerError):
    """What a transaction wrote cannot be committed."""


class Stopped(ServerError):
    """The query was cancelled by its client."""


class ShuttingDown(ServerError):
    """The server is going down."""


class NoRoom(ServerError):
    """A disk is full, or cannot be written to; the message names the place."""


class DatabaseLost(ServerError):
    """DuckDB has given up the database while the statement ran, which may be run again."""


class DatabaseBroken(ServerError):
    """DuckDB has given up the database because of this statement."""


CODES: tuple[tuple[type[BaseException], StatusCode], ...] = (
    # The first match wins, so subclasses stand before their bases.
    (BadRequest, StatusCode.INVALID_ARGUMENT),
    (Refused, StatusCode.PERMISSION_DENIED),
    (NoSuchThing, StatusCode.NOT_FOUND),
    (AlreadyThere, StatusCode.ALREADY_EXISTS),
    (Unsupported, StatusCode.UNIMPLEMENTED),
    (TransactionAborted, StatusCode.ABORTED),
    (Stopped, StatusCode.CANCELLED),
    (ShuttingDown, StatusCode.UNAVAILABLE),
    (NoRoom, StatusCode.RESOURCE_EXHAUSTED),
    (DatabaseLost, StatusCode.UNAVAILABLE),
    (DatabaseBroken, StatusCode.INTERNAL),
    (planner.PlanError, StatusCode.INVALID_ARGUMENT),
    (operators.QueryCancelled, StatusCode.CANCELLED),
    (operators.ContextOverflow, StatusCode.INVALID_ARGUMENT),
    (operators.OperatorError, StatusCode.INTERNAL),
    (prefill.Cancelled, StatusCode.CANCELLED),
    (prefill.WorkerCrashed, StatusCode.UNAVAILABLE),
    (prefill.OutOfDeviceMemory, StatusCode.RESOURCE_EXHAUSTED),
    (prefill.EngineError, StatusCode.INTERNAL),
    (storage.NotFound, StatusCode.NOT_FOUND),
    (NotStorable, StatusCode.INVALID_ARGUMENT),
    (storage.StorageError, StatusCode.INTERNAL),
    (duckdb.InterruptException, StatusCode.CANCELLED),
    (duckdb.OutOfMemoryException, StatusCode.RESOURCE_EXHAUSTED),
    (duckdb.PermissionException, StatusCode.PERMISSION_DENIED),
    (duckdb.TransactionException, StatusCode.ABORTED),
    (duckdb.NotSupportedError, StatusCode.UNIMPLEMENTED),
    (duckdb.ProgrammingError, StatusCode.INVALID_ARGUMENT),
    (duckdb.DataError, StatusCode.INVALID_ARGUMENT),
    (duckdb.IntegrityError, StatusCode.INVALID_ARGUMENT),
    (duckdb.DependencyException, StatusCode.INVALID_ARGUMENT),
    (duckdb.SequenceException, StatusCode.INVALID_ARGUMENT),
    (duckdb.Error, StatusCode.INTERNAL),
    (DecodeError, StatusCode.INVALID_ARGUMENT),
    (pa.ArrowInvalid, StatusCode.INVALID_ARGUMENT),
    (asyncio.CancelledError, StatusCode.CANCELLED),
)

# A DuckDB error that comes through an Arrow reader has lost its class and kept its first words.
_BY_FIRST_WORDS: tuple[tuple[str, StatusCode], ...] = (
    ("INTERRUPT", StatusCode.CANCELLED),
    ("Out of Memory", StatusCode.RESOURCE_EXHAUSTED),
    ("Permission", StatusCode.PERMISSION_DENIED),
    ("TransactionContext", StatusCode.ABORTED),
    ("Not implemented", StatusCode.UNIMPLEMENTED),
    ("Conversion", StatusCode.INVALID_ARGUMENT),
    ("Out of Range", StatusCode.INVALID_ARGUMENT),
    ("Constraint", StatusCode.INVALID_ARGUMENT),
    ("Invalid Input", StatusCode.INVALID_ARGUMENT),
    ("Binder", StatusCode.INVALID_ARGUMENT),
    ("Catalog", StatusCode.INVALID_ARGUMENT),
    ("Parser", StatusCode.INVALID_ARGUMENT),
    ("Mismatch Type", StatusCode.INVALID_ARGUMENT),
)

_NO_ROOM = ("No space left on device", "Disk quota exceeded", "File too large")
"""What the system says of a write that has no room, in the errors of DuckDB and of the storage."""

_WRITING = ("IO Error", "TransactionContext Error", "FATAL Error")
"""How DuckDB's errors begin that may be of a write, and quote no values."""

_LARGE = "maximum total string size for regular string buffers"
_TOO_LARGE = (
    "128 neighbouring rows of the result hold more than 2 GiB of text, which no Arrow batch can: "
    "select fewer of the long ones at once, or parts of them"
)

_HEADER_BYTES = 6000
"""How long a message may be as a header."""

_LOOKED_AT = 1 << 16
"""Characters of a message that are worth a look."""

_PATH = re.compile(r"(?<![\w/.:])/(?:[\w.@+-]+/)+([\w.@+-]+)")
_TRACE = re.compile(
    r"\n+Stack Trace:.*|\n+Possible solutions:.*|\n+This error signals an assertion failure within DuckDB.*",
    re.DOTALL,
)
_UNKNOWN = re.compile(
    r'(Function with name (ai_\w+|prompt) does not exist!)(?: Did you mean "[^"]*"\?)?', re.I
)
_AI_FUNCTIONS = (
    "AI_FILTER, AI_SCORE, AI_CLASSIFY, AI_SENTIMENT, AI_COUNT_TOKENS, and AI.IF, AI.SCORE, AI.CLASSIFY"
)
_EXCERPT = re.compile(r"\n+LINE (\d+):[^\n]*(?:\n[ ^~]*)?")


@dataclass(frozen=True)
class Status:
    """What a client is told."""

    code: StatusCode
    message: str


def status_of(error: BaseException) -> Status:
    """The status and the one line that a client gets for an exception."""
    found = _status(error)
    return Status(found.code, _short(found.message))


def _status(error: BaseException) -> Status:
    text = str(error)
    if any(said in text for said in _NO_ROOM) and (
        text.startswith(_WRITING) or isinstance(error, storage.StorageError)
    ):
        return Status(StatusCode.RESOURCE_EXHAUSTED, one_line(text))
    if isinstance(error, duckdb.Error | OSError | operators.StatementFailed):
        for words, code in _BY_FIRST_WORDS:
            if text.startswith(f"{words} Error"):
                return Status(code, one_line(text))
    if type(error) is duckdb.Error:
        # What DuckDB has no class for is about the statement, such as a parameter where none may stand.
        return Status(StatusCode.INVALID_ARGUMENT, one_line(text))
    if _LARGE in text:
        return Status(StatusCode.INVALID_ARGUMENT, _TOO_LARGE)
    for kind, code in CODES:
        if isinstance(error, kind):
            return Status(code, one_line(text))
    return Status(StatusCode.INTERNAL, "internal error: the server's log has the details")


def _short(text: str) -> str:
    """A message that fits into a header, where every byte but visible ASCII takes three: its middle is left out.

    Errors quote values, and clients drop a status whose headers are longer than 8 KiB: all that they tell is that.
    """
    if len(text) <= _HEADER_BYTES and len(quote(text)) <= _HEADER_BYTES:
        return text
    # A character takes 12 bytes at most.
    head, tail = text[: _HEADER_BYTES // 18], text[-_HEADER_BYTES // 36 :]
    return f"{head} [… {len(text) - len(head) - len(tail)} characters left out …] {tail}"


def one_line(text: str) -> str:
    """A message without line breaks, source excerpts, stack traces or folders of this machine."""
    if len(text) > _LOOKED_AT:
        # A value of some megabytes would keep the process busy for seconds.
        text = f"{text[: _LOOKED_AT // 2]} … {text[-_LOOKED_AT // 2 :]}"
    text = _EXCERPT.sub(lambda found: f" (line {found[1]})", _TRACE.sub("", text.strip()))
    text = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return _UNKNOWN.sub(_suggested, _PATH.sub(r"\1", text))


def _suggested(found: re.Match[str]) -> str:
    """What to write instead of a function that DuckDB compares with its own alone."""
    if found[2].lower() == "prompt":
        return f"{found[1]} PROMPT stands in an AI function: AI_FILTER(PROMPT('… {{0}} …', column))"
    return f"{found[1]} There is {_AI_FUNCTIONS}"
