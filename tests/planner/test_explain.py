"""The text of a plan under statistics that are written down, before and after it has run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from covey_planner.cost.devices import DeviceProfile
from covey_planner.cost.roofline import Pricing, Rates, Roofline
from covey_planner.cost.shape import ModelShape
from covey_planner.cost.statistics import CallKey, Pinned, Selectivity, TokenCount
from covey_planner.errors import Unsupported
from covey_planner.explaining.as_json import write_json
from covey_planner.explaining.as_text import write_text
from covey_planner.explaining.report import Actual, Report
from covey_planner.language.explained import Explain, strip_explain
from covey_planner.plan import Planned, PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog

FITS = "AI_FILTER(PROMPT('Does {0} match {1}?', t.body, p.description))"
GOLDEN = Path(__file__).with_name("explained.txt")
STATISTICS = Pinned(
    texts={
        ("tickets", "body"): TokenCount(36, 30, 3600, 3000, 100, exact=True),
        ("products", "description"): TokenCount(7, 5, 56, 40, 8, exact=False),
    },
    queries={"SELECT t.body AS __covey_x0 FROM tickets AS t": 36},
    answers={CallKey("Is it late?\n{0}", ("tickets.body",)): Selectivity(0.2, 0.1, 0.35, "remembered")},
)
PRICING = Pricing(
    Roofline(ModelShape(2, 8, 2, 1, 4, 16), DeviceProfile("H200", 1e12, 1e9, 1e9, 1e9), 1000),
    Rates(1e-3, 1e-6, 0.0, 0.0, 1000),
    dollars_per_hour=3600.0,
)
SQL = f"SELECT t.id FROM tickets t JOIN products p ON {FITS} WHERE AI_FILTER('Is it late?', t.body)"


def planned(catalog: MemoryCatalog, options: str = "", sql: str = SQL) -> Planned:
    how = PlanOptions(DOCUMENT_FIRST, encode=lambda text, _: tuple(map(ord, text)), pricing=PRICING)
    return plan(f"EXPLAIN {options} {sql}", catalog, how, (), STATISTICS)


def ran(catalog: MemoryCatalog) -> Report:
    report = planned(catalog).report
    assert report is not None
    first = Actual(30, None, 30, 30, 3600, 3300, 200_000, 4.0, 4.5, ((30, 6),))
    second = Actual(6, 5, 30, 30, 4000, 1500, 90_000, 2.0, 2.25, ((30, 9),))
    return replace(report, actuals=(first, second), rows=11, seconds=7.5)


def test_a_line_a_node_with_estimates_and_then_with_what_happened(catalog: MemoryCatalog) -> None:
    before, after = GOLDEN.read_text("utf-8").split("\n\n")
    assert planned(catalog).text == before
    assert write_text(ran(catalog)) == after.rstrip("\n")


def test_figures_as_numbers(catalog: MemoryCatalog) -> None:
    report = json.loads(write_json(ran(catalog)))
    first, second = report["steps"]
    assert first["estimate"]["fresh_tokens"] == 3 + 30 * (100 + 18)
    assert first["estimate"]["shared_tokens"] == 29 * 3
    assert (first["estimate"]["tokens_exact"], second["estimate"]["tokens_exact"]) == (True, False)
    assert second["estimate"]["anchors"] == pytest.approx(30 * 0.2)
    assert first["questions"][0]["selectivity"]["source"] == "remembered"
    assert second["questions"][0]["selectivity"]["source"] == "default"
    assert first["actual"]["seconds"] == 4
    assert first["actual"]["percent"] == pytest.approx(100 * first["actual"]["limit_seconds"] / 4)
    total = report["total"]
    assert total["actual"]["rows"] == 11
    assert total["actual"]["fresh_tokens"] == 3300 + 1500
    assert total["actual"]["dollars"] == pytest.approx(6.0)
    for name in ("fresh_tokens", "attention_pairs", "seconds", "limit_seconds", "dollars"):
        parts = [step["estimate"][name] for step in report["steps"]]
        assert total["estimate"][name] == pytest.approx(sum(parts))
    assert total["estimate"]["kv_held"] == max(step["estimate"]["kv_held"] for step in report["steps"])


def test_a_hint_is_taken_where_nothing_is_remembered(catalog: MemoryCatalog) -> None:
    def asked(hint: str) -> float:
        sql = f"SELECT id FROM tickets WHERE AI_FILTER('New?', body{hint}) AND AI_FILTER('Is it late?', body)"
        (step,) = planned(catalog, sql=sql).estimates
        return step.questions[1].items

    assert asked(", selectivity => 0.1") == pytest.approx(0.1 * 30)
    assert asked("") == pytest.approx(0.5 * 30)


def test_counting_tokens_costs_nothing(catalog: MemoryCatalog) -> None:
    found = planned(catalog, sql="SELECT AI_COUNT_TOKENS(body) FROM tickets")
    (step,) = found.estimates
    assert (step.items, step.work.fresh, step.prompts) == (30, 0, 0)
    assert "step 1: count tokens of body" in found.text


@pytest.mark.parametrize(
    ("opening", "explain"),
    [
        ("EXPLAIN", Explain()),
        (" explain\n", Explain()),
        ("EXPLAIN ANALYZE", Explain(analyze=True)),
        ("EXPLAIN VERBOSE", Explain(verbose=True)),
        ("EXPLAIN ANALYZE VERBOSE", Explain(analyze=True, verbose=True)),
        ("EXPLAIN (FORMAT JSON)", Explain(form="json")),
        ("EXPLAIN (FORMAT 'text', ANALYZE true, verbose off)", Explain(analyze=True)),
        ("EXPLAIN ANALYZE (FORMAT json)", Explain(analyze=True, form="json")),
        ("EXPLAIN ()", Explain()),
        ("-- why?\nEXPLAIN /* all of it */ ANALYZE", Explain(analyze=True)),
        ("/**/ EXPLAIN/**/(FORMAT json)", Explain(form="json")),
    ],
)
def test_options(opening: str, explain: Explain) -> None:
    text, found = strip_explain(f"{opening} SELECT 1")
    assert found == explain
    assert text == "".join(letter if letter.isspace() else " " for letter in opening) + " SELECT 1"


def test_a_statement_in_parentheses_is_no_option() -> None:
    assert strip_explain("EXPLAIN (SELECT 1)") == (" " * 7 + " (SELECT 1)", Explain())
    assert strip_explain("SELECT explain FROM t") == ("SELECT explain FROM t", None)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Unsupported, match="not 'costs off'"):
        strip_explain("EXPLAIN (costs off) SELECT 1")
