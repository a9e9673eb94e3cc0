"""Kernels: one signature each, kept on the disk where that can be; and names, against a plain dictionary."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import warnings
from typing import Any

import covey_engine.prefill.scheduling as package
import numpy as np
import pytest
from covey_engine.prefill.scheduling.compiled import Ints, compile_kernels, kernel
from covey_engine.prefill.scheduling.names import Names, kinds_of, names_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

compile_kernels()


def kernels() -> list[Any]:
    modules = [
        importlib.import_module(f"{package.__name__}.{m.name}")
        for m in pkgutil.iter_modules(package.__path__)
    ]
    found = {id(value): value for module in modules for value in vars(module).values()}
    compile_kernels()
    return [value for value in found.values() if isinstance(value, Dispatcher)]


def test_each_kernel_has_one_signature_and_takes_no_other() -> None:
    assert kernels()
    for found in kernels():
        assert len(found.signatures) == 1, found
    (add,) = [found for found in kernels() if found.__name__ == "_sum_lengths"]
    texts, rows = np.array([3, 4], np.int32), np.array([1, 1, 0])
    assert add(np.array([0, 1], np.int32), rows, texts) == 11
    with pytest.raises(TypeError, match="No matching definition"):
        add(np.array([0, 1], np.int64), rows, texts)
    # Arrays that cannot be written to, such as mapped ones, are read by the same machine code.
    texts.flags.writeable = False
    assert add(np.array([0, 1], np.int32), rows, texts) == 11


def test_a_kernel_without_a_place_on_the_disk_is_compiled_all_the_same() -> None:
    scope: dict[str, Any] = {}
    exec("def double(number: int) -> int:\n    return 2 * number", scope)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        double = kernel(scope["double"])
        compile_kernels()
    assert double(21) == 42


def test_the_server_does_not_load_the_compiler() -> None:
    code = (
        "import covey_server.cli, covey_engine.prefill.process.client, sys; sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def ints(values: list[int]) -> Ints:
    return np.array(values, np.int64)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4000), st.integers(0, 1 << 32))
def test_names_are_found_until_they_are_dropped(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    names, known = Names(), dict[tuple[int, int], int]()
    for _ in range(4):
        wanted = {
            (int(parent), int(names_of(int(kind), ints([int(slot)]))[0]))
            for parent, kind, slot in random.integers([0, 1, -1], [50, 4, size], (size, 3))
        }
        new = sorted(wanted - known.keys())
        nodes = {key: len(known) + n + 1 for n, key in enumerate(new)}
        names.put(ints([key[0] for key in new]), ints([key[1] for key in new]), ints([*nodes.values()]))
        known |= nodes
        gone = [key for key in known if random.random() < 0.6]
        # Nodes without a name are passed over.
        names.drop(ints([1, *(key[0] for key in gone)]), ints([0, *(key[1] for key in gone)]))
        for key in gone:
            del known[key]
        assert found(names, sorted(wanted | known.keys())) == {
            key: known.get(key, key[0]) for key in wanted | known.keys()
        }


def found(names: Names, keys: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Where one step down from each parent by a name leads; the parent where there is no such node."""
    result = {}
    for key in keys:
        kind, slot = int(kinds_of(ints([key[1]]))[0]), (key[1] & 0xFFFFFFFF) - 1
        node, levels = ints([key[0]]), np.zeros(1 << 16, np.int64)
        slots = np.array([[slot]], np.int32)
        names.descend(ints([kind]), ints([0 if slot >= 0 else -1]), slots, -2, node, levels, levels)
        result[key] = int(node[0])
    return result


def test_a_name_cannot_be_given_twice_or_dropped_unknown() -> None:
    names = Names()
    names.put(ints([3]), names_of(2, ints([7])), ints([4]))
    with pytest.raises(AssertionError, match="a name was given twice"):
        names.put(ints([3]), names_of(2, ints([7])), ints([5]))
    with pytest.raises(AssertionError, match="a name that was not given"):
        names.drop(ints([3]), names_of(2, ints([8])))
