"""The functions that a plan declares: by anchor when a plan is read, by name when one is written."""

from __future__ import annotations

from typing import Any

from substrait.extensions.extensions_pb2 import SimpleExtensionDeclaration

from covey_planner.errors import BindError


class Declared:
    """The functions that a plan's expressions refer to. Plans before 2025 name extensions by URI, not URN."""

    def __init__(self, plan: Any) -> None:
        urns = {item.extension_urn_anchor: item.urn for item in plan.extension_urns}
        uris = {item.extension_uri_anchor: item.uri for item in plan.extension_uris}
        self._functions: dict[int, tuple[str, str]] = {}
        for item in plan.extensions:
            if item.WhichOneof("mapping_type") == "extension_function":
                said = item.extension_function
                owner = urns.get(said.extension_urn_reference) or uris.get(said.extension_uri_reference, "")
                self._functions[said.function_anchor] = owner, said.name.partition(":")[0].lower()

    def function(self, anchor: int) -> tuple[str, str]:
        """Extension and name, without the signature, of a function. Raises BindError for an unknown anchor."""
        if anchor not in self._functions:
            raise BindError(f"the plan refers to function {anchor}, which it does not declare")
        return self._functions[anchor]


class Declaring:
    """Collects the functions that a plan under construction refers to."""

    def __init__(self) -> None:
        self._urns: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}

    def anchor(self, urn: str, signature: str) -> int:
        """The anchor of a function, from 1."""
        self._urns.setdefault(urn, len(self._urns) + 1)
        return self._functions.setdefault((urn, signature), len(self._functions) + 1)

    def declare(self, plan: Any) -> None:
        """Put the declarations into a plan."""
        for urn, anchor in self._urns.items():
            plan.extension_urns.add(extension_urn_anchor=anchor, urn=urn)
        for (urn, signature), anchor in self._functions.items():
            plan.extensions.add().extension_function.MergeFrom(
                SimpleExtensionDeclaration.ExtensionFunction(
                    extension_urn_reference=self._urns[urn], function_anchor=anchor, name=signature
                )
            )
