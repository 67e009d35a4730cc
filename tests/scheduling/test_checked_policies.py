"""Tests that policies that fail or return invalid plans are refused in one line.

A search over several policies finds the same plan with threads, with processes and without them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf, nan
from multiprocessing import get_context
from typing import Any, ClassVar

import pytest

import rammer_mlir
from rammer_mlir.benchmarks.experiments.scale import layered_graph, measure
from rammer_mlir.benchmarks.models import build
from rammer_mlir.errors import OptionError, ScheduleError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies import POLICIES, get_policy, register_policy
from rammer_mlir.scheduling.policies.auto import Auto
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph


@dataclass(frozen=True)
class Changed:
    """A policy that returns the plan of `sequential` after applying the function ``change``."""

    change: Callable[[Plan], Any]
    name: ClassVar[str] = "changed"

    def schedule(self, graph: TaskGraph, device: Device) -> Any:
        return self.change(Sequential().schedule(graph, device))


def first_item(item: Any) -> Callable[[Plan], Plan]:
    """Return a change of a plan that inserts ``item`` before all items of vEU 0."""

    def change(plan: Plan) -> Plan:
        program = plan.programs[0]
        veus = ((item, *program.veus[0]), *program.veus[1:])
        return replace(plan, programs=(replace(program, veus=veus), *plan.programs[1:]))

    return change


NONSENSE: dict[str, tuple[Callable[[Plan], Any], str]] = {
    "nothing": (lambda _: None, "expected a Plan, found NoneType"),
    "a number": (lambda _: 7, "expected a Plan, found int"),
    "no rPrograms": (
        lambda p: replace(p, programs=()), "expected at least one rProgram, found none"
    ),
    "too few rKernels": (
        lambda p: replace(p, kernels=p.kernels[1:]), "expected an rKernel for each of "
    ),
    "an rKernel too high": (
        lambda p: replace(p, kernels=(99, *p.kernels[1:])), "expected a number below 1 as rKernel"
    ),
    "a negative rKernel": (
        lambda p: replace(p, kernels=(-1, *p.kernels[1:])), "as rKernel of operator .*, found -1"
    ),
    "infinite time": (lambda p: replace(p, predicted_seconds=inf), "a finite time .* found inf"),
    "no number": (lambda p: replace(p, predicted_seconds=nan), "a finite time .* found nan"),
    "negative time": (lambda p: replace(p, predicted_seconds=-1.0), "found -1.0"),
    "too much time": (lambda p: replace(p, predicted_seconds=10**400), "a finite time .* found 10"),
    "no number of waits": (
        lambda p: replace(p, requested_waits="many"), "as requested waits, found 'many'"
    ),
    "a note that is no text": (
        lambda p: replace(p, notes=("fine", 3)), "expected printable texts .* as notes, found 3"
    ),
    "a note of two lines": (
        lambda p: replace(p, notes=("a\nb",)), r"without line breaks as notes, found 'a\\nb'"
    ),
    "a note that is no Unicode": (lambda p: replace(p, notes=("\ud800",)), "expected printable"),
    "a note alone": (lambda p: replace(p, notes="note"), "expected a tuple of texts .* 'note'"),
    "too many vEUs": (
        lambda p: replace(p, programs=(RProgram(9, ((),) * 9),)), "at most 3 vEUs, found 9"
    ),
    "too few lists": (
        lambda p: replace(p, programs=(RProgram(3, ((),)),)), "rPrograms with a list for each vEU"
    ),
    "no rProgram": (lambda p: replace(p, programs=("x",)), "for each vEU, found str"),
    "another item": (first_item("run"), "expected Run and Barrier as items, found str"),
    "an operator too high": (first_item(Run(99, 0, 1)), "expected an operator below .*, found 99"),
    "an rTask too high": (first_item(Run(0, 0, 10**6)), "expected rTasks of .* found 0 to 999999"),
    "an empty run": (first_item(Run(0, 0, 0)), "expected rTasks of .* found 0 to -1"),
    "a vEU too high": (first_item(Barrier(((9, 0),))), r"rTasks that exist, found \(9, 0\)"),
    "an order too high": (first_item(Barrier(((1, 999),))), r"that exist, found \(1, 999\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_in_a_line(name: str) -> None:
    change, message = NONSENSE[name]
    with pytest.raises(ScheduleError, match=f"policy 'changed': .*{message}") as raised:
        ask(Changed(change), random_graph(1), cpu_device(3))
    assert "\n" not in str(raised.value)


def test_a_policy_that_fails_is_named() -> None:
    def fail(_: Plan) -> Any:
        raise ZeroDivisionError("no rTasks left")

    with pytest.raises(ScheduleError, match="'changed' failed with ZeroDivisionError: no rTasks"):
        ask(Changed(fail), random_graph(1), cpu_device(3))


def test_a_policy_does_not_end_the_process() -> None:
    def leave(_: Plan) -> Any:
        sys.exit(0)

    def interrupt(_: Plan) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(ScheduleError, match="'changed' failed with SystemExit: 0; mend it, or cho"):
        ask(Changed(leave), random_graph(1), cpu_device(3))
    with pytest.raises(KeyboardInterrupt):
        ask(Changed(interrupt), random_graph(1), cpu_device(3))


def test_a_failure_of_many_lines_is_told_in_one() -> None:
    def fail(_: Plan) -> Plan:
        raise ValueError("first line\n  second line")

    with pytest.raises(ScheduleError, match="ValueError: first line second line; mend it"):
        ask(Changed(fail), random_graph(1), cpu_device(2))


def test_what_is_well_formed_passes() -> None:
    for seed in range(10):
        graph = random_graph(seed)
        for name in sorted(set(POLICIES.names()) - {"optimal"}):
            verify(graph, ask(get_policy(name), graph, cpu_device(3)))


def test_compiling_with_a_policy_of_ones_own() -> None:
    """A user's policy is registered and chosen by name; its wrong schedule is refused."""

    class Empty:
        name: ClassVar[str] = "empty"

        def schedule(self, graph: TaskGraph, device: Device) -> Plan:
            plan = Sequential().schedule(graph, device)
            return replace(plan, programs=(RProgram(device.num_veus, ((),) * device.num_veus),))

    register_policy(Empty())
    try:
        with pytest.raises(ScheduleError, match=r"output .* elements written, found 0"):
            rammer_mlir.compile(build("attention", scale="small"), policy="empty", num_veus=2)
        with pytest.raises(OptionError, match="policy 'empty' exists already"):
            register_policy(Empty())
    finally:
        POLICIES.unregister("empty")


def same_as_alone(executor: Executor) -> None:
    for seed in range(4):
        graph, device = random_graph(seed, length=10), cpu_device(3)
        alone = Auto().schedule(graph, device)
        shared = Auto(executor=executor).schedule(graph, device)
        assert shared == alone


def test_a_search_with_threads_and_processes_finds_the_same() -> None:
    with ThreadPoolExecutor(2) as threads:
        same_as_alone(threads)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        same_as_alone(processes)


def test_a_search_on_a_dask_cluster_finds_the_same() -> None:
    distributed: Any = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        same_as_alone(client.get_executor())


def test_a_search_ends_with_its_budget() -> None:
    """A search stops when its time is over, even if the threads of its executor have not begun.

    The result is then the plan of the first policy, `wavefront`.
    """
    graph, device = random_graph(3, length=10), cpu_device(3)
    over = threading.Event()
    with ThreadPoolExecutor(1) as busy:
        occupied = busy.submit(over.wait, 60.0)
        plan = Auto(budget_seconds=0.05, executor=busy).schedule(graph, device)
        assert not occupied.done()
        over.set()
        assert plan == get_policy("wavefront").schedule(graph, device)


def test_the_benchmark_of_large_graphs_reports_sizes_and_time() -> None:
    """The benchmark of large graphs schedules a small graph, and reports its numbers and its time.

    Whether the time grows linearly is seen at the benchmark's full sizes only, in the module
    ``rammer_mlir.benchmarks.experiments.scale``.
    """
    found = measure((60, 16))
    assert (found.operators, found.rtasks) == (60, 6000)
    assert len(layered_graph(60).operators) == 60
    assert found.seconds > 0
