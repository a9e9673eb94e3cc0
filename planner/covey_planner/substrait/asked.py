"""Whether a statement asks for its Substrait plan: `EXPLAIN (FORMAT substrait)`; never looks at what is explained."""

from __future__ import annotations

import re
from typing import Literal

from covey_planner.language.explained import GAP

Form = Literal["substrait", "substrait_json"]
"""A plan's bytes, or the same as JSON."""

_ASKED = re.compile(
    rf"\A{GAP}*EXPLAIN{GAP}*\({GAP}*FORMAT{GAP}+(['\"]?)(?P<form>substrait(?:_json)?)\1{GAP}*\)",
    re.IGNORECASE | re.DOTALL,
)


def plan_asked(sql: str) -> tuple[str, Form] | None:
    """The statement whose plan is asked for, at its places, and the form; None for any other statement."""
    found = _ASKED.match(sql)
    if found is None:
        return None
    form: Form = "substrait" if found["form"].lower() == "substrait" else "substrait_json"
    return re.sub(r"\S", " ", found[0]) + sql[found.end() :], form
