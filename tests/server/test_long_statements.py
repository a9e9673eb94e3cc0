"""Statements too long for the model, through the real client: short errors."""

from __future__ import annotations

from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from support.hash_server import Host
from support.sql import rows


def test_the_error_of_a_long_question_is_short(tmp_path: Path) -> None:
    host = Host()
    try:
        with host.serve(tmp_path) as uri, dbapi.connect(uri, autocommit=True) as client:
            with pytest.raises(
                dbapi.Error, match=r"….* tokens of fixed text, over the model's context"
            ) as error:
                rows(client, f"SELECT AI_FILTER('{'why ' * 9000}', 'because')")
            assert len(str(error.value)) < 500
            assert rows(client, "SELECT 1") == [(1,)]
    finally:
        host.close()
