"""With `bench/peers/quail.toml`, Covey asks with the peer's prompt tokens: pieces recorded from the peer's own code."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from covey_engine.operators.readout import readout
from covey_engine.operators.template import tokenize
from covey_engine.prefill.api import Anchor, Literal
from covey_planner.physical import AnchorText, AskStep, Segment, Text
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import find_profile
from covey_storage.model_files import ModelFiles
from covey_storage.tokenizer import Tokenizer, load_tokenizer

ROOT = Path(__file__).resolve().parents[2]
PROFILE = find_profile(str(ROOT / "bench/peers/quail.toml"))
RECORDED = json.loads((Path(__file__).parent / "peer_prompts.json").read_text("utf-8"))
TOKENIZER = Path(os.environ.get("COVEY_QWEN3_TOKENIZER", ROOT / ".gpu/qwen3tok"))
TABLES = ("reviews", "aspects", "reports", "terms", "claims", "evidence", "traces")
SHAPES = ("filter", "filter_chain", "join_terms", "join_claims", "join_aspects", "traces")


def bench(name: str) -> ModuleType:
    """A module of bench/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / f"bench/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Catalog:
    """The tables of the workloads, without rows."""

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        return {name: {"id": "VARCHAR", "body": "VARCHAR"} for name in TABLES}

    def describe(self, sql: str) -> Sequence[tuple[str, str]]:
        return [("id", "VARCHAR")]


@pytest.fixture(scope="module")
def steps() -> Mapping[str, AskStep]:
    """What each workload's query asks: one step each."""
    workloads = bench("workloads").WORKLOADS
    found = {}
    for workload in workloads:
        (found[workload.name],) = plan(workload.sql, Catalog(), PlanOptions(PROFILE)).physical.steps
    return found


def shown(segments: Sequence[Segment], anchor: str, partner: str) -> list[str]:
    texts = [
        segment.text if isinstance(segment, Text) else anchor if isinstance(segment, AnchorText) else partner
        for segment in segments
    ]
    return [text for text in texts if text]


def sides(shape: str, row: list[str]) -> tuple[str, str]:
    """The texts of the anchor and the partner: claims meet their anchor, the passage, as the second argument."""
    return (row[1], row[0]) if shape == "join_claims" else (row[0], row[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_prompts_consist_of_the_peers_pieces(steps: Mapping[str, AskStep], shape: str) -> None:
    step = steps[shape]
    said = [
        [shown((*step.prefix, *question.suffix), *sides(shape, row)) for row in RECORDED["rows"]]
        for question in step.questions
    ]
    assert said == RECORDED["prompts"][shape]
    assert (step.partners is None) == (not shape.startswith("join"))


def test_three_questions_of_a_select_list_are_those_of_the_chain(steps: Mapping[str, AskStep]) -> None:
    chain, listed = steps["filter_chain"], steps["three_filters"]
    assert chain.prefix == listed.prefix
    assert [q.suffix for q in chain.questions] == [q.suffix for q in listed.questions]


@pytest.fixture(scope="module")
def qwen3() -> Tokenizer:
    if not (TOKENIZER / "tokenizer.json").exists():
        pytest.skip(f"the Qwen3 tokenizer is not in {TOKENIZER} (COVEY_QWEN3_TOKENIZER)")
    return load_tokenizer(ModelFiles(TOKENIZER, "folder", "qwen3", "qwen3"))


@pytest.mark.parametrize("shape", SHAPES)
def test_prompts_have_the_peers_tokens(steps: Mapping[str, AskStep], qwen3: Tokenizer, shape: str) -> None:
    template = tokenize(steps[shape], lambda text: qwen3.encode(text, special=True), qwen3.encode)
    for number, prompts in enumerate(RECORDED["prompts"][shape]):
        for row, pieces in zip(RECORDED["rows"], prompts, strict=True):
            anchor, partner = sides(shape, row)
            tokens: list[int] = []
            for part in template.parts(number):
                match part:
                    case Literal(literal):
                        tokens += literal
                    case Anchor():
                        tokens += qwen3.encode(anchor)
                    case _:
                        tokens += qwen3.encode(partner)
            # The peer's tokenizer recognizes control tokens in texts too; none of these has any.
            assert tokens == [token for piece in pieces for token in qwen3.encode(piece, special=True)]


def test_answers_are_the_peers(qwen3: Tokenizer) -> None:
    read: Any = readout(PROFILE, qwen3)
    words = {"yes": ("TRUE", " TRUE", "True", " True"), "no": ("FALSE", " FALSE", "False", " False")}
    for kind, texts in words.items():
        # The peer reads the first token of each.
        assert set(getattr(read, kind)) == {qwen3.encode(text)[0] for text in texts}
