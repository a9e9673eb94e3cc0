"""The engine: `prefill` turns tokens into answers, `operators` turn a physical plan into Arrow batches."""
