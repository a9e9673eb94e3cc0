"""Kernels of the Hopper runner, ours and others': device tensors go in, and come out changed."""
