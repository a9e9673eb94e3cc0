"""An upload's messages in, batches that hold together out; never touches SQL.

Arrow takes the lengths and offsets in a batch as they come, and whoever reads it reads where they point: outside of the
batch, or of the process's memory. So every batch is checked before anyone looks into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from google.protobuf.message import DecodeError

from covey_server.errors import BadRequest, ServerError
from covey_server.framing import Upload

_MALFORMED = pa.ArrowException, OSError, DecodeError, ValueError, MemoryError
"""What Arrow and protobuf raise on bytes that are none of theirs; some ask for more memory than there is."""


class Uploaded:
    """The batches of an upload, read as they come. failure: what ended them, which Arrow's readers do not pass on.

    Raises BadRequest where it does not begin with a schema.
    """

    def __init__(self, upload: Upload) -> None:
        self.failure: ServerError | None = None
        self._upload = upload
        try:
            self._source = pa.ipc.open_stream(upload)
            _check_names(_names(self._source.schema))
        except _MALFORMED as error:
            raise self._named(error, "the schema of the upload is malformed") from None
        self.schema: pa.Schema = self._source.schema
        self.reader = pa.RecordBatchReader.from_batches(self.schema, self._checked())

    def table(self) -> pa.Table:
        """All of them. Raises BadRequest for one that is malformed."""
        return self.reader.read_all()

    def _checked(self) -> Iterator[pa.RecordBatch]:
        number = 0
        while True:
            number += 1
            try:
                batch = self._source.read_next_batch()
                batch.validate(full=True)
            except StopIteration:
                return
            except _MALFORMED as error:
                self.failure = self._named(error, f"batch {number} of the upload is malformed")
                raise self.failure from None
            yield batch

    def _named(self, error: BaseException, what: str) -> ServerError:
        """What is wrong, for a user: what the upload itself ended with, else that it is malformed."""
        if isinstance(self._upload.failure, ServerError):
            return self._upload.failure
        said = str(error).partition(". Detail: ")[0]
        return BadRequest(f"{what}: {said}")


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """The names of fields and of what is in them. Raises UnicodeDecodeError for one that is no text."""
    for field in fields:
        # Arrow leaves it to whoever reads a name whether it is one.
        yield field.name
        yield from _names(field.type.field(at) for at in range(field.type.num_fields))


def _check_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name that DuckDB would cut off."""
    for name in names:
        if "\0" in name:
            raise ValueError(f"the name {name!r} holds NUL")
