"""Fits a program into a memory budget by chunking and recomputation.

Chunking executes a chain of rOperators on a part of the data at a time (`rtask-pipeline`).
Recomputation computes a value again instead of storing it (`rtask-recompute`).

The search tries several settings of chunking and recomputation. For each trial, all passes up to
the placement of buffers in the arena run on a copy of the formed rOperators. Of the trials whose
arena fits the budget, the one with the least predicted time is chosen.
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
from rammer_mlir.passes.memory.operator_steps import read_steps
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.scheduling.memory_limit import MemoryLimitError
from rammer_mlir.support.log import LOGGER

_CHUNKS = (2, 4, 8, 16)
"""Numbers of chunks to try for chains, in this order."""

_TARGETS = (1.0, 0.6, 0.0)
"""Peaks of memory down to which chains are chunked, as shares of the budget.

Copies at chunk borders take memory too, so a peak below the budget can be necessary.
"""

_HOPELESS = 2
"""Factor: chunkings whose peak of memory exceeds the budget times this factor are not planned."""

_MOST_CORRECTIONS = 4
"""Largest number of memory limits to try in search of the smallest feasible limit.

Each attempt that fails returns the bytes that it needs, which become the next limit.
"""

_NEARLY = 1.02
"""Factor within which predicted times count as equal."""

Passes = tuple[str, ...]


@dataclass(frozen=True)
class BudgetPasses:
    """The passes of the stages `operators` to `program`.

    Attributes:
        formed: passes up to `rtask-form-operators`.
        shaped: passes after `rtask-form-operators`, to the end of the stage `operators`.
        tasks: passes of the stage `tasks`.
        buffers: passes of the stage `buffers`.
        program: returns the passes of `program` for a memory limit in bytes, 0 for none.
        trial_buffers: ``buffers`` without passes that only check.
    """

    formed: Passes
    shaped: Passes
    tasks: Passes
    buffers: Passes
    program: Callable[[int], Passes]
    trial_buffers: Passes


@dataclass(frozen=True)
class _Setting:
    """Parameters of a trial that may meet the budget.

    Attributes:
        limit: limit in bytes for the schedule's intermediates; 0 for none.
        chunks: number of chunks of each chain; 1 for none.
        target: chains are chunked until the peak of intermediates is at most this number of bytes;
            0 chunks all possible chains.
    """

    limit: int = 0
    chunks: int = 1
    target: int = 0

    @property
    def pipelined(self) -> Passes:
        """The pass that divides chains into chunks; empty for a single chunk."""
        if self.chunks < 2:
            return ()
        return (f"rtask-pipeline{{chunks={self.chunks} memory={self.target}}}",)

    @property
    def recomputed(self) -> Passes:
        """The pass that recomputes values; empty without a memory limit."""
        return (f"rtask-recompute{{memory={self.limit}}}",) if self.limit else ()


def budget_stages(passes: BudgetPasses, budget: int) -> tuple[Stage, ...]:
    """Return the stages from `operators` to `program` for an arena of at most ``budget`` bytes."""

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
    """Searches for the program with the least predicted time whose arena fits the memory budget."""

    def __init__(self, module: ir.Module, passes: BudgetPasses, budget: int) -> None:
        self._module, self._passes, self._budget = module, passes, budget
        self._formed = _count(module)
        self._tried = 0
        self._known: dict[tuple[int, str], MemoryDecision | int] = {}

    def run(self) -> MemoryDecision:
        """Return the decision with the lowest predicted time of all trials that fit the budget.

        A trial fits if its arena has at most as many bytes as the budget. The search ends at the
        first fitting trial that recomputes nothing, or that is predicted to be hardly slower than
        the program without a budget.

        Raises:
            OptionError: if no trial's arena fits the budget.
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
            # Other chunks can gain much only if this setting recomputes values.
            if not outcome.again or outcome.seconds <= _NEARLY * free.seconds:
                break
        if not found:
            self._refuse(free)
        best = min(found, key=lambda decision: decision.seconds)
        best = replace(best, tried=self._tried)
        LOGGER.info("%s", " ".join(best.summary.split()))
        return best

    def _settings(self) -> Iterator[_Setting]:
        """Yield the settings to try, in order; settings that change the program less come first."""
        yield _Setting(self._budget)
        for chunks in _CHUNKS:
            for share in _TARGETS:
                yield _Setting(self._budget, chunks, int(share * self._budget))

    def _refuse(self, free: MemoryDecision) -> None:
        """Raise OptionError with the smallest number of bytes for which a program was found.

        ``free`` is the decision for the program without a budget.
        """
        least = free.arena_bytes
        for chunks in (1, *_CHUNKS):
            needed: MemoryDecision | int = 1
            for _ in range(_MOST_CORRECTIONS):
                if not isinstance(needed, int) or needed >= least:
                    break
                limit = needed
                needed = self._trial(_Setting(limit, chunks), free)
                if not isinstance(needed, int):
                    least = limit
        raise OptionError(
            f"memory_budget: expected at least {least} bytes, the least that the intermediates of "
            f"this model fit into, found {self._budget}; give more, or a smaller batch"
        )

    def _trial(self, setting: _Setting, free: MemoryDecision | None) -> MemoryDecision | int:
        """Plan a program with the parameters in ``setting``.

        Args:
            setting: the limit and the number of chunks to apply.
            free: the decision for the program without a budget; None in the trial without a budget.

        Returns:
            The decision. If the intermediates need more bytes than the limit of ``setting``, the
            number of bytes that they need.
        """
        module = copy_module(self._module)
        _run(module, setting.pipelined)
        # Settings that give equal IR under an equal limit are planned once.
        key = (setting.limit, _text(module))
        if key not in self._known:
            self._known[key] = self._planned(module, setting, free)
        return self._known[key]

    def _planned(
        self, module: ir.Module, setting: _Setting, free: MemoryDecision | None
    ) -> MemoryDecision | int:
        passes, in_chunks = self._passes, _count(module)
        if setting.target and (peak := _peak(module)) > _HOPELESS * setting.limit:
            return peak
        self._tried += 1
        _run(module, (*passes.shaped, *passes.tasks))
        before = _count(module)
        _run(module, setting.recomputed)
        if setting.limit and (peak := _peak(module)) > setting.limit:
            LOGGER.info("memory budget: %s: needs %d bytes", setting, peak)
            return peak
        again = _count(module) - before
        _run(module, passes.trial_buffers)
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
    """Return the number of rOperators in a module."""
    return sum(op.operation.name == OPERATOR for op in entry_block(module).operations)


def _text(module: ir.Module) -> str:
    """Return the operations of the entry function as text.

    Settings with the same limit and equal texts produce equal programs, which are planned once.
    """
    return "\n".join(str(op) for op in entry_block(module).operations)


def _peak(module: ir.Module) -> int:
    """Return the most bytes of intermediates that are live at the same time.

    The rOperators run one after the other, in the order of the module.
    """
    return read_steps(entry_block(module)).steps.peak


def _run(module: ir.Module, passes: Passes) -> None:
    if passes:
        run_pipeline(
            module, f"builtin.module({','.join(passes)})", passes=(*PASSES, *LOWERING_PASSES)
        )
