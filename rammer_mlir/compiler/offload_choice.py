"""Chooses the regions that foreign code generators compile, by simulated or measured times.

A region is a group of operations that a code generator may compile; otherwise the host, that is,
this compiler's own rKernels, computes the operations. A trial is a variant of the program in which
the host computes some of the regions. To make a trial, the program is copied before any change of
layouts, and all passes up to rKernels on buffers run on the copy. Then the scheduling policy that
the user chose plans the copy, and the plan is simulated. The trial without
regions equals the program that is compiled if nothing is offloaded. If the user asks for measured
times, the best trials are compiled and timed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.offload_decision import OffloadDecision
from rammer_mlir.compiler.offload_search import HOST, Choice, Search
from rammer_mlir.compiler.offload_timing import Finals, Measured, fastest
from rammer_mlir.compiler.offload_units import gains, number_operations, restore_locations
from rammer_mlir.compiler.quantization.decisions import QuantizationReport
from rammer_mlir.compiler.region_forming import FormRegions
from rammer_mlir.compiler.stage import Stage, Step, Work
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.entry import CODEGEN, entry_block, functions, symbol_name
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.passes.tiling.generated import generated_operations
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.replay import simulate_repeated
from rammer_mlir.scheduling.simulated_plan import executed_plan
from rammer_mlir.support.log import LOGGER

_LEAST_SHARES = (0.002, 0.02)
"""Smallest measured savings of the regions to keep, as shares of the host's time.

For each share, a program is timed that keeps only the regions that save at least this share: layout
conversions of a region's inputs and results cost time elsewhere in the program.
"""


@dataclass(frozen=True)
class TrialPasses:
    """The passes of a trial.

    Attributes:
        regions: functions that form regions and request their code. They differ in the order of
            code generators, or in whether adjacent regions are merged. The set of regions that a
            function forms is called a partition. The first partition has the user's order. Regions
            that are quantized stay quantized if the host computes them.
        kernels: passes from regions to rKernels on buffers.
        costs: passes that annotate rKernels with costs.
        finals: stages after `regions`, for compiling and timing programs if measured times decide;
            None if simulated times decide.
    """

    regions: Sequence[FormRegions]
    kernels: Sequence[str]
    costs: Sequence[str]
    finals: Sequence[Stage] | None = None


def choose_regions(passes: TrialPasses) -> Step:
    """Return the step of the stage `regions` that chooses which regions keep their foreign code.

    The choice is made by predicted times, or by measured times if ``passes.finals`` is given.
    """

    def choose(work: Work) -> None:
        trials = _Trials(work, passes)
        budget = work.options.given["offload_seconds"]
        search = Search(
            [partition.names for partition in trials.partitions], trials.seconds, _timer(budget)
        )
        chosen = search.run()
        measured = Measured()
        if passes.finals is not None:
            with Finals(work, passes.finals, _timer(budget)) as finals:
                measured = _measured(finals, trials, search)
            chosen = fastest(measured, search.everything)
        work.module = trials.module(chosen)
        # The numbered names served only to match operators to regions in timelines.
        if trials.locations:
            restore_locations(work.module, trials.locations)
        work.quantized = trials.partitions[chosen.partition].quantized
        work.decision = _decision(work.module, trials, search, chosen, measured)
        for work_left, tried in (
            ("simulate all choices of regions", search),
            ("compile all competing programs", measured),
        ):
            if tried.untried:
                LOGGER.warning(
                    "offload: expected to %s in %g s, found no time for %d of %d; give more with "
                    "offload_seconds",
                    work_left, budget, tried.untried, tried.untried + len(tried.seconds),
                )  # fmt: skip

    return choose


def _timer(seconds: float) -> Callable[[], bool]:
    """Start a timer; return a function that tells whether less than ``seconds`` have passed."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin < seconds


def _measured(finals: Finals, trials: _Trials, search: Search) -> Measured:
    """Compile and time competing programs; return the times of all choices of regions.

    The first competitors are the program without regions, the program with all regions, and the
    finalists of the search, which include the programs with all regions of other orders of code
    generators. Recorded runs of the program without regions and of each program with all regions
    show which regions are faster than the host's code for the same operations. The last competitors
    are programs that keep only such faster regions.

    Args:
        finals: compiles and times programs.
        trials: makes the module of a program from a choice of regions.
        search: has found the choices of regions with the least simulated times.
    """
    for choice in (HOST, search.everything):
        finals.enter(choice, partial(trials.module, choice), always=True)
    for choice in search.finalists():
        finals.enter(choice, partial(trials.module, choice))
    host = finals.seconds_by_origin(HOST)
    for number, partition in enumerate(trials.partitions):
        whole = Choice(number, frozenset(partition.names))
        if whole not in finals:
            continue
        saved = gains(partition.module, host, finals.seconds_by_origin(whole))
        # Two thresholds, since small savings may be noise, or be lost in layout conversions.
        for least in _LEAST_SHARES:
            limit = least * sum(host.values())
            better = Choice(number, frozenset(n for n, gain in saved.items() if gain > limit))
            if better.kept:
                finals.enter(better, partial(trials.module, better))
    return finals.timed()


def _decision(
    module: ir.Module,
    trials: _Trials,
    search: Search,
    chosen: Choice,
    measured: Measured,
) -> OffloadDecision:
    decision = OffloadDecision(
        found=sum(trials.partitions[0].calls.values()),
        kept=sum(_region_calls(module).values()),
        host_seconds=search.seconds[HOST],
        all_seconds=search.seconds[search.everything],
        chosen_seconds=search.know(chosen),
        simulations=len(search.seconds),
        untried=search.untried,
        measured=len(measured.seconds),
        unmeasured=measured.untried,
        host_measured=measured.seconds.get(HOST),
        all_measured=measured.seconds.get(search.everything),
        chosen_measured=measured.seconds.get(chosen),
    )
    LOGGER.info("%s", " ".join(decision.summary.split()))
    return decision


def _region_calls(module: ir.Module) -> Counter[str]:
    """Return the number of calls of each region in the entry function."""
    regions = {symbol_name(f) for f in functions(module) if CODEGEN in f.operation.attributes}
    called = (
        ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value
        for op in entry_block(module).operations
        if op.operation.name == "func.call"
    )
    return Counter(name for name in called if name in regions)


@dataclass(frozen=True)
class _Partition:
    """A module whose graph is divided into regions, with generated code for each region.

    A function in ``TrialPasses.regions`` makes the module.

    ``quantized`` is the report on the quantization of the module's regions; None without
    quantization.
    """

    module: ir.Module
    quantized: QuantizationReport | None

    @cached_property
    def calls(self) -> Counter[str]:
        """Number of calls of each region's function, by the function's name."""
        return _region_calls(self.module)

    @cached_property
    def names(self) -> list[str]:
        """Names of the regions' functions; the function with the most arithmetic is first."""
        operations = {
            symbol_name(f): generated_operations(f)
            for f in functions(self.module)
            if symbol_name(f) in self.calls
        }
        return sorted(operations, key=lambda name: -operations[name] * self.calls[name])

    def without(self, given_back: Sequence[str]) -> ir.Module:
        """Return a copy of the module in which the host computes some of the regions.

        ``given_back`` has the names of the functions of these regions.
        """
        module = copy_module(self.module)
        if given_back:
            names = ",".join(given_back)
            _run(module, (f"rtask-inline-regions{{regions={names}}}", "canonicalize", "cse"))
        return module


class _Trials:
    """Variants of a program with different regions, and their simulated times."""

    def __init__(self, work: Work, passes: TrialPasses) -> None:
        self._work, self._passes = work, passes
        self._device = find_device(work.options.device).device(work.options.num_veus)
        self.locations = number_operations(work.module) if passes.finals is not None else []
        self.partitions = [_formed(work, form) for form in passes.regions]

    def module(self, choice: Choice) -> ir.Module:
        """Return a module in which only the regions of ``choice`` have foreign code.

        The host computes all other regions. The module is at the stage `regions`.
        """
        partition = self.partitions[choice.partition]
        # Quantized regions stay quantized on the host, and so differ from the original.
        if not choice.kept and partition.quantized is None:
            return copy_module(self._work.module)
        return partition.without([n for n in partition.names if n not in choice.kept])

    def seconds(self, choice: Choice) -> float:
        """Return the predicted seconds of a run of the program of ``choice``.

        The simulated run is not the program's first, so that caches have the program's data.
        """
        graph = self._graph(choice)
        plan = executed_plan(get_policy(self._work.options.policy), graph, self._device)
        found = simulate_repeated(graph, plan, self._device).seconds
        LOGGER.info("offload: %d regions kept, predicted %.6f ms", len(choice.kept), found * 1e3)
        return found

    def _graph(self, choice: Choice) -> TaskGraph:
        module = self.module(choice)
        _run(module, self._passes.kernels)
        if self._work.options.measured:
            workers, num_veus = self._work.executor, self._work.options.num_veus
            profile_kernels(module, executor=workers, num_veus=num_veus)
        _run(module, self._passes.costs)
        return graph_of_operators(module).graph()


def _formed(work: Work, form: FormRegions) -> _Partition:
    module = copy_module(work.module)
    return _Partition(module, form(work, module))


def _run(module: ir.Module, passes: Sequence[str]) -> None:
    if passes:
        run_pipeline(
            module, f"builtin.module({','.join(passes)})", passes=(*PASSES, *LOWERING_PASSES)
        )
