"""Prefill-only inference: work orders of prompt segments go in, answer margins come out; no SQL is known here."""
