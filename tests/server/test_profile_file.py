"""A prompt profile of one's own, by file, through the real client on the embedded model."""

from __future__ import annotations

from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
from covey_planner.profiles import FOLDER
from support.serving import serve
from support.sql import rows, run


def test_questions_are_asked_and_answers_read_as_the_file_says(tmp_path: Path) -> None:
    shipped = (FOLDER / "smollm2_question_first.toml").read_text("utf-8")
    # Every margin is above this.
    (tmp_path / "mine.toml").write_text(shipped.replace("zero_point = 0.0", "zero_point = -1e6"), "utf-8")
    assert "zero_point = -1e6" in (tmp_path / "mine.toml").read_text("utf-8")
    process = serve(tmp_path, "--profile", str(tmp_path / "mine.toml"), ready_seconds=180)
    with dbapi.connect(process.uri, autocommit=True) as connection:
        run(connection, "CREATE TABLE notes AS SELECT * FROM (VALUES ('An owl.'), ('A bus.')) AS t(says)")
        asked = "SELECT count(*) FROM notes WHERE AI_FILTER('Is this about an animal?', says)"
        assert "profile: mine" in rows(connection, f"EXPLAIN {asked}")[0][1]
        assert rows(connection, asked) == [(2,)]
    assert process.stop() == 0
