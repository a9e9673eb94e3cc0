"""Float32 matrices in a CPU's memory go in, their product by numpy's library comes out; says where that is the faster.

torch's products are MKL's, numpy's mostly OpenBLAS's, and MKL is made for its vendor's processors. On one of the other
vendor (Zen 3, one thread, 264 and 516 rows, weights that lie in no cache) OpenBLAS took 0.94 and 0.90 of its CPU time
for 1,536 outputs of 576 inputs, 0.96 and 0.99 for 960 of 576, but 1.0 and 0.93 for 576 of 1,536, 1.06 and 1.02 for 576
of 576. The choice is a rule and no trial, so that a worker that takes another's place computes the same bits.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

_PROCESSORS = Path("/proc/cpuinfo")


def numpy_is_faster(weight: Tensor) -> bool:
    """Whether `multiply` by weight [outputs, inputs] takes less time than torch does on one thread."""
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
    return on_cpu and len(weight) > weight.shape[1] and _suits_numpy()


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """x [rows, inputs] times weight [outputs, inputs] transposed: [rows, outputs]."""
    product = x.new_empty(len(x), len(weight))
    # Rows that are not finite are the attention's to find.
    with np.errstate(all="ignore"):
        np.matmul(x.numpy(), weight.t().numpy(), out=product.numpy())
    return product


@functools.cache
def _suits_numpy() -> bool:
    """Whether this is such a processor, and each call of numpy's library keeps to its own thread."""
    # OpenBLAS reads it once, as it is loaded; a worker's is set by who starts it.
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1" or not _PROCESSORS.is_file():
        return False
    by_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    library: str = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    return by_mkl and "openblas" in library and "AuthenticAMD" in _PROCESSORS.read_text()
