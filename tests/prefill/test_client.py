"""The engine over a real worker process with a fake runner: answers, errors, crashes, hangs, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from covey_engine.prefill.api import (
    Anchor,
    Argument,
    Ask,
    Engine,
    Labels,
    Literal,
    Partner,
    Running,
    WorkOrder,
    YesNo,
)
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import Cancelled, EngineError, ModelError, OutOfDeviceMemory, WorkerCrashed
from covey_engine.prefill.process.client import EngineClient
from covey_storage.keys import text_keys
from covey_storage.tokens import TokenColumnWriter
from support.fake_runner import plain_margin, plain_scores
from support.fake_worker import HUNGRY, OPENER

TESTS = Path(__file__).resolve().parents[1]
READOUT = YesNo((3,), (4,))
TEXTS = [[n % 7, n, n + 1] for n in range(40, 240)]

Start = Callable[..., EngineClient]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)


@pytest.fixture
def start() -> Iterator[Start]:
    clients = []

    def started(model: str = "fake", **settings: float) -> EngineClient:
        clients.append(EngineClient.start(EngineConfig(model, **settings), OPENER))  # type: ignore[arg-type]
        return clients[-1]

    yield started
    for client in clients:
        client.close()


def column(folder: Path, texts: list[list[int]]) -> str:
    keys = text_keys(f"{folder.name} {n}" for n in range(len(texts)))
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    ids = np.array([token for text in texts for token in text], np.int32)
    TokenColumnWriter(folder).append(keys, offsets, ids)
    return str(folder)


def everyone(folder: str, count: int = len(TEXTS)) -> tuple[Argument, ...]:
    return (Argument(folder, np.arange(count, dtype=np.int32)),)


def filter_order(
    folder: str, question: tuple[int, ...] = (1, 2), query: str = "q", count: int = len(TEXTS)
) -> WorkOrder:
    return WorkOrder(
        query, (Literal((9,)), Anchor()), (Ask((Literal(question),), READOUT),), everyone(folder, count)
    )


def margins(running: Running) -> dict[int, float]:
    return {
        item: margin
        for answers in running.answers()
        for item, margin in zip(answers.items.tolist(), answers.margins.tolist(), strict=True)
    }


def expected(question: tuple[int, ...] = (1, 2), texts: list[list[int]] = TEXTS) -> dict[int, float]:
    return {
        n: pytest.approx(plain_margin((9, *text, *question), READOUT), abs=1e-5)
        for n, text in enumerate(texts)
    }


def test_scores_of_labels_come_as_one_array_a_chunk(start: Start, tmp_path: Path) -> None:
    engine: Engine = start()
    labels = Labels(((1, 2, 3), (1, 2, 4), (6,)))
    order = filter_order(column(tmp_path / "texts", TEXTS))
    running = engine.submit(WorkOrder("q", order.prefix, (Ask((), labels),), order.anchors))
    found = {}
    for answers in running.answers():
        assert answers.error is None
        assert answers.scores.shape == (len(answers.items), 3)
        found.update(zip(answers.items.tolist(), answers.scores.tolist(), strict=True))
    assert found == {
        n: pytest.approx(plain_scores((9, *text), labels), abs=1e-4) for n, text in enumerate(TEXTS)
    }
    assert running.figures().fresh_tokens == 1 + sum(len(text) + 2 for text in TEXTS)


def test_a_filter_and_a_join_are_answered_and_counted(start: Start, tmp_path: Path) -> None:
    engine: Engine = start()
    folder = column(tmp_path / "texts", TEXTS)
    running = engine.submit(filter_order(folder))
    assert margins(running) == expected()
    figures = running.figures()
    assert figures.prompts == len(TEXTS)
    assert figures.fresh_tokens == 1 + len(TEXTS) * 5
    assert figures.prompt_tokens == len(TEXTS) * 6
    assert running.progress().tokens_to_come == 0
    asks = (Ask((Partner(), Literal((2,))), READOUT),)
    joined = margins(
        engine.submit(WorkOrder("j", (Anchor(),), asks, everyone(folder, 3), everyone(folder, 5)))
    )
    for anchor in range(3):
        for partner in range(5):
            tokens = (*TEXTS[anchor], *TEXTS[partner], 2)
            assert joined[anchor * 5 + partner] == pytest.approx(plain_margin(tokens, READOUT), abs=1e-5)


def test_orders_from_many_threads_are_kept_apart(start: Start, tmp_path: Path) -> None:
    engine = start()
    folder = column(tmp_path / "texts", TEXTS)
    results: dict[int, dict[int, float]] = {}

    def ask(n: int) -> None:
        results[n] = margins(engine.submit(filter_order(folder, (n,), query=str(n))))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[n] == expected((n,)) for n in range(8))


def test_orders_without_rows_end_at_once(start: Start, tmp_path: Path) -> None:
    folder = column(tmp_path / "texts", TEXTS)
    assert margins(start().submit(filter_order(folder, count=0))) == {}


def test_an_order_that_can_never_run_is_refused_in_one_line(start: Start, tmp_path: Path) -> None:
    engine = start()
    folder = column(tmp_path / "texts", [*TEXTS, [1] * 3000])
    with pytest.raises(
        EngineError, match=r"^the prompt of anchor 200 has 3003 tokens, the model's context is 2048$"
    ):
        engine.submit(filter_order(folder, count=201))
    with pytest.raises(EngineError, match=r"has 201 texts, slot 499 was asked for$"):
        engine.submit(filter_order(folder, count=500))
    with pytest.raises(EngineError, match=r"^no token column at "):
        engine.submit(filter_order(str(tmp_path / "absent")))
    assert margins(engine.submit(filter_order(folder, count=200))) == expected()


def test_a_row_that_is_not_finite_gets_an_error_of_its_own(start: Start, tmp_path: Path) -> None:
    folder = column(tmp_path / "texts", [[1], [13], [2]])
    order = WorkOrder("q", (Literal((9,)),), (Ask((Anchor(),), READOUT),), everyone(folder, 3))
    answers = list(start().submit(order).answers())
    assert sorted(item for a in answers if a.error is None for item in a.items.tolist()) == [0, 2]
    (bad,) = (a for a in answers if a.error is not None)
    assert bad.items.tolist() == [1]
    assert np.isnan(bad.margins).all()


def test_a_killed_worker_fails_its_orders_and_is_replaced(start: Start, tmp_path: Path) -> None:
    engine = start("slow", chunk_tokens=16)
    folder = column(tmp_path / "texts", TEXTS)
    running = engine.submit(filter_order(folder))
    answers = running.answers()
    next(answers)
    pid = engine.worker_pid
    os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(WorkerCrashed, match=r"lost \(killed by SIGKILL\)"):
        list(answers)
    assert time.monotonic() - begin < 2
    assert margins(engine.submit(filter_order(folder, count=20))) == expected(texts=TEXTS[:20])
    assert engine.worker_pid != pid


def test_a_hanging_worker_is_killed_and_replaced(start: Start, tmp_path: Path) -> None:
    engine = start("hanging", hang_seconds=0.5)
    pid = engine.worker_pid
    running = engine.submit(filter_order(column(tmp_path / "texts", TEXTS)))
    with pytest.raises(WorkerCrashed, match=r"no progress for 0\.5 s"):
        list(running.answers())
    assert engine.worker_pid != pid
    assert not psutil.pid_exists(pid)


def test_an_idle_worker_is_not_taken_for_a_hanging_one(start: Start) -> None:
    engine = start(hang_seconds=0.2)
    pid = engine.worker_pid
    time.sleep(0.6)
    assert engine.worker_pid == pid


def test_out_of_device_memory_fails_its_order_alone(start: Start, tmp_path: Path) -> None:
    # The worker ends at the first step that leaves anything of an order behind: support.lawful.
    engine = start("hungry")
    good = column(tmp_path / "good", TEXTS)
    pid = engine.worker_pid
    before = engine.submit(filter_order(good, query="before"))
    running = engine.submit(filter_order(column(tmp_path / "bad", [[HUNGRY]]), count=1))
    after = engine.submit(filter_order(good, (5,), query="after"))
    with pytest.raises(OutOfDeviceMemory, match="needs 2 GiB"):
        list(running.answers())
    assert margins(before) == expected()
    assert margins(after) == expected((5,))
    assert margins(engine.submit(filter_order(good))) == expected()
    assert engine.worker_pid == pid


def test_a_cancelled_order_stops_and_its_neighbour_goes_on(start: Start, tmp_path: Path) -> None:
    engine = start("slow", chunk_tokens=16)
    folder = column(tmp_path / "texts", TEXTS)
    stopped = engine.submit(filter_order(folder, query="stopped"))
    other = engine.submit(filter_order(folder, (5,), query="other", count=40))
    answers = stopped.answers()
    next(answers)
    stopped.cancel()
    with pytest.raises(Cancelled):
        list(answers)
    assert margins(other) == expected((5,), TEXTS[:40])
    stopped.cancel()
    assert margins(engine.submit(filter_order(folder, (6,), count=4))) == expected((6,), TEXTS[:4])


def test_a_model_that_cannot_be_loaded_is_said_at_start(start: Start) -> None:
    with pytest.raises(ModelError, match=r"^there is no model at missing$"):
        start("missing")


def test_a_worker_that_never_starts_gives_a_clear_error(start: Start) -> None:
    with pytest.raises(WorkerCrashed, match=r"ended while it loaded the model \(exit status 3\)$"):
        start("dying")


def test_closing_fails_running_orders_and_ends_the_worker(start: Start, tmp_path: Path) -> None:
    engine = start("hanging")
    pid = engine.worker_pid
    running = engine.submit(filter_order(column(tmp_path / "texts", TEXTS)))
    begin = time.monotonic()
    engine.close()
    assert time.monotonic() - begin < 3
    assert not psutil.pid_exists(pid)
    with pytest.raises(EngineError, match="the engine is closed"):
        list(running.answers())
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.submit(filter_order(str(tmp_path / "texts")))
    engine.close()


@pytest.mark.parametrize("model", ["fake", "hanging"])
def test_a_worker_dies_with_its_client(model: str, tmp_path: Path) -> None:
    folder = column(tmp_path / "texts", TEXTS)
    code = (
        "import sys, time\n"
        "from test_client import EngineClient, EngineConfig, OPENER, filter_order\n"
        f"engine = EngineClient.start(EngineConfig({model!r}), OPENER)\n"
        f"running = engine.submit(filter_order({folder!r}))\n"
        "print(engine.worker_pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    paths = os.pathsep.join([str(TESTS / "prefill"), os.environ["PYTHONPATH"]])
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker outlived its client"
        time.sleep(0.02)
