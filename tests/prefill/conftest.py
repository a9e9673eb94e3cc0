"""Without a GPU the Hopper kernels run in Triton's interpreter, which must be chosen before Triton is imported."""

from __future__ import annotations

import os
from pathlib import Path

if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
