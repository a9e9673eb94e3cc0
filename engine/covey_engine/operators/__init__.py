"""From a physical plan to Arrow batches: DuckDB runs the relational fragments, the prefill engine the questions."""
