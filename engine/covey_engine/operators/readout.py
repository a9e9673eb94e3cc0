"""A prompt profile's name goes in, the token ids of its answers come out; never touches a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from covey_planner.profiles import PromptProfile
from covey_storage.tokenizer import Tokenizer

from covey_engine.operators.errors import OperatorError
from covey_engine.prefill import api


def readout(profile: PromptProfile, tokenizer: Tokenizer) -> api.YesNo:
    """How answers in this profile are read. Raises OperatorError where an answer is not one token."""
    return api.YesNo(
        _tokens(profile.name, profile.yes, tokenizer),
        _tokens(profile.name, profile.no, tokenizer),
        profile.zero_point,
    )


def _tokens(profile: str, pieces: Sequence[str], tokenizer: Tokenizer) -> tuple[int, ...]:
    ids = []
    for piece in pieces:
        token = tokenizer.token_id(piece)
        if token is None:
            raise OperatorError(
                f"prompt profile {profile}: the answer {piece!r} is not one token of the pinned model"
            )
        ids.append(token)
    return tuple(ids)
