"""From SQL text to a physical plan: the cheapest way to answer a statement; never touches torch or a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covey_planner.plan import Planned, PlanOptions, plan

__all__ = ["PlanOptions", "Planned", "plan"]


def __getattr__(name: str) -> Any:
    """Import the planner (and sqlglot) on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module("covey_planner.plan")
    return getattr(module, name)
