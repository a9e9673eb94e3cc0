"""Folders and files that cannot be read or written: an error at once that names the place and what it is for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from covey_storage.catalog import Database
from covey_storage.errors import StorageError
from covey_storage.library import TokenLibrary
from covey_storage.model_files import fetch_embedded
from covey_storage.places import check_temporary, check_writable
from covey_storage.temporary import TemporaryFolder
from support.byte_tokenizer import byte_tokenizer
from support.unprivileged import obeying

Close = Callable[[Path, int], Path]


@pytest.fixture
def closed() -> Iterator[Close]:
    """Gives a file or folder a mode, until the test is over."""
    before: list[tuple[Path, int]] = []

    def close(path: Path, mode: int) -> Path:
        before.append((path, path.stat().st_mode))
        path.chmod(mode)
        return path

    yield close
    for path, mode in before:
        path.chmod(mode)


def said(work: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as caught:
        obeying(work)
    return str(caught.value)


def test_a_data_folder_that_is_read_only_is_loaded(tmp_path: Path, closed: Close) -> None:
    (tmp_path / "t.csv").write_text("n\n7\n")
    closed(tmp_path / "t.csv", 0o444)
    closed(tmp_path, 0o555)
    database = obeying(lambda: Database.open(None, [tmp_path]))
    assert database.columns() == {"t": {"n": "BIGINT"}}
    database.close()


def test_data_that_cannot_be_read_is_named(tmp_path: Path, closed: Close) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = folder / "t.csv"
    file.write_text("n\n7\n")
    closed(file, 0)
    assert "cannot read data file" in (found := said(lambda: Database.open(None, [folder])))
    assert str(file) in found
    closed(folder, 0)
    assert (
        said(lambda: Database.open(None, [folder]))
        == f"cannot read the data folder {folder}: Permission denied"
    )
    assert str(file) in said(lambda: Database.open(None, [file]))


def test_a_database_that_cannot_be_written_is_named_as_it_is_opened(tmp_path: Path, closed: Close) -> None:
    path = tmp_path / "shop.duckdb"
    Database.open(path).close()
    closed(path, 0o444)
    read_only = f"cannot write to the database {path}: it is read-only, or belongs to another user"
    assert said(lambda: Database.open(path)) == read_only
    closed(path, 0o644)
    closed(tmp_path, 0o555)
    log = f"cannot write the log of the database {path} into {tmp_path}: {tmp_path} is read-only, or"
    assert said(lambda: Database.open(path)).startswith(log)
    new = tmp_path / "new.duckdb"
    assert said(lambda: Database.open(new)).startswith(
        f"cannot write the log of the database {new} into {tmp_path}"
    )


def test_token_columns_that_cannot_be_kept_are_named_before_any_is_built(
    tmp_path: Path, closed: Close
) -> None:
    database = Database.open(None)
    root = tmp_path / "shop.duckdb.tokens"
    root.mkdir()
    closed(root, 0o555)
    found = said(lambda: TokenLibrary(root, byte_tokenizer(), database))
    assert found.startswith(f"cannot write the token columns of the database into {root}: ")
    database.close()


def test_a_place_for_temporary_files_that_cannot_be_written_is_not_passed_over(
    tmp_path: Path, closed: Close, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    closed(tmp_path, 0o555)
    for work in (check_temporary, lambda: TemporaryFolder("spill"), lambda: Database.open(None)):
        assert said(work).startswith(f"cannot write temporary files (the variable TMPDIR) into {tmp_path}: ")
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path)])
    assert "no folder for temporary files" in said(check_temporary)


def test_a_cache_that_cannot_be_written_is_named_with_its_variable(
    tmp_path: Path, closed: Close, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVEY_MODEL_DIR", str(tmp_path))
    closed(tmp_path, 0o555)
    found = said(fetch_embedded)
    assert found.startswith(f"cannot store the embedded model at {tmp_path}/")
    assert found.endswith("the variable COVEY_MODEL_DIR names another folder for it")


def test_a_folder_below_a_file_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StorageError, match=f"cannot write things into {file}/below: {file} is no folder"):
        check_writable(file / "below", "things")
    check_writable(tmp_path / "not" / "yet", "things")
