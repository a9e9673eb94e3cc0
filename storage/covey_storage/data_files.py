"""Data files in, DuckDB tables out, at start, before the database is locked; never touches tokens.

Each file becomes a table named by its stem. Tables are loaded, not mounted: they can be scanned more than
once in a statement, text is VARCHAR whatever the file calls it, and no folder has to stay readable for SQL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from covey_storage.csv_files import check_lines
from covey_storage.errors import NotFound, StorageError
from covey_storage.storable import NotStorable, Storable

_KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".tsv.gz": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".json.gz": "json", ".jsonl.gz": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_RESERVED = "covey_"
_MARK = "loaded from the data file "


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def reason(error: Exception) -> str:
    """What DuckDB or Arrow says, as one line without its decoration."""
    text = str(error).split("\n\n")[0]
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Original Line")
    ]
    return re.sub(r"^[\w ]+ Error: ", "", " ".join(lines)).rstrip(".") or type(error).__name__


def data_tables(sources: Sequence[Path]) -> dict[str, Path]:
    """The tables that data folders (or single files) stand for: the file of each table's name.

    Files in a folder that are hidden or of no known kind are passed over. Raises NotFound, StorageError.
    """
    tables: dict[str, Path] = {}
    try:
        files = list(_files(sources))
    except OSError as error:
        raise StorageError(f"cannot read the data folder {error.filename}: {error.strerror}") from None
    for path in files:
        name = re.sub(r"\W", "_", path.name[: -len(_suffix(path) or "")])
        name = f"_{name}" if name[:1].isdigit() else name
        if name.lower().startswith(_RESERVED):
            raise StorageError(f"data file {path}: table names that begin with {_RESERVED} are reserved")
        for other, file in tables.items():
            if other.lower() == name.lower() and file.resolve() != path.resolve():
                raise StorageError(f"data files {file} and {path} would both become the table {name}")
        tables[name] = path
    return tables


def load(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    """Make the table `name` hold what the file holds; a table that already does is left as it is.

    Raises StorageError where the file is not readable, or where a table or view of that name has another
    origin.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise StorageError(f"cannot read data file {path}: {error.strerror}") from None
    state = hashlib.sha256(f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}".encode()).hexdigest()[
        :16
    ]
    mark = f"{_MARK}{path.name}, state {state}"
    found = connection.execute(
        "SELECT comment FROM duckdb_tables() "
        "WHERE schema_name = 'main' AND NOT temporary AND lower(table_name) = lower($1) "
        "UNION ALL SELECT 'view' FROM duckdb_views() "
        "WHERE schema_name = 'main' AND NOT internal AND lower(view_name) = lower($1)",
        [name],
    ).fetchone()
    if found == (mark,):
        return
    if found is not None and not (found[0] or "").startswith(_MARK):
        raise StorageError(
            f"data file {path} would become the table {name}, but the database has its own of that name"
        )
    if status.st_size == 0:
        raise StorageError(f"cannot read data file {path}: it is empty")
    try:
        _create(connection, name, path)
    except (duckdb.Error, pa.ArrowException, OSError, NotStorable) as error:
        said = reason(error)
        advice = ": convert it first, as by iconv -f LATIN1 -t UTF-8" if "not utf-8" in said else ""
        raise StorageError(f"cannot read data file {path}: {said}{advice}") from None
    connection.execute(f"COMMENT ON TABLE {quoted(name)} IS '{mark.replace(chr(39), chr(39) * 2)}'")


def _create(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    create = f"CREATE OR REPLACE TABLE {quoted(name)} AS FROM"
    match _KINDS[_suffix(path) or ""]:
        case "parquet":
            connection.execute(f"{create} read_parquet({_literal(path)})")
        case "csv":
            check_lines(connection, path, _literal(path))
            connection.execute(f"{create} read_csv({_literal(path)})")
        case "json":
            connection.execute(f"{create} read_json({_literal(path)})")
        case _:
            source = Storable(_arrow_reader(path))
            connection.register("_covey_load", source.reader)
            try:
                connection.execute(f"{create} _covey_load")
            except duckdb.Error as error:
                raise source.failure or error from None
            finally:
                connection.unregister("_covey_load")


def _arrow_reader(path: Path) -> pa.RecordBatchReader:
    """The batches of an Arrow file or stream, dictionaries decoded: DuckDB would make them ENUMs."""
    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
        schema, batches = file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
    except pa.ArrowInvalid:
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        schema, batches = stream.schema, iter(stream)
    plain = pa.schema(
        [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    )

    def decoded() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.cast(plain)

    return pa.RecordBatchReader.from_batches(plain, decoded())


def _files(sources: Sequence[Path]) -> Iterator[Path]:
    for source in sources:
        if source.is_dir():
            files = sorted(
                path for path in source.iterdir() if path.is_file() and path.name[0] != "." and _suffix(path)
            )
            if not files:
                raise NotFound(f"no data files in {source}: expected some of {', '.join(sorted(_KINDS))}")
            yield from files
        elif not source.exists():
            raise NotFound(f"no data folder at {source}")
        elif _suffix(source) is None:
            raise StorageError(
                f"data file {source} is of no known kind: expected one of {', '.join(sorted(_KINDS))}"
            )
        else:
            yield source


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    matching = [suffix for suffix in _KINDS if name.endswith(suffix) and len(name) > len(suffix)]
    return max(matching, key=len, default=None)


def _literal(path: Path) -> str:
    """The path as a string literal in which no character stands for others."""
    # DuckDB expands patterns in file names; a bracketed character stands for itself.
    text = re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", str(path.resolve()))
    return "'" + text.replace("'", "''") + "'"
