"""What is there: tables and views in a DuckDB catalog, and their text columns as memory-mapped tokens."""
