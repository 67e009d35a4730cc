"""Programs whose arena keeps to a budget: chunks and recomputation, tried until the arena fits.

A trial is a copy of the formed rOperators that takes all passes up to the arena's placement. What
counts is the arena that it gets, and the predicted time among those that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.memory_decision import MemoryDecision
from rammer_mlir.compiler.stage import Stage, Work
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.scheduling.memory_limit import MemoryLimitError
from rammer_mlir.support.log import LOGGER

_CHUNKS = (2, 4, 8, 16)
"""Parts of a chain that are tried, in this order."""

_TARGETS = (1.0, 0.6, 0.0)
"""Shares of the budget that chains are cut for: copies at the borders of chunks take memory too."""

_NEARLY = 1.02
"""Times that differ by less are as good."""

Passes = tuple[str, ...]


@dataclass(frozen=True)
class BudgetPasses:
    """The passes of the stages `operators` to `program`.

    Attributes:
        formed: up to `rtask-form-operators`.
        shaped: from there to the end of `operators`.
        tasks: of the stage `tasks`.
        buffers: of the stage `buffers`.
        program: returns those of `program` for a limit of memory, 0 for none.
        trial_buffers: ``buffers`` without what only checks.
    """

    formed: Passes
    shaped: Passes
    tasks: Passes
    buffers: Passes
    program: Callable[[int], Passes]
    trial_buffers: Passes


@dataclass(frozen=True)
class _Setting:
    """What is done for the budget.

    Attributes:
        limit: bytes that the schedule keeps to; 0 for none.
        chunks: parts that chains are computed in; 1 for none.
        target: bytes that chains are cut for.
    """

    limit: int = 0
    chunks: int = 1
    target: int = 0

    @property
    def pipelined(self) -> Passes:
        """The pass that cuts chains into chunks, if there are some."""
        if self.chunks < 2:
            return ()
        return (f"rtask-pipeline{{chunks={self.chunks} memory={self.target}}}",)

    @property
    def recomputed(self) -> Passes:
        """The pass that computes values again, if memory is limited."""
        return (f"rtask-recompute{{memory={self.limit}}}",) if self.limit else ()


def budget_stages(passes: BudgetPasses, budget: int) -> tuple[Stage, ...]:
    """Return the stages from `operators` to `program` that keep to a budget in bytes."""

    def choose(work: Work) -> None:
        work.memory = _Search(work.module, passes, budget).run()
        _run(work.module, (*_setting(work).pipelined, *passes.shaped))

    def recompute(work: Work) -> None:
        _run(work.module, _setting(work).recomputed)

    def schedule(work: Work) -> None:
        _run(work.module, passes.program(_setting(work).limit))

    return (
        Stage("operators", passes.formed, choose),
        Stage("tasks", passes.tasks, recompute),
        Stage("buffers", passes.buffers),
        Stage("program", step=schedule),
    )


def _setting(work: Work) -> _Setting:
    decision = work.memory
    assert decision is not None, "it was made in the stage `operators`"
    if not decision.is_limited:
        return _Setting()
    return _Setting(decision.budget, decision.chunks, decision.target)


class _Search:
    """Trials of one model."""

    def __init__(self, module: ir.Module, passes: BudgetPasses, budget: int) -> None:
        self._module, self._passes, self._budget = module, passes, budget
        self._formed = _count(module)
        self._tried = 0

    def run(self) -> MemoryDecision:
        """Return the decision with the lowest predicted time of those that fit.

        Raises:
            OptionError: if none does.
        """
        free = self._trial(_Setting(), None)
        assert isinstance(free, MemoryDecision)
        if free.arena_bytes <= self._budget:
            return free
        found: list[MemoryDecision] = []
        for setting in self._settings():
            outcome = self._trial(setting, free)
            if not isinstance(outcome, MemoryDecision) or outcome.arena_bytes > self._budget:
                continue
            found.append(outcome)
            # Only what is computed again leaves much to gain by other chunks.
            if not outcome.again or outcome.seconds <= _NEARLY * free.seconds:
                break
        if not found:
            self._refuse(free)
        best = min(found, key=lambda decision: decision.seconds)
        best = replace(best, tried=self._tried)
        LOGGER.info("%s", " ".join(best.summary.split()))
        return best

    def _settings(self) -> Iterator[_Setting]:
        """Yield settings in the order in which they are tried, those that change little first."""
        yield _Setting(self._budget)
        for chunks in _CHUNKS:
            for share in _TARGETS:
                yield _Setting(self._budget, chunks, int(share * self._budget))

    def _refuse(self, free: MemoryDecision) -> None:
        """Raise the error that says how little is enough."""
        least = free.arena_bytes
        for chunks in (1, *_CHUNKS):
            needed = self._needed(_Setting(1, chunks))
            if needed < least:
                least = min(least, self._needed(_Setting(needed, chunks)))
        raise OptionError(
            f"memory_budget: expected at least {least} bytes, the least that the intermediates of "
            f"this model fit into, found {self._budget}; give more, or a smaller batch"
        )

    def _needed(self, setting: _Setting) -> int:
        """Return the bytes that a setting needs, if its limit is too low; else its arena's."""
        outcome = self._trial(setting, None)
        return outcome if isinstance(outcome, int) else outcome.arena_bytes

    def _trial(self, setting: _Setting, free: MemoryDecision | None) -> MemoryDecision | int:
        """Plan a program; return what it takes, or the bytes that it would need."""
        self._tried += 1
        module, passes = copy_module(self._module), self._passes
        _run(module, setting.pipelined)
        in_chunks = _count(module)
        _run(module, (*passes.shaped, *passes.tasks))
        before = _count(module)
        _run(module, (*setting.recomputed, *passes.trial_buffers))
        again = _count(module) - before
        try:
            _run(module, passes.program(setting.limit))
        except MemoryLimitError as error:
            LOGGER.info("memory budget: %s: needs %d bytes", setting, error.needed)
            return error.needed
        arena = memory_sizes(entry_function(module)).arena_bytes
        seconds = read_plan(module).plan.predicted_seconds
        LOGGER.info("memory budget: %s: %d bytes, %.3f ms", setting, arena, seconds * 1e3)
        first = (
            MemoryDecision(self._budget, arena, arena, seconds, seconds) if free is None else free
        )
        return MemoryDecision(
            self._budget, first.free_bytes, arena, first.free_seconds, seconds,
            chunks=setting.chunks, target=setting.target, formed=self._formed,
            in_chunks=in_chunks, again=again, is_limited=bool(setting.limit), tried=self._tried,
        )  # fmt: skip


def _count(module: ir.Module) -> int:
    """Return the number of rOperators."""
    return sum(op.operation.name == OPERATOR for op in entry_block(module).operations)


def _run(module: ir.Module, passes: Passes) -> None:
    if passes:
        run_pipeline(
            module, f"builtin.module({','.join(passes)})", passes=(*PASSES, *LOWERING_PASSES)
        )
