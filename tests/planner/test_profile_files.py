"""Prompt profiles of one's own, from files: how they are found, and the places that their words may have."""

from __future__ import annotations

from pathlib import Path

import pytest
from covey_planner.errors import ProfileError
from covey_planner.profiles import find_profile, load_profile
from covey_planner.prompts import join_prompt, parse_template, render

RAW = """
family = "qwen3"
layout = "document_first"
yes = ["TRUE"]
no = ["FALSE"]
[words]
label_numbered = "Text {i} of 2"
the_numbered = "<{n}>"
[filter]
after = "{question}"
[join]
form = "short"
between = " (this was {anchor}) {question}"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(RAW, "utf-8")
    return path


def test_a_profile_is_found_by_name_or_by_file(file: Path) -> None:
    assert find_profile("qwen3_short") == load_profile("qwen3_short")
    assert find_profile(str(file)).name == "mine"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"gone\.toml: .*No such file"):
        find_profile(str(tmp_path / "gone.toml"))


@pytest.mark.parametrize(
    ("anchor", "said"),
    [
        (0, "Text 0 of 2: A (this was Text 0 of 2) Is <1> like <2>?Text 1 of 2: B"),
        (1, "Text 1 of 2: B (this was Text 1 of 2) Is <1> like <2>?Text 0 of 2: A"),
    ],
)
def test_documents_are_counted_from_zero_or_one_and_the_anchor_is_named(
    file: Path, anchor: int, said: str
) -> None:
    prompt = join_prompt(
        parse_template("Is {0} like {1}?", 2), find_profile(str(file)), [anchor], [1 - anchor]
    )
    texts = ["A", "B"]
    assert render(prompt, [texts[anchor]], [texts[1 - anchor]]) == said


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("{i} of 2", "{0} of 2", "words: label_numbered: only {n} and {i} stand for numbers"),
        ("<{n}>", "<{number}>", "words: the_numbered: only {n} and {i} stand for numbers"),
        ("<{n}>", "<{n", "words: the_numbered: only {n} and {i} stand for numbers"),
        ("[filter]\n", '[filter]\ndocument = "a text"\n', "filter: document: {text} stands there once"),
    ],
)
def test_wrong_places_are_named(file: Path, before: str, after: str, message: str) -> None:
    assert before in RAW
    file.write_text(RAW.replace(before, after), "utf-8")
    with pytest.raises(ProfileError) as caught:
        find_profile(str(file))
    assert message in str(caught.value)
