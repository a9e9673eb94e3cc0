"""What readouts look at."""

from __future__ import annotations

from covey_engine.prefill.api import Labels, YesNo
from covey_engine.prefill.readout import Head, answer_tokens, head_of

SIMPLE = YesNo((7,), (3,))
DOUBLE = YesNo((7, 20), (3, 11), zero_point=0.5)


def test_answer_tokens_are_a_union_in_order() -> None:
    assert answer_tokens([DOUBLE, SIMPLE, YesNo((2,), (20,))]) == (2, 3, 7, 11, 20)
    assert answer_tokens([]) == ()


def test_labels_need_the_normalizer() -> None:
    assert head_of([DOUBLE, SIMPLE]) == Head((3, 7, 11, 20), normalizer=False)
    assert head_of([SIMPLE, Labels(((5, 3), (9,)))]) == Head((3, 5, 7, 9), normalizer=True)
