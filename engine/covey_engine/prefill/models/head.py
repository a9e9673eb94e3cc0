"""Hidden states of answer rows go in, logits of some tokens and the normalizer of all come out; torch on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROWS, TOKENS = 2048, 8192
"""Answer rows and tokens whose logits are in memory at once: 64 MB of float32."""


@dataclass(frozen=True, eq=False)
class CutHead:
    """An output head cut to some tokens.

    cut: float32 [tokens, hidden]; whole: [vocabulary, hidden] where the normalizer is wanted.
    """

    cut: Tensor
    whole: Tensor | None = None

    @staticmethod
    def of(head: Tensor, ids: Sequence[int], normalizer: bool = False) -> CutHead:
        """The head [vocabulary, hidden] cut to these token ids."""
        index = torch.tensor(ids, dtype=torch.int64, device=head.device)
        return CutHead(head.index_select(0, index).float(), head if normalizer else None)

    @property
    def columns(self) -> int:
        """How many columns `logits` has."""
        return len(self.cut) + (self.whole is not None)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits float32 [answers, tokens] of hidden states [answers, hidden]; the normalizer as the last column."""
        wide = hidden.float()
        logits = torch.mm(wide, self.cut.t())
        if self.whole is None:
            return logits
        return torch.cat([logits, log_normalizer(wide, self.whole)[:, None]], 1)


def log_normalizer(hidden: Tensor, head: Tensor, rows: int = ROWS, tokens: int = TOKENS) -> Tensor:
    """Log-sum-exp of the logits of all tokens: float32 [answers]; computed in blocks of `rows` by `tokens`."""
    total = torch.full((len(hidden),), float("-inf"), device=hidden.device)
    for begin in range(0, len(head), tokens):
        block = head[begin : begin + tokens].float().t()
        for first in range(0, len(hidden), rows):
            part = total[first : first + rows]
            logits = torch.mm(hidden[first : first + rows], block)
            torch.logaddexp(part, logits.logsumexp(1), out=part)
    return total
