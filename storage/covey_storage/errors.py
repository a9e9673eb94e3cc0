"""Errors of the storage layer: each message is one line for a user that names the path, table or column."""


class StorageError(Exception):
    """What is stored could not be opened, read or written."""


class NotFound(StorageError):
    """A model, file, table or column is not there."""


class Damaged(StorageError):
    """A file of a token column is not what was written."""


class Locked(StorageError):
    """Another process holds the database."""
