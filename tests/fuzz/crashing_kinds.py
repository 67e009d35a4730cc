"""Kinds of cases for tests of the children: one that ends its process, and one that does not."""

from __future__ import annotations

import os

from tests.fuzz.case import Case, Problem
from tests.fuzz.pool import Kind


def _crash(case: Case) -> Problem | None:
    """End the process by a signal, as native code does."""
    os.kill(os.getpid(), case.seed)
    return None


KINDS = {
    "crash": Kind(lambda seed: Case("crash", seed, b""), _crash),
    "fine": Kind(lambda seed: Case("fine", seed, b""), lambda case: None),
}
