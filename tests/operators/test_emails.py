"""Real emails through planner, operators and the embedded model: margins, texts and tokens are right."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from covey_engine.operators.executor import Executor
from covey_engine.operators.readout import readout
from covey_engine.prefill import api
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.local import LocalEngine
from covey_engine.prefill.runner import Pending, Runner
from covey_planner.physical import AnchorText, Segment, Text
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_planner.prompts import Prompt, filter_prompt, messages, parse_template, render
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import ModelFiles, resolve_model
from covey_storage.tokenizer import Tokenizer, load_tokenizer
from support.hand_plans import rows
from support.transformers_reference import Recorder, load, reference_margins
from transformers.utils.chat_template_utils import render_jinja_template

ROWS = int(os.environ.get("COVEY_TEST_EMAILS", "24"))
PROFILE = "smollm2_document_first"
TOLERANCE = 1e-3
QUESTIONS = ("Is this email unsolicited advertising or a scam?", "Is this email about work?")


class Spy:
    """A runner that counts the positions that enter the embedding."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.info = runner.info
        self.arena_tokens = runner.arena_tokens
        self.embedded = 0

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        self._runner.set_answer_tokens(ids, normalizer)

    def launch(self, chunk: Chunk) -> Pending:
        self.embedded += len(chunk)
        return self._runner.launch(chunk)


@dataclass
class Asked:
    """What a query over the emails gave."""

    ids: list[int]
    recorder: Recorder
    figures: api.Figures
    embedded: int


@dataclass
class Bench:
    """The emails in a database, beside the embedded model."""

    database: Database
    executor: Executor
    tokenizer: Tokenizer
    spy: Spy

    def ask(self, condition: str) -> Asked:
        """The ids of the emails for which the condition holds."""
        planned = plan(
            f"SELECT id FROM mails WHERE {condition}", self.database, PlanOptions(load_profile(PROFILE))
        )
        recorder, before = Recorder(), self.spy.embedded
        result = self.executor.execute(
            planned, self.database.cursor(), query_id=condition, cancel=threading.Event(), observe=recorder
        )
        ids = [id for (id,) in rows(result)]
        return Asked(ids, recorder, result.figures(), self.spy.embedded - before)


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    return resolve_model()


@pytest.fixture(scope="module")
def texts(emails: Path) -> dict[int, str]:
    """Texts of the emails by id; short ones, quick on a CPU, unless more are asked for."""
    short = "WHERE strlen(body) < 450" if ROWS <= 24 else ""
    text = "subject || chr(10) || chr(10) || body"
    found = duckdb.sql(f"SELECT id, {text} FROM '{emails}' {short} ORDER BY id LIMIT {ROWS}").fetchall()
    return dict(found)


@pytest.fixture(scope="module")
def bench(files: ModelFiles, texts: dict[int, str]) -> Iterator[Bench]:
    tokenizer = load_tokenizer(files)
    database = Database.open(None)
    cursor = database.cursor()
    cursor.execute("CREATE TABLE mails (id INTEGER, text VARCHAR)")
    cursor.executemany("INSERT INTO mails VALUES (?, ?)", list(texts.items()))
    library = TokenLibrary(None, tokenizer, database)
    spy = Spy(open_runner(EngineConfig(str(files.path), device="cpu")))
    engine = LocalEngine(spy)
    yield Bench(database, Executor(database, library, tokenizer, engine), tokenizer, spy)
    engine.close()
    library.close()
    database.close()


@pytest.fixture(scope="module")
def model(files: ModelFiles) -> Any:
    return load(files.path)


@pytest.fixture(scope="module")
def one(bench: Bench) -> Asked:
    return bench.ask(f"AI_FILTER('{QUESTIONS[0]}', text)")


@pytest.fixture(scope="module")
def two(bench: Bench) -> Asked:
    return bench.ask(f"AI_FILTER('{QUESTIONS[0]}', text) AND NOT AI_FILTER('{QUESTIONS[1]}', text)")


def prompt(question: str) -> Prompt:
    return filter_prompt(parse_template(question + " {0}", 1), load_profile(PROFILE))


def tokens(tokenizer: Tokenizer, segments: tuple[Segment, ...], text: str = "") -> tuple[int, ...]:
    found: list[int] = []
    for segment in segments:
        found += (
            tokenizer.encode(segment.text, special=True)
            if isinstance(segment, Text)
            else tokenizer.encode(text)
        )
    return tuple(found)


@pytest.fixture(scope="module")
def theirs(bench: Bench, one: Asked, two: Asked, model: Any) -> dict[tuple[int, ...], float]:
    """transformers' margins of all prompts."""
    prompts = list({**one.recorder.margins, **two.recorder.margins})
    margins = reference_margins(model, prompts, readout(load_profile(PROFILE), bench.tokenizer))
    return dict(zip(prompts, margins.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("query", ["one", "two"])
def test_margins_equal_transformers(
    query: str,
    request: pytest.FixtureRequest,
    bench: Bench,
    theirs: dict[tuple[int, ...], float],
    texts: dict[int, str],
) -> None:
    asked: Asked = request.getfixturevalue(query)
    ours = np.array(list(asked.recorder.margins.values()))
    reference = np.array([theirs[tokens] for tokens in asked.recorder.margins])
    np.testing.assert_allclose(ours, reference, rtol=0, atol=TOLERANCE)
    assert not (((ours > 0) != (reference > 0)) & (np.abs(reference) > TOLERANCE)).any()
    assert reference.std() > 0.1
    expected = []
    for id, text in texts.items():
        first, second = (
            tokens(bench.tokenizer, (*p.prefix, *p.suffix), text) for p in map(prompt, QUESTIONS)
        )
        if theirs[first] > 0 and (query == "one" or theirs[second] <= 0):
            expected.append(id)
    assert 0 < len(expected) < len(texts)
    assert asked.ids == sorted(expected, key=repr)


def test_prompts_are_what_the_chat_template_writes(bench: Bench, two: Asked, texts: dict[int, str]) -> None:
    """The text of each prompt is the chat template's; its tokens are its segments' tokens."""
    profile = load_profile(PROFILE)
    expected = set()
    for question in QUESTIONS:
        template = parse_template(question + " {0}", 1)
        for text in texts.values():
            said = render(prompt(question), [text])
            conversation = messages(template, profile, [text])
            written, _ = render_jinja_template(
                [conversation], chat_template=bench.tokenizer.chat_template, add_generation_prompt=True
            )
            assert said == written[0] + profile.cue
            expected.add(tokens(bench.tokenizer, (*prompt(question).prefix, *prompt(question).suffix), text))
    assert set(two.recorder.margins) <= expected
    assert len(two.recorder.margins) > len(set(texts.values()))


def test_fresh_tokens(bench: Bench, one: Asked, two: Asked, texts: dict[int, str]) -> None:
    """The head once, each document once for both questions, each question's tail once a prompt."""
    first, second = map(prompt, QUESTIONS)
    assert first.prefix == second.prefix
    at = first.prefix.index(AnchorText())
    distinct = set(texts.values())
    shared = len(tokens(bench.tokenizer, first.prefix[:at])) + sum(
        len(bench.tokenizer.encode(t)) for t in distinct
    )
    behind = len(distinct) * len(tokens(bench.tokenizer, first.prefix[at + 1 :]))
    tails = [len(tokens(bench.tokenizer, p.suffix)) for p in (first, second)]
    again = len(two.recorder.margins) - len(distinct)
    assert one.figures.fresh_tokens == one.embedded == shared + behind + len(distinct) * tails[0]
    assert two.figures.fresh_tokens == two.embedded == one.embedded + again * tails[1]
    assert two.figures.prompt_tokens == sum(map(len, two.recorder.margins))
