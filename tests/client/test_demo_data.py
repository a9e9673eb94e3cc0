"""The demo's tables: what the README and the demo say of them, and what they cost."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import covey.demo
import pytest
from covey.demo.queries import QUERIES

DATA = Path(covey.demo.__file__).with_name("data")


def read(name: str) -> list[dict[str, str]]:
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


TICKETS, PRODUCTS, DEFECTS = read("tickets"), read("products"), read("defects")


def shingles(text: str, size: int = 5) -> set[tuple[str, ...]]:
    words = [word.strip(".,;:!?\"'").lower() for word in text.split()]
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def test_counts_and_columns() -> None:
    assert (len(TICKETS), len(PRODUCTS), len(DEFECTS)) == (150, 20, 12)
    assert list(TICKETS[0]) == ["id", "product_id", "customer", "opened", "priority", "body"]
    assert list(PRODUCTS[0]) == ["id", "name", "category", "description"]
    assert list(DEFECTS[0]) == ["id", "product_id", "description"]


@pytest.mark.parametrize("table", [TICKETS, PRODUCTS, DEFECTS], ids=["tickets", "products", "defects"])
def test_ids_count_from_one(table: list[dict[str, str]]) -> None:
    assert [int(row["id"]) for row in table] == list(range(1, len(table) + 1))


def test_every_ticket_and_defect_is_about_a_product() -> None:
    known = {row["id"] for row in PRODUCTS}
    assert {row["product_id"] for row in TICKETS} == known
    assert {row["product_id"] for row in DEFECTS} < known


def test_texts_have_their_lengths() -> None:
    for ticket in TICKETS:
        assert 30 <= len(ticket["body"].split()) <= 120, ticket["id"]
        assert "\n" not in ticket["body"]
    for defect in DEFECTS:
        assert 8 <= len(defect["description"].split()) <= 15, defect["id"]


def test_no_two_tickets_share_their_phrasing() -> None:
    seen = [shingles(ticket["body"]) for ticket in TICKETS]
    for i, one in enumerate(seen):
        for j, other in enumerate(seen[:i]):
            shared = len(one & other) / min(len(one), len(other))
            assert shared < 0.1, (TICKETS[i]["id"], TICKETS[j]["id"])


def test_tickets_are_dated_and_ranked() -> None:
    opened = [datetime.date.fromisoformat(ticket["opened"]) for ticket in TICKETS]
    assert opened == sorted(opened)
    assert {ticket["priority"] for ticket in TICKETS} == {"low", "normal", "high", "urgent"}
    assert 40 > len({ticket["customer"] for ticket in TICKETS}) >= 20


def test_five_queries_four_of_which_ask() -> None:
    assert [query.asks for query in QUERIES] == [True, True, True, True, False]
    assert [query.sql.count("AI_FILTER") for query in QUERIES] == [1, 2, 1, 1, 0]
