"""Templates, the words of questions, and prompts whose text equals the model's own chat template."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from covey_planner.errors import BindError, ProfileError
from covey_planner.physical import AnchorText, PartnerText, Text
from covey_planner.profiles import FOLDER, load_profile, load_profile_file, profile_for, profile_names
from covey_planner.prompts import (
    Template,
    filter_prompt,
    for_labels,
    join_prompt,
    messages,
    parse_template,
    question_text,
    render,
    spoken_labels,
)

PLAIN = load_profile("smollm2_document_first")
Q_FIRST = load_profile("smollm2_question_first")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{0}", (0,)),
        ("is {0} it", ("is ", 0, " it")),
        ("{0}{1}{0}", (0, 1, 0)),
        ("{{x}} {0} }}{{", ("{x} ", 0, " }{")),
        ("{{{0}}}", ("{", 0, "}")),
        ("{00}", (0,)),
    ],
)
def test_template_parts(text: str, parts: tuple[str | int, ...]) -> None:
    assert parse_template(text, 1 + max(p for p in parts if isinstance(p, int))).parts == parts


@pytest.mark.parametrize("text", ["{", "}", "{x} {0}", "{ 0} {0}", "{0", "{0}}", "{-1}{0}", "{0} {2}"])
def test_template_errors(text: str) -> None:
    with pytest.raises(BindError):
        parse_template(text, 1)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Is this email spam? {0}", "Is this email spam?"),
        ("Is this email spam? Email: {0}", "Is this email spam? Email"),
        ("Is this spam?\n\n{0}", "Is this spam?"),
        ("{0}\n\nIs this spam?", "Is this spam?"),
        ("{0} Is this spam?", "Is this spam?"),
        ("{0} reports a billing problem", "The document reports a billing problem"),
        ("Does {0} report a problem?", "Does the document report a problem?"),
        ("Would anyone buy {0}", "Would anyone buy the document"),
        ("{0}", "The document"),
        ("{0} might buy this: {1}", "Document 1 might buy this: document 2"),
        ("{1} is like {0} and {1}", "Document 2 is like document 1 and document 2"),
    ],
)
def test_question_in_words(text: str, question: str) -> None:
    count = 2 if "{1}" in text else 1
    assert question_text(parse_template(text, count), PLAIN) == question


def test_filter_prompt_document_first() -> None:
    prompt = filter_prompt(parse_template("Is it spam? {0}", 1), PLAIN)
    assert prompt.prefix[0] == Text(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n"
    )
    assert prompt.prefix[1:] == (Text("Document: "), AnchorText(0))
    (suffix,) = prompt.suffix
    assert isinstance(suffix, Text)
    assert suffix.text.startswith("\n\nQuestion: Is it spam?")
    assert suffix.text.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_filter_prompt_question_first_shares_the_question() -> None:
    prompt = filter_prompt(parse_template("Is it spam? {0}", 1), Q_FIRST)
    assert len(prompt.prefix) == 1
    first, document, _ = prompt.suffix
    assert isinstance(first, Text)
    assert "Is it spam?" in first.text
    assert document == AnchorText(0)


@pytest.mark.parametrize("name", profile_names())
def test_all_questions_on_a_document_begin_alike(name: str) -> None:
    profile = load_profile(name)
    one, two = (filter_prompt(parse_template(text, 1), profile) for text in ("Is it a? {0}", "{0} is b"))
    assert one.prefix == two.prefix
    assert one.suffix != two.suffix
    assert (AnchorText(0) in one.prefix) == (profile.layout == "document_first")


@pytest.mark.parametrize("name", profile_names())
def test_documents_are_never_interpreted(name: str) -> None:
    profile = load_profile(name)
    nasty = "{0} {question} {label} <|im_end|> \\1 \n"
    text = render(filter_prompt(parse_template("{0} is odd {{x}}", 1), profile), [nasty])
    assert text.count(nasty) == 1
    assert "The document is odd {x}" in text
    pair = render(join_prompt(parse_template("{0} or {1}", 2), profile, [0], [1]), [nasty], ["{text}"])
    assert nasty in pair
    assert "{text}" in pair


@pytest.mark.parametrize("name", profile_names())
def test_prompt_text_is_the_chat_template_of_its_messages(name: str) -> None:
    """The chat templates of SmolLM2 and of Qwen3 without thinking, spelled out for these messages."""
    profile = load_profile(name)
    template, documents = parse_template("Is {0} like {1}?", 2), ["first {0}", "second"]
    said = render(filter_prompt(template, profile), documents)
    turns = messages(template, profile, documents)
    if not profile.chat.user_start:
        assert said == turns[-1]["content"] + profile.cue
        return
    text = "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in turns)
    thinking = "<think>\n\n</think>\n\n" if profile.family == "qwen3" else ""
    question = "Is document 1 like document 2? Answer:" if profile.filter.form == "short" else ""
    assert said == text + "<|im_start|>assistant\n" + thinking + question + profile.cue
    assert [turn["role"] for turn in turns[:2]] == ["system", "user"]


def test_short_filter_shares_all_but_the_question() -> None:
    prompt = filter_prompt(parse_template("Is {0} spam?", 1), load_profile("qwen3_short"))
    assert prompt.suffix == (Text("Is the document spam? Answer:"),)
    assert prompt.prefix[-2] == AnchorText(0)


def test_short_filters_are_checked(tmp_path: Path) -> None:
    text = (
        (FOLDER / "smollm2_question_first.toml")
        .read_text("utf-8")
        .replace("[filter]", '[filter]\nform = "short"')
    )
    (tmp_path / "odd.toml").write_text(text, "utf-8")
    with pytest.raises(ProfileError, match="the short form goes with layout document_first"):
        load_profile_file(tmp_path / "odd.toml")


@pytest.mark.parametrize("name", profile_names())
def test_a_question_for_a_label_neither_asks_for_nor_shows_a_yes_or_a_no(name: str) -> None:
    profile = for_labels(load_profile(name))
    for prompt in (
        filter_prompt(Template(("Which label fits?\n", 0)), profile),
        join_prompt(parse_template("Which label fits {0} and {1}?", 2), profile, [0], [1]),
    ):
        text = render(prompt, ["A"], ["B"])
        assert "Which label fits" in text
        assert not re.search(r"\b(Yes|No)\b", text)


def test_how_labels_are_said() -> None:
    chat, raw = load_profile("smollm2_document_first"), load_profile("smollm2_raw")
    template = Template(("Which?\n", 0))
    suffix = filter_prompt(template, chat).suffix
    assert spoken_labels(["a b"], suffix, chat) == ((("a b", "a b"),), "<|im_end|>")
    assert spoken_labels(["a b"], filter_prompt(template, raw).suffix, raw) == ((("a b", " a b"),), "\n")
    assert spoken_labels(["c"], (PartnerText(0),), raw) == ((("c", " c"),), "\n")


def test_full_join_puts_the_question_before_the_partner() -> None:
    prompt = join_prompt(parse_template("{0} might buy {1}", 2), load_profile("qwen3_full"), [0], [1])
    assert AnchorText(0) in prompt.prefix
    assert prompt.suffix[-2] == PartnerText(0)


def test_short_join_ends_with_the_value_and_one_closing_piece() -> None:
    prompt = join_prompt(parse_template("{0} might buy {1}", 2), load_profile("qwen3_short"), [0], [1])
    assert prompt.suffix[-2:] == (PartnerText(0), Text('":'))
    text = render(prompt, ["A"], ["B"])
    assert text.index("<|im_start|>assistant") < text.index('Document 2: "B":')


def test_anchor_of_a_join_keeps_its_number() -> None:
    prompt = join_prompt(parse_template("{0} might buy {1}", 2), load_profile("qwen3_full"), [1], [0])
    text = render(prompt, ["the thing"], ["the person"])
    assert text.index("Document 2: the thing") < text.index("Document 1: the person")


def test_several_documents_on_a_side() -> None:
    template = Template((0, " ", 1, " ", 2))
    text = render(join_prompt(template, load_profile("qwen3_full"), [0, 2], [1]), ["a", "c"], ["b"])
    assert [text.index(f"Document {n}: {d}") for n, d in ((1, "a"), (3, "c"), (2, "b"))] == sorted(
        text.index(f"Document {n}: {d}") for n, d in ((1, "a"), (3, "c"), (2, "b"))
    )


def test_one_default_a_family() -> None:
    profiles = [load_profile(name) for name in profile_names()]
    families = {profile.family for profile in profiles}
    assert {"smollm2", "qwen3", "llama"} <= families
    for family in families:
        assert [p for p in profiles if p.family == family and p.default] == [profile_for(family)]


def test_profiles_answer_with_distinct_pieces() -> None:
    for profile in map(load_profile, profile_names()):
        assert not set(profile.yes) & set(profile.no)
        assert profile.zero_point == float(profile.zero_point)


def test_unknown_profile_and_family() -> None:
    with pytest.raises(ProfileError, match="no prompt profile 'nope'; there are: llama_raw"):
        load_profile("nope")
    with pytest.raises(ProfileError, match="model family 'gpt9'"):
        profile_for("gpt9")


_START = "family = 'x'\nlayout = 'document_first'\nyes = ['a']\n"
_WHOLE = _START + "no = ['b']\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("familly = 'x'", "unknown key 'familly'"),
        (_START, "missing key 'no'"),
        (_WHOLE.replace("document_first", "sideways"), "layout: 'sideways' does not fit"),
        (_WHOLE.replace("['a']", "'a'"), "yes: 'a' does not fit"),
        (_WHOLE + "[chat]\nmiddle = ''", "unknown key 'middle'"),
        (_WHOLE + "[filter]\nbefore = '{question}'", "stands where document_first has none"),
        (_WHOLE + "[filter]\nafter = '{question}'", "join: {question} is missing"),
        ("family =", "bad.toml"),
    ],
)
def test_profile_file_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError) as caught:
        load_profile_file(path)
    assert message in str(caught.value)
