"""The embedded model against transformers' own loading of the same file: margins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill.api import Anchor, Argument, Ask, Labels, Literal, WorkOrder, YesNo
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.local import LocalEngine
from covey_engine.prefill.readout import answer_tokens
from covey_engine.prefill.runner import Runner
from covey_engine.prefill.scheduling.margins import MarginReader
from covey_storage.model_files import fetch_embedded, resolve_model
from covey_storage.tokenizer import load_tokenizer
from support.hand_packing import HandPacker
from support.memory_column import MemoryColumn
from support.transformers_reference import reference_scores
from transformers import AutoModelForCausalLM
from transformers.utils import logging

TICKET = (
    "The kettle that I ordered in March came two weeks late, and its lid does not close. "
    "Your colleague on the phone was friendly but could not say when a new one will be sent."
)
LABELS = tuple(
    f"{mood} {subject}"
    for mood in ("a friendly", "an angry", "a polite", "a neutral", "an urgent", "a confused")
    for subject in (
        "complaint about delivery",
        "question about a price",
        "order",
        "order change",
        "thank you",
    )
)
QUESTIONS = (
    "Does the customer complain about a delivery?",
    "Is this about a kettle?",
    "Does the customer praise anyone?",
    "Was the parcel",
    "Should the writer get money back?",
)


@pytest.fixture(scope="module")
def file() -> Path:
    return fetch_embedded()


@pytest.fixture(scope="module")
def runner(file: Path) -> Runner:
    return open_runner(EngineConfig(str(file), device="cpu"))


@pytest.fixture(scope="module")
def oracle(file: Path) -> Any:
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    return model.eval()


def test_it_says_what_it_is(runner: Runner) -> None:
    info = runner.info
    assert (info.model, info.architecture) == ("SmolLM2-135M-Instruct.Q4_1", "llama")
    assert info.context_length == 8192
    assert info.arena_tokens > 4096


def test_margins_equal_transformers(runner: Runner, oracle: Any) -> None:
    tokenizer = load_tokenizer(resolve_model())

    def ids(text: str) -> tuple[int, ...]:
        return tokenizer.encode(text, special=True)

    readouts = (YesNo(ids("Yes") + ids(" Yes"), ids("No")), YesNo(ids(" late"), ids(" new") + ids("!")))
    tokens = answer_tokens(readouts)
    runner.set_answer_tokens(tokens)
    packer = HandPacker(gap=0)
    head = packer.add(ids("<|im_start|>user\nRead the ticket."))
    ticket = packer.add(ids(TICKET), head)
    cut = packer.add(ids(" And another thing: " + TICKET), ticket)
    chunks = [packer.chunk()]
    for question in QUESTIONS:
        packer.add(ids(f"\n{question} Answer Yes or No.<|im_end|>\n<|im_start|>assistant\n"), cut, (-1,))
        packer.add(ids(f"\n{question} It is"), head, (-1,))
    chunks.append(packer.chunk())
    logits = np.concatenate([runner.run(chunk) for chunk, _ in chunks])
    prompts = [prompt for _, prompts in chunks for prompt in prompts]
    with torch.inference_mode():
        rows = [oracle(torch.tensor([p]), logits_to_keep=1).logits[0, -1, list(tokens)] for p in prompts]
    expected = torch.stack(rows).numpy()
    reader = MarginReader(tokens)
    every = np.arange(len(prompts))
    for readout in readouts:
        margins = reader.margins(logits, readout, every)
        np.testing.assert_allclose(margins, reader.margins(expected, readout, every), atol=1e-3, rtol=0)
        assert margins.std() > 0.1


def test_scores_of_labels_equal_transformers(runner: Runner, oracle: Any) -> None:
    tokenizer = load_tokenizer(resolve_model())

    def ids(text: str) -> tuple[int, ...]:
        return tokenizer.encode(text, special=True)

    texts = [ids(TICKET), ids("How much is the blue one?")]
    labels = Labels(tuple(ids(label + "<|im_end|>") for label in LABELS))
    assert len(labels.labels) == 30
    assert min(map(len, labels.labels)) > 3
    head, tail = ids("<|im_start|>user\n"), ids("\nWhat is it?<|im_end|>\n<|im_start|>assistant\nIt is ")
    engine = LocalEngine(runner, {"texts": MemoryColumn(texts)}.__getitem__)
    argument = Argument("texts", np.arange(2, dtype=np.int32))
    running = engine.submit(
        WorkOrder("q", (Literal(head), Anchor()), (Ask((Literal(tail),), labels),), (argument,))
    )
    scores = np.empty((2, 30), np.float32)
    for answers in running.answers():
        scores[answers.items] = answers.scores
    figures = running.figures()
    engine.close()
    expected = reference_scores(oracle, [(*head, *text, *tail) for text in texts], labels.labels)
    np.testing.assert_allclose(scores, expected, atol=1e-3, rtol=0)
    assert expected.std(axis=1).min() > 1
    inner = {label[:n] for label in labels.labels for n in range(1, len(label))}
    fresh = len(head) + sum(len(text) + len(tail) + len(inner) for text in texts)
    assert figures.fresh_tokens == fresh
