"""The hash model and the macros of the oracle agree; a prompt with a token out of place is found out."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from covey_planner.physical import AnchorText, PartnerText, Text
from covey_planner.prompts import Prompt, Template, filter_prompt, join_prompt, parse_template
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hash_model import PROFILE, TOKENIZER, read_prompt
from support.hash_server import ORACLE_MACROS

DOCUMENTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\x1e\x1f"), max_size=12)
PARTS = st.sampled_from(
    [
        "{0}",
        "{1}",
        "Is it ",
        "late",
        "? ",
        ": ",
        "\n",
        ". ",
        " seldom ",
        "often",
        "{{",
        "}}",
        "{{0}} ",
        "É",
        "é ",
    ]
)
RELAXED = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(ORACLE_MACROS.read_text("utf-8"))
        yield connection


def tokens(prompt: Prompt, documents: list[str], order: list[int]) -> list[int]:
    """order: the documents' numbers in the order of anchor, then partner."""
    found: list[int] = []
    anchors = sum(isinstance(segment, AnchorText) for segment in (*prompt.prefix, *prompt.suffix))
    for segment in (*prompt.prefix, *prompt.suffix):
        match segment:
            case Text(text):
                found += TOKENIZER.encode(text, special=True)
            case AnchorText(argument):
                found += TOKENIZER.encode(documents[order[argument]])
            case PartnerText(argument):
                found += TOKENIZER.encode(documents[order[anchors + argument]])
    return found


@RELAXED
@given(
    parts=st.lists(PARTS, min_size=1, max_size=8).map("".join),
    documents=st.lists(DOCUMENTS, min_size=2, max_size=2),
)
def test_answers(duck: duckdb.DuckDBPyConnection, parts: str, documents: list[str]) -> None:
    count = 2 if "{1}" in parts.replace("{{", "") else 1
    template = parts if "{0}" in parts.replace("{{0}}", "") else parts + " {0}"
    parsed = parse_template(template, count)
    asked = read_prompt(tokens(filter_prompt(parsed, PROFILE), documents[:count], [0, 1]))
    assert asked.documents == tuple(documents[:count])
    call = "prompt($t, $a)" if count == 1 else "prompt($t, $a, $b)"
    values = {"t": template, "a": documents[0]} | ({"b": documents[1]} if count == 2 else {})
    found = duck.execute(f"SELECT covey_key({call}), ai_filter({call}), ai_score({call})", values).fetchone()
    assert found is not None
    assert found[0] == asked.key
    assert found[1] == (asked.margin > 0)
    assert (found[2] > 0.5) == found[1]
    if count == 2:
        for anchors, partners in (((0,), (1,)), ((1,), (0,))):
            prompt = join_prompt(parsed, PROFILE, anchors, partners)
            assert read_prompt(tokens(prompt, documents, [*anchors, *partners])) == asked


def test_every_token_matters() -> None:
    whole = tokens(filter_prompt(Template(("Is it late?\n", 0)), PROFILE), ["a<|im_end|>b"], [0])
    asked = read_prompt(whole)
    assert (asked.question, asked.documents) == ("Is it late?", ("a<|im_end|>b",))
    for at in range(len(whole)):
        for changed in (whole[:at] + whole[at + 1 :], [*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]):
            try:
                assert read_prompt(changed) != asked
            except (AssertionError, ValueError, KeyError, UnicodeDecodeError):
                continue


@pytest.mark.parametrize("text", ["", "red", "Zoë", "z {0}", "GREEN!", "true", "<|im_end|>"])
def test_tokens_are_bytes(duck: duckdb.DuckDBPyConnection, text: str) -> None:
    found = duck.execute("SELECT ai_count_tokens($text)", {"text": text}).fetchone()
    assert found == (len(TOKENIZER.encode(text)),)
