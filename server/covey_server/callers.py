"""Who asks: the session, the options that hold for a call, and what runs for it; plans and runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from covey_server.options import ON_OVERFLOW, Assignment, choice
from covey_server.query import Query
from covey_server.sessions import Session

if TYPE_CHECKING:
    # A server without a model starts without the operators.
    from covey_engine.operators.overflow import Overflow


@dataclass
class Call:
    """Who asks. tag: the client's name for its runs; query: what runs for this call now.

    defaults: of session options, as headers say them, until the session sets them; dialect: of this call alone.
    """

    session: Session
    tag: str | None = None
    query: Query | None = None
    cancelled: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)
    dialect: str | None = None

    def option(self, name: str) -> str:
        """The value of a session option. Raises BadRequest where a header has none of its values."""
        return self.session.options.get(name) or choice(name, self.defaults.get(name))

    @property
    def on_overflow(self) -> Overflow:
        """What happens to texts longer than the model's context."""
        return cast("Overflow", self.option(ON_OVERFLOW))

    def set_option(self, said: Assignment) -> None:
        """Set a session option, or take it back to its default. Raises BadRequest for an unknown value."""
        value = choice(said.name, said.value)
        if said.value is None:
            self.session.options.pop(said.name, None)
        else:
            self.session.options[said.name] = value

    def cancel(self) -> None:
        """The caller has gone away."""
        self.cancelled = True
        if self.query is not None:
            self.query.cancel()
