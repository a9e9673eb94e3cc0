"""A prompt's segments in, the tokens of its fixed text by how often they are computed out; never touches a row."""

from __future__ import annotations

from covey_planner.cost.prompted import Encode
from covey_planner.ordering.problem import Prompt
from covey_planner.physical import AnchorText, PartnerText, Text
from covey_planner.prompts import Prompt as Segments


def lengths(prompt: Segments, encode: Encode) -> Prompt:
    """The fixed tokens of a prompt; what is shared is its prefix."""
    counts = {"head": 0.0, "document": 0.0, "question": 0.0, "pair": 0.0}
    again = not any(isinstance(segment, AnchorText) for segment in prompt.prefix)
    place = "head"
    for number, segment in enumerate((*prompt.prefix, *prompt.suffix)):
        match segment:
            case Text(text):
                at = place
                if place == "document" and number >= len(prompt.prefix):
                    at = "question"
                counts[at] += len(encode(text, True))
            case AnchorText():
                place = "question" if again else "document"
            case PartnerText():
                place = "pair"
    return Prompt(**counts, shared=prompt.prefix, again=again)
