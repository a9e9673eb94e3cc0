"""From a physical plan to Arrow batches: DuckDB runs the SQL, the engine the questions."""
