"""Two kinds of cases for tests of child processes: one kind crashes, the other does nothing."""

from __future__ import annotations

import os

from tests.fuzz.case import Case, Problem
from tests.fuzz.pool import Kind


def _crash(case: Case) -> Problem | None:
    """End this process by the signal whose number is the case's seed, as a crash in native code."""
    os.kill(os.getpid(), case.seed)
    return None


KINDS = {
    "crash": Kind(lambda seed: Case("crash", seed, b""), _crash),
    "fine": Kind(lambda seed: Case("fine", seed, b""), lambda case: None),
}
