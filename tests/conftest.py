"""What all tests share: where the masked emails are, and the embedded model."""

from __future__ import annotations
