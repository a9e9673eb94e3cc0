"""Which answers saw a spoiled key or value: ranges of arena flags go in, one byte an answer comes out.

Contract: flags uint8 [arena]; spans int32 [answers, ranges, 2] of (first address, length), length 0 for none;
out uint8 [answers].
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def spoiled(flags: Tensor, spans: Tensor, out: Tensor) -> None:
    """Launch over all answers: out[a] is 1 where any flag in a's ranges is set."""
    answers, ranges, _ = spans.shape
    assert spans.is_contiguous()
    if answers:
        _spoiled[(answers,)](flags, spans, out, ranges, BLOCK=1024, num_warps=4)


@triton.jit  # type: ignore[untyped-decorator]
def _spoiled(flags, spans, out, ranges, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    answer = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    found = tl.zeros([BLOCK], tl.int32)
    for index in range(ranges):
        place = spans + (answer * ranges + index) * 2
        start = tl.load(place).to(tl.int64)
        length = tl.load(place + 1)
        for offset in range(0, length, BLOCK):
            found |= tl.load(flags + start + offset + lane, mask=offset + lane < length, other=0).to(tl.int32)
    tl.store(out + answer, tl.max(found, axis=0).to(tl.uint8))
