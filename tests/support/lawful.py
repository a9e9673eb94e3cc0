"""Makes every scheduler of the tests assert the law of conservation after each step; and what its check looks at.

Where no order runs any more, all of the arena is free.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.scheduler import Scheduler
from covey_engine.prefill.scheduling.tree import Tree

STEPS = ("admit", "cancel", "schedule", "settle", "fail", "shrink", "finish_empty")


def obey() -> None:
    """Wrap the steps of Scheduler, once in a process."""
    for name in STEPS:
        step = getattr(Scheduler, name)
        if not hasattr(step, "__wrapped__"):
            setattr(Scheduler, name, _checked(step))


def _checked(step: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(step)
    def checked(scheduler: Scheduler, *arguments: Any) -> Any:
        found = step(scheduler, *arguments)
        scheduler.check()
        assert scheduler.running or scheduler.arena.free == scheduler.arena.total, "kept for no order"
        return found

    return checked


def tree_of(scheduler: Scheduler) -> tuple[Tree, dict[int, Kind]]:
    """The tree, and all kinds by number."""
    return scheduler._tree, scheduler._kinds.each
