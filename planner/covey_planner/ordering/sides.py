"""Which relation of a question about pairs is the anchor, once that is chosen: a call's prompt depends on it, so all
calls that ask alike are asked from the same side; chooses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from covey_planner.call import Call


@dataclass
class Sides:
    """The sides chosen so far: for each question, the number of an argument of its anchor."""

    _numbers: dict[object, int] = field(default_factory=dict)

    def copy(self) -> Sides:
        """As they are now."""
        return Sides(dict(self._numbers))

    def choose(self, call: Call, relation: str) -> bool:
        """Ask calls like this one from a relation's side; False where they are asked from another one already."""
        kept = self._numbers.setdefault(_question(call), self.number(call, relation))
        return relation in call.arguments[kept].relations

    def fix(self, call: Call, number: int) -> None:
        """Ask calls like this one from the side of an argument."""
        self._numbers[_question(call)] = number

    @staticmethod
    def number(call: Call, relation: str) -> int:
        """The number of the first argument that is of a relation."""
        return next(n for n, argument in enumerate(call.arguments) if relation in argument.relations)

    @staticmethod
    def alike(one: Call, other: Call) -> bool:
        """Whether two calls ask the same of whatever values."""
        return _question(one) == _question(other)

    def of(self, call: Call) -> str | None:
        """The relation that a call is asked from; None where that is not chosen, or is no choice."""
        number = self._numbers.get(_question(call))
        if number is None or not call.is_join:
            return None
        return min(call.arguments[number].relations, default=None)

    def on(self, call: Call) -> Call:
        """The call, asked from the chosen side."""
        relation = self.of(call)
        return call if relation is None else replace(call, anchor=relation, chosen=True)


def _question(call: Call) -> object:
    """Equal for calls that ask the same of whatever values."""
    return call.template, call.kind, call.labels, call.anchor
