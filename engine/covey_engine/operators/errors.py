"""Errors of the operators; each message is one line fit for a user; the server maps the types."""


class OperatorError(Exception):
    """A physical plan could not be executed."""


class ContextOverflow(OperatorError):
    """A prompt is longer than the model's context; nothing was submitted."""


class RowFailed(OperatorError):
    """The model gave no finite answer for a row."""


class StatementFailed(OperatorError):
    """DuckDB stopped in the middle of a result; the message is DuckDB's own."""


class QueryCancelled(OperatorError):
    """The query was cancelled while it ran."""
