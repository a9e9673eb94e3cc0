"""An exception goes in, the one line that a person is shown comes out, without the driver's wrapping."""

from __future__ import annotations

import re

# The driver says `INVALID_ARGUMENT: [FlightSQL] what the server said (InvalidArgument; ExecuteQuery)`.
BEFORE = re.compile(r"^[A-Z_]+: (\[FlightSQL\] )?")
CODES = """
    Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied
    ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss
    Unauthenticated"""
AFTER = re.compile(rf" \((?:{'|'.join(CODES.split())}); .*\)(\. Vendor code: -?\d+)?$")


def one_line(error: BaseException) -> str:
    """Return what went wrong as a single line, without the driver's prefix and suffix."""
    text = " ".join(str(error).split())
    text = AFTER.sub("", BEFORE.sub("", text))
    return text or type(error).__name__
