"""Rewrite rules of logical plans, one a file, and their order."""
