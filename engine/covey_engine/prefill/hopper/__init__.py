"""The runner for Hopper GPUs (H100, H200): chunks go in, logits of the answer tokens come out.

`runner.open_runner` is the way in. Nothing is imported here: planning needs neither Triton nor a GPU.
"""
