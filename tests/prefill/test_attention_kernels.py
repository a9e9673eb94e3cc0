"""Attention libraries over scattered key ranges, beside plain attention; and which of them is chosen."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.kernels import attention
from covey_engine.prefill.kernels.attention import FlashAttention3, FlashAttention4, Ranges, flash_attention
from support import hopper_kernels as kernels
from support.hopper_kernels import DEVICE, GPU

CALLS: dict[str, tuple[list[int], list[int], list[int], list[int], bool]] = {
    "in a row": ([0, 100, 105], [100, 5, 300], [0, 100, 105], [100, 5, 300], True),
    "rows between left alone": ([7, 200], [40, 130], [500, 3], [40, 130], True),
    "longer contexts": ([0, 64], [3, 60], [0, 900], [700, 64], True),
    "unsorted, one range twice, overlapping": (
        [0, 50, 100, 150],
        [20, 20, 20, 20],
        [900, 10, 900, 15],
        [100, 300, 100, 290],
        False,
    ),
    "many short": ([*range(0, 400, 4)], [4] * 100, [*range(600, 1000, 4)], [9] * 100, False),
}


def library(name: str) -> attention.Attention:
    kernel = {"3": FlashAttention3, "4": FlashAttention4}[name]
    try:
        return kernel()
    except ImportError as error:
        pytest.skip(f"FlashAttention {name} is not installed: {error}")


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a Hopper GPU")
@pytest.mark.parametrize("name", ["3", "4"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("heads", [(32, 8), (3, 3)])
def test_it_equals_plain_attention(name: str, call: str, heads: tuple[int, int]) -> None:
    forward, ranges = library(name), kernels.ranges(*CALLS[call])
    generator = torch.Generator(DEVICE).manual_seed(1)

    def random(rows: int, count: int) -> torch.Tensor:
        shape = (rows, count, 128)
        return torch.randn(shape, generator=generator, device=DEVICE, dtype=torch.bfloat16)

    # queries are a part of wider rows, as they come from the projection
    queries = random(420, sum(heads))[:, : heads[0]]
    keys, values = random(1024, heads[1]), random(1024, heads[1])
    out, expected = (torch.full((420, heads[0], 128), 7.0, device=DEVICE).bfloat16() for _ in range(2))
    lse = forward(queries, keys, values, ranges, out)
    sums = kernels.plain_attention(queries, keys, values, ranges, expected)
    covered = ~sums[0].isnan()
    assert kernels.relative_error(out[covered], expected[covered]) < 5e-3
    assert (out[~covered] == 7.0).all()
    assert (lse[:, covered] - sums[:, covered]).abs().max() < 1e-3
    again = torch.full_like(out, 7.0)
    assert torch.equal(forward(queries, keys, values, ranges, again)[:, covered], lse[:, covered])
    assert torch.equal(out, again)


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[tuple[object, ...]]:
    """Stand-ins for the libraries, of which only `names` can be imported; their calls."""
    calls: list[tuple[object, ...]] = []
    for name in ("fa3_fwd._C", "flash_attn.cute.interface"):
        module = ModuleType(name)
        module._flash_attn_fwd = lambda *given, **named: calls.append((*given, named)) or (None, "lse")  # type: ignore[attr-defined]
        for folder in (name.split(".")[0], name.rpartition(".")[0]):
            monkeypatch.setitem(sys.modules, folder, ModuleType(folder))
        monkeypatch.setitem(sys.modules, name, module if name in names else None)
    return calls


def test_the_third_is_preferred_and_the_fourth_does_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = installed(monkeypatch, "flash_attn.cute.interface")
    chosen = flash_attention()
    assert isinstance(chosen, FlashAttention4)
    queries = torch.zeros(4, 2, 64)
    ranges = Ranges(*(torch.tensor(x) for x in ([0, 4], [4], [0, 4], [4])), 4, 4, True)
    assert chosen(queries, queries, queries, ranges, queries) == "lse"
    assert calls[0][-1]["softmax_scale"] == 0.125  # type: ignore[index]
    monkeypatch.setattr(attention, "FlashAttention3", lambda: "third")
    assert flash_attention() == "third"


def test_without_either_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    with pytest.raises(EngineError, match=r"fa3-fwd or flash-attn-4.*fa3_fwd._C.*flash_attn\.cute"):
        flash_attention()
