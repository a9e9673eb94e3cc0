"""Called once a server's process has loaded everything; from then on the garbage collector passes over all of that.

What a server loads (modules, tokenizer, catalog) are hundreds of thousands of objects that live as long as it does. A
full collection in the middle of a statement would look at each of them.
"""

from __future__ import annotations

import gc

_YOUNG = 10_000
"""Objects made before the youngest are looked at: a statement's plan makes tens of thousands, and soon drops them."""


def set_apart() -> None:
    """Collect what is garbage now, and look at nothing that is left again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
