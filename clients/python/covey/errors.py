"""An exception goes in, the one line that a person is shown comes out, without the driver's wrapping."""

from __future__ import annotations

import re

# The driver says `INVALID_ARGUMENT: [FlightSQL] what the server said (InvalidArgument; ExecuteQuery)`, and of what
# fails while rows arrive only the latter part.
BEFORE = re.compile(r"^(?:[A-Z_]+: )?(?:\[FlightSQL\] )?")
CODES = """
    Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied
    ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss
    Unauthenticated"""
AFTER = re.compile(rf" \((?:{'|'.join(CODES.split())}); .*\)(\. Vendor code: -?\d+)?$")
# A statement that fails because its server is gone cannot be closed there either: the first failure tells more.
CLOSING = "; ClosePreparedStatement)"


def one_line(error: BaseException) -> str:
    """Return what went wrong as a single line, without the driver's prefix and suffix."""
    if CLOSING in str(error) and error.__context__ is not None:
        error = error.__context__
    text = " ".join(str(error).split())
    text = AFTER.sub("", BEFORE.sub("", text))
    return text or type(error).__name__
