"""Tests that `rtask-verify-schedule` refuses exactly the wrong ones among changed schedules.

The schedules are those of real models; the changes are random.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest

from rammer_mlir import dialects
from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import RammerError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import (
    ScheduledModule,
    program_operations,
    read_plan,
    write_plan,
)
from rammer_mlir.passes.rtask_plan_memory import arena_offsets, memory_sizes
from rammer_mlir.scheduling.program import Barrier, Plan
from tests.passes.judgement import Judge, Verdict
from tests.scheduling.mutations import HARMLESS, MUTATIONS, mutants

MODELS: dict[str, Scale] = {
    "nas_cell": "full",
    "depthwise_net": "full",
    "transformer_encoder": "full",
}
"""Programs of tens of rTasks with branches, tiles and shared memory."""

ROUNDS = 8


@cache
def imported(name: str) -> bytes:
    """Return the bytecode of a benchmark model at the `linalg` stage."""
    return import_model(build(name, scale=MODELS[name])).bytecode


class Program:
    """A model at the `program` stage whose plan can be replaced."""

    def __init__(self, name: str, policy: str, num_veus: int) -> None:
        """Compile model ``name`` with a policy, for ``num_veus`` vEUs."""
        self._context = ir.Context()
        dialects.register(self._context)
        with self._context, ir.Location.unknown():
            self._module = ir.Module.parse(imported(name))
            for stage in check_options(policy=policy, num_veus=num_veus).portable_stages():
                # Finer than CPUs need it: several rTasks in a run.
                run_pipeline(self._module, re.sub(r"work=\d+", "work=2000000", stage.pipeline))
            self._scheduled: ScheduledModule = read_plan(self._module)
        self._graph = self._scheduled.builder.graph()
        self.plan = self._scheduled.plan

    @property
    def arena(self) -> dict[int, int]:
        """The offset of each buffer in the arena, in bytes."""
        arena = arena_offsets(self._scheduled.builder.roots)
        assert arena is not None
        return arena

    @property
    def judge(self) -> Judge:
        """A judge of plans for the buffers' present offsets."""
        return Judge(self._graph, self.arena)

    @property
    def arena_bytes(self) -> int:
        """The size of the arena in bytes."""
        return memory_sizes(entry_function(self._module)).arena_bytes

    def num_bytes(self, buffer: int) -> int:
        """Return the size of a buffer in bytes."""
        return self._graph.buffers[buffer].num_bytes

    def place(self, buffer: int, offset: int) -> None:
        """Set the offset of a buffer in the arena, in bytes."""
        view = self._scheduled.builder.roots[buffer].owner
        assert not isinstance(view, ir.Block)
        start = view.operation.operands[1].owner
        assert not isinstance(start, ir.Block)
        with self._context:
            value = ir.IntegerAttr.get(ir.IndexType.get(), offset)
        start.operation.attributes["value"] = value

    def refusal(self, plan: Plan) -> str:
        """Write a plan into the module; return the error message of `rtask-verify-schedule`.

        The message is empty if the pass accepts the plan.
        """
        with self._context, ir.Location.unknown():
            for op in program_operations(self._module):
                op.operation.erase()
            terminator = list(entry_block(self._module).operations)[-1]
            calls = dict(enumerate(self._scheduled.calls))
            write_plan(plan, calls, self._scheduled.device, ir.InsertionPoint(terminator))
            try:
                run_pipeline(self._module, "builtin.module(rtask-verify-schedule)")
            except RammerError as error:
                return str(error)
        return ""


def outcomes(program: Program, seed: int) -> Iterator[tuple[str, Verdict]]:
    """Yield random mutants of a program's plan: the mutation's name and the faults.

    Checks that the pass refuses exactly the mutants that the judge finds wrong.
    """
    judge = program.judge
    for mutation, mutant in mutants(program.plan, seed, ROUNDS):
        verdict, message = judge.judge(mutant), program.refusal(mutant)
        assert bool(message) == verdict.is_wrong, (mutation, verdict, message)
        assert "\n" not in message
        if verdict.unordered:
            pairs = [(judge.name(w), judge.name(r)) for w, r in verdict.unordered]
            assert any(f"{w} " in message and f"{r} " in message for w, r in pairs), message
        yield mutation, verdict


@pytest.mark.parametrize("num_veus", [2, 3])
@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("name", MODELS)
def test_no_wrong_mutant_escapes(name: str, policy: str, num_veus: int) -> None:
    """The pass refuses every wrong mutant and accepts every right one; both occur."""
    program = Program(name, policy, num_veus)
    assert program.plan.num_waits > 5
    assert not program.judge.judge(program.plan).is_wrong
    assert program.refusal(program.plan) == ""
    found = Counter((mutation, v.is_wrong) for mutation, v in outcomes(program, seed=num_veus))
    assert not any(found[mutation, True] for mutation in HARMLESS)
    assert {mutation for mutation, _ in found} >= set(MUTATIONS) - {"swap_veus", "split_and_move"}
    assert sum(n for (_, wrong), n in found.items() if wrong) > 50
    assert sum(n for (_, wrong), n in found.items() if not wrong) > 15


def test_every_kind_of_fault_occurs() -> None:
    """The mutants have faults of every kind, so that each rule of the verifier is tested."""
    program = Program("nas_cell", "wavefront", 3)
    verdicts = [verdict for _, verdict in outcomes(program, seed=7)]
    assert any(verdict.malformed for verdict in verdicts)
    assert any(verdict.deadlock for verdict in verdicts)
    assert any(verdict.unordered for verdict in verdicts)


@pytest.mark.parametrize("name", MODELS)
def test_buffers_that_are_moved(name: str) -> None:
    """A buffer that is moved over another buffer is refused exactly if the new place is wrong.

    The place is wrong if both buffers may be in use at the same time, or if the moved buffer does
    not fit into the arena.
    """
    program = Program(name, "wavefront", 3)
    found: Counter[bool] = Counter()
    arena = program.arena
    pairs = list(permutations(arena, 2))
    for moved, other in random.Random(5).sample(pairs, min(len(pairs), 70)):
        program.place(moved, arena[other])
        clashes = bool(program.judge.judge(program.plan).shared)
        fits = arena[other] + program.num_bytes(moved) <= program.arena_bytes
        message = program.refusal(program.plan)
        assert bool(message) == (clashes or not fits), (moved, other, message)
        found[clashes] += 1
        program.place(moved, arena[moved])
    assert program.refusal(program.plan) == ""
    assert found[True] > 5
    assert found[False] > 3


def test_an_operator_that_never_runs() -> None:
    """A plan that lacks all rTasks of an operator is refused."""
    program = Program("nas_cell", "wavefront", 2)
    (only,) = program.plan.programs
    for operator in range(len(program.plan.kernels)):
        veus = tuple(
            tuple(item for item in items if isinstance(item, Barrier) or item.operator != operator)
            for items in only.veus
        )
        assert program.refusal(replace(program.plan, programs=(replace(only, veus=veus),)))
