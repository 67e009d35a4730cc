"""Each mutant of a real artifact is refused, or computes equal results in every order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.checker import verify
from rammer_mlir.errors import RammerError
from tests.checker.execution import Oracle
from tests.checker.files import read_members, write_members
from tests.checker.mutants import Members, mutant


@dataclass(frozen=True)
class Real:
    """The options with which a model is compiled to a real artifact, whose mutants are tried."""

    model: str
    target: str
    policy: str
    veus: int
    scale: Scale = "small"

    def members(self, path: Path) -> Members:
        """Compile the model and prove the artifact; return the artifact's members by name."""
        model = build(self.model, scale=self.scale)
        with rammer_mlir.compile(
            model, target=self.target, policy=self.policy, num_veus=self.veus
        ) as executable:
            executable.save(path)
        verify(path)
        return read_members(path)


REAL = (
    Real("transformer_4_layers", "cpu", "wavefront", 8, "full"),
    Real("lstm_tc_unrolled", "cpu", "list", 4),
    Real("light_resnet50", "nvvm:sm_90", "wavefront", 8),
    Real("inception_v3", "cpu", "ios", 3),
    Real("nasnet_a_6_768", "rocdl:gfx90a", "list", 4),
)


def judge(real: Real, folder: Path, number: int) -> Counter[str]:
    """Try ``number`` mutants of an artifact; return the counts of refused and of harmless mutants.

    A refused mutant counts under the rule that it breaks. A mutant is harmless if it computes the
    results of the artifact in every order that its waits permit.
    """
    path = folder / "mutant.rammer"
    members = real.members(path)
    oracle = Oracle(members)
    assert oracle.harm(members) == ""
    rng, found = random.Random(f"{real}"), Counter[str]()
    for n in range(number):
        changed = mutant(rng, members)
        write_members(path, changed)
        try:
            verify(path)
        except RammerError as error:
            assert "\n" not in str(error)
            found[str(error).partition("': ")[2][:6]] += 1
        else:
            assert oracle.harm(changed) == "", (real, n, oracle.harm(changed))
            found["harmless"] += 1
    return found


@pytest.mark.parametrize("real", REAL, ids=lambda real: f"{real.model}-{real.target[:4]}")
def test_mutants(real: Real, tmp_path: Path) -> None:
    """Most of 60 mutants of each artifact are refused; the others compute equal results."""
    found = judge(real, tmp_path, 60)
    assert found["harmless"] < 15, found


@pytest.mark.slow
@pytest.mark.parametrize("real", REAL, ids=lambda real: f"{real.model}-{real.target[:4]}")
def test_all_mutants(real: Real, tmp_path: Path) -> None:
    """Most of 2,000 mutants of each artifact are refused; the others compute equal results."""
    found = judge(real, tmp_path, 2000)
    print(real.model, dict(found))
    assert found["harmless"] < 500, found
