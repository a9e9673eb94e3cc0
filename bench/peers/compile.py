"""Compile the peers' DeepGEMM kernels in many processes at once; they end in the cache that the peers look into.

    python bench/peers/compile.py [--processes 14]

One process after another would take Quail's first boot about six minutes. A kernel belongs to a range of row counts, so
each process takes a range of them, of each of the model's four linear layers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time

SHAPES = ((6144, 2560), (2560, 4096), (19456, 2560), (2560, 9728))
"""Outputs and inputs of Qwen3-4B's linear layers: qkv, output, gate and up, down."""

MOST_ROWS = 4096
"""Above about 2,048 rows no further kernels appear."""


def compile_part(part: int, parts: int) -> None:
    """Launch the products of this part's row counts once."""
    import torch
    from vllm.model_executor.layers.quantization.utils.fp8_utils import per_token_group_quant_fp8
    from vllm.model_executor.warmup.deep_gemm_warmup import _generate_optimal_warmup_m_values
    from vllm.utils.deep_gemm import fp8_gemm_nt, is_deep_gemm_e8m0_used

    began, device, powers = time.perf_counter(), torch.device("cuda", 0), bool(is_deep_gemm_e8m0_used())
    for outputs, inputs in SHAPES:
        counts = _generate_optimal_warmup_m_values(MOST_ROWS, outputs, device)
        mine = counts[part * len(counts) // parts : (part + 1) * len(counts) // parts]
        weight = torch.zeros(outputs, inputs, dtype=torch.float8_e4m3fn, device=device)
        scale = torch.ones(outputs // 128, inputs // 128, device=device)
        rows = torch.zeros(MOST_ROWS, inputs, dtype=torch.bfloat16, device=device)
        for count in mine:
            quantized = per_token_group_quant_fp8(
                rows[:count], group_size=128, column_major_scales=True, use_ue8m0=powers
            )
            out = torch.empty(count, outputs, dtype=torch.bfloat16, device=device)
            fp8_gemm_nt(quantized, (weight, scale), out, is_deep_gemm_e8m0_used=powers)
    torch.cuda.synchronize()
    print(f"part {part} of {parts}: {time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="compile the peers' kernels in many processes")
    parser.add_argument("--processes", type=int, default=14)
    parts = parser.parse_args().processes
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=compile_part, args=(part, parts)) for part in range(parts)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"{sum(worker.exitcode == 0 for worker in workers)} of {parts} processes succeeded", flush=True)


if __name__ == "__main__":
    main()
