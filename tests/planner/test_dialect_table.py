"""Every form in the tables of docs/dialects.md gives what stands beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from covey_planner.errors import PlanError
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog

TEXT = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")
ROWS = [
    (section.partition("\n")[0], form, said)
    for section in TEXT.split("\n## ")[1:]
    for form, said in re.findall(r"^\| `(.+)` \| (.+) \|$", section, re.MULTILINE)
]


def test_no_row_is_overlooked() -> None:
    assert len(ROWS) == TEXT.count("\n| `")
    assert {dialect for dialect, _, _ in ROWS} == {"snowflake", "bigquery", "duckdb"}


@pytest.mark.parametrize(("dialect", "form", "said"), ROWS)
def test_form(catalog: MemoryCatalog, dialect: str, form: str, said: str) -> None:
    sql, options = f"SELECT {form} AS found FROM tickets", PlanOptions(DOCUMENT_FIRST, dialect=dialect)
    if said.startswith("error: "):
        with pytest.raises(PlanError) as caught:
            plan(sql, catalog, options)
        assert said.removeprefix("error: ") in str(caught.value)
        assert "(line 1:8)" in str(caught.value)
    else:
        ((name, kind),) = plan(sql, catalog, options).columns
        assert name == "found"
        assert kind == said or (said == "an object" and kind == "STRUCT(labels VARCHAR[])")
