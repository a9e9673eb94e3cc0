"""Substrait plans: SQL of our core in, plans out, and plans in, SQL out; runs nothing and never asks the model."""
