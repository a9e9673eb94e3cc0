"""Attention calls and their plan: both ways of computing agree, and few calls do for many segments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from covey_engine.prefill import attention
from covey_engine.prefill.plan import plan_chunk
from support.hand_packing import HandPacker


def _random(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "rows", "keys"), [(1, 1, 1), (1, 70, 70), (5, 12, 12), (2, 9, 9)])
def test_plain_attention_equals_the_kernel(
    n: int, rows: int, keys: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_SCORE_BYTES", 4096)
    queries, k, v = _random(n, rows, 6, 8), _random(n, keys, 2, 8), _random(n, keys, 2, 8)
    expected = attention.attend(queries, k, v, causal=causal)
    result = attention._attend_plainly(queries, k, v, causal, None)
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_hidden_keys_do_not_count() -> None:
    queries, k, v = _random(2, 3, 4, 8), _random(2, 10, 2, 8), _random(2, 10, 2, 8)
    hidden = torch.arange(10).expand(2, 10) >= 7
    result, weight = attention.attend(queries, k, v, hidden=hidden)
    expected, lighter = attention.attend(queries, k[:, :7], v[:, :7])
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(weight, lighter)


def test_suffixes_over_one_anchor_are_two_calls() -> None:
    packer = HandPacker(gap=0)
    head = packer.add(range(5))
    anchor = packer.add(range(200), head)
    packer.chunk()
    for _ in range(50):
        packer.add(range(12), anchor, (-1,))
    plan = plan_chunk(packer.chunk()[0])
    (call,) = plan.selves
    assert (call.count, call.length, call.rows, call.valid) == (50, 12, slice(0, 600), None)
    (context,) = plan.contexts
    assert (context.first, context.stop, context.kv_first, context.kv_stop) == (0, 600, 0, 205)
    assert (context.answer_first, context.answer_stop) == (0, 50)
    (answers,) = plan.answers
    assert (answers.count, answers.keys, answers.hidden) == (50, 12, None)


def test_ragged_suffixes_are_few_calls() -> None:
    packer, rng = HandPacker(), np.random.default_rng(0)
    anchors = [packer.add(range(100)) for _ in range(3)]
    packer.chunk()
    lengths = rng.integers(3, 20, 60)
    for index, length in enumerate(lengths):
        packer.add(range(length), anchors[index // 20], (-1,))
    plan = plan_chunk(packer.chunk()[0])
    assert len(plan.selves) <= 5
    assert len(plan.answers) <= 4
    assert len(plan.contexts) == 3
    rows = np.concatenate(
        [
            np.arange(c.rows.start, c.rows.stop) if isinstance(c.rows, slice) else np.unique(c.rows)
            for c in plan.selves
        ]
    )
    assert np.array_equal(np.sort(rows), np.arange(lengths.sum()))
