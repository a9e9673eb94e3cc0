"""Orders in, chunks out: prefix tree, KV arena and shared queue; torch-free."""
