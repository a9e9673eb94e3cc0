"""A fake model for whole statements: an answer is a hash of the words and documents that a prompt's tokens hold.

sql/oracle.sql computes the same hash inside DuckDB. A prompt is read strictly: every token must be in its place, so
that a wrong token, a wrong row or a wrong pair gives another answer, or none. Which document of a pair comes first
does not change the answer: that is the planner's choice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from covey_engine.prefill import api
from covey_planner.profiles import FilterForm, JoinForm, PromptProfile, Words
from support.byte_tokenizer import byte_tokenizer
from support.fake_engine import FakeEngine, FakeRunning, Path
from tokenizers.pre_tokenizers import ByteLevel

TOKENIZER = byte_tokenizer()
OPEN, CLOSE, ASK = (TOKENIZER.token_id(piece) for piece in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
"""Control tokens, which no document holds: they open and close a document, and stand around the question."""

_OFTEN = {"seldom": 6554, "often": 58982}
"""How many of 65,536 answers are yes, by a word of the question."""
_ELSE = 32768

_QUESTION = "<|endoftext|>{question}<|endoftext|>"
PROFILE = PromptProfile(
    name="hash",
    family="hash",
    layout="document_first",
    yes=("Yes",),
    no=("No",),
    words=Words(label="1", label_numbered="{n}", the="document 1", the_numbered="document {n}"),
    filter=FilterForm(document="<|im_start|>{label}:{text}<|im_end|>", separator="", after=_QUESTION),
    join=JoinForm(between=_QUESTION, open="<|im_start|>{label}:", close="<|im_end|>"),
)


def _byte_values() -> dict[int, bytes]:
    """The bytes of each token that is no control token."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(hidden)}
    assert set(letters) == set(ByteLevel.alphabet())
    values = {n: bytes([letters[piece]]) for n, piece in enumerate(sorted(letters))}
    for word in ("Yes", "No", "yes", "no", "TRUE", "FALSE", "True", "False"):
        for text in (word, " " + word):
            token = TOKENIZER.token_id(text)
            if token is not None:
                values[token] = text.encode()
    return values


_BYTES = _byte_values()


@dataclass(frozen=True)
class Asked:
    """A prompt as it was meant. documents: in the order of their numbers."""

    question: str
    documents: tuple[str, ...]

    @property
    def key(self) -> str:
        return "\x1f".join((self.question, *self.documents))

    @property
    def margin(self) -> float:
        limit = next((often for word, often in _OFTEN.items() if word in self.question), _ELSE)
        return (limit - int(_digest(self.key)[:4], 16) - 0.5) / 4096

    def score(self, label: str) -> float:
        return float(int(_digest(f"{self.key}\x1f{label}")[:6], 16))


def _digest(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def read_prompt(tokens: list[int]) -> Asked:
    """What a prompt asks. Raises AssertionError where a token is not in its place."""
    questions: list[str] = []
    documents: dict[int, str] = {}
    at = 0
    while at < len(tokens):
        assert tokens[at] in (OPEN, ASK), "something stands outside of documents and question"
        end = tokens.index(CLOSE if tokens[at] == OPEN else ASK, at + 1)
        text = read_text(tokens[at + 1 : end])
        if tokens[at] == ASK:
            questions.append(text)
        else:
            label, _, document = text.partition(":")
            assert int(label) not in documents, "a document appears twice"
            documents[int(label)] = document
        at = end + 1
    assert len(questions) == 1, "a prompt asks one question"
    assert sorted(documents) == [*range(1, len(documents) + 1)], "documents are numbered"
    return Asked(questions[0], tuple(documents[number] for number in sorted(documents)))


def read_text(tokens: list[int]) -> str:
    """The text of tokens without control tokens."""
    return b"".join(_BYTES[token] for token in tokens).decode()


@dataclass(frozen=True)
class Sent:
    """A prompt as it came: what it asks, its tokens (int32, little endian), and the labels that it is for."""

    asked: Asked
    tokens: bytes
    labels: tuple[str, ...] = ()


class HashEngine(FakeEngine):
    """A FakeEngine that answers by what a prompt says. sent: every prompt so far."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Sent] = []

    def start(self, order: api.WorkOrder) -> FakeRunning:
        return _HashRunning(self, order)


class _HashRunning(FakeRunning):
    def __init__(self, engine: HashEngine, order: api.WorkOrder) -> None:
        super().__init__(engine, order)
        self._sent = engine.sent

    def value(self, path: Path, readout: api.YesNo) -> float:
        asked = _read(path)
        self._sent.append(Sent(asked, path.data))
        return asked.margin

    def scores(self, path: Path, readout: api.Labels) -> list[float]:
        asked = _read(path)
        labels = [read_text(list(label)) for label in readout.labels]
        self._sent.append(Sent(asked, path.data, tuple(labels)))
        assert all(label[0] == " " and label[-1] == "\n" for label in labels)
        return [asked.score(label[1:-1]) for label in labels]


def _read(path: Path) -> Asked:
    return read_prompt(np.frombuffer(path.data, np.int32).tolist())
