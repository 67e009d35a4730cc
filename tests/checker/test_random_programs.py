"""The checker agrees with ``plain``, a simple implementation of its rules, on small programs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from rammer_mlir.checker import verify
from rammer_mlir.errors import RammerError
from tests.checker.files import members_of, write_members
from tests.checker.plain import Small
from tests.checker.random_programs import Drawer

EACH, SEEDS = 100, 16


def refusal(path: Path) -> str:
    """Return the checker's message of refusal, or an empty string."""
    try:
        verify(path)
    except RammerError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agrees_with_the_rules_written_plainly(seed: int, tmp_path: Path) -> None:
    """The checker refuses exactly the programs that break a rule by ``plain``, on both targets."""
    rng = random.Random(seed)
    found: Counter[int] = Counter()
    for number in range(EACH):
        drawn = Drawer(rng).draw()
        target = rng.choice(("cpu", "nvvm:sm_90"))
        rule = Small(drawn.program, drawn.proof, drawn.boxes).broken()
        members = members_of(drawn.program, drawn.proof, drawn.boxes, drawn.sizes, target)
        message = refusal(write_members(tmp_path / "small.rammer", members))
        assert bool(rule) == bool(message), (seed, number, rule, message)
        found[rule] += 1
    assert found[0] > EACH // 10
    assert sum(found[rule] for rule in range(1, 6)) > EACH // 10
