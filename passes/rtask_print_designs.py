"""`rtask-print-designs`: prints how a design search maps each rOperator's loops to hardware."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import Form, OperationError, Pass, check_least
from rammer_mlir.passes.design.constraints import read_problem
from rammer_mlir.passes.ir.entry import callers, functions, symbol_name
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.scheduling.designs.machine import Machine, machine_of
from rammer_mlir.scheduling.designs.outcome import find_design
from rammer_mlir.scheduling.devices.catalog import CPU, find_device


@dataclass(frozen=True)
class PrintDesigns(Pass):
    """Print how many designs each rOperator has, and the cheapest design, on standard error (Dali).

    A design maps the iterations of each loop to rTasks, to lanes, to rTasks and lanes, or to a
    serial loop; on a CPU, lanes are elements of vectors. Equal rOperators share a function, and
    their designs are printed once. The machine is a ``device``, a name or a file, with ``num-veus``
    vEUs (0: one for each execution unit of the device). With ``tiles``, an rTask may also execute
    several iterations of a loop. With ``values``, the search also decides about each value that is
    broadcast or read more than once: the value is computed once and read before the next barrier,
    or recomputed for each reader, or written to memory and read after a barrier. The module is
    unchanged.
    """

    name: ClassVar[str] = "rtask-print-designs"
    takes: ClassVar[Form | None] = Form.TENSORS_ALONE

    device: str = CPU
    num_veus: int = 0
    tiles: bool = False
    values: bool = False

    def check_options(self) -> None:
        """Raise an OptionError if ``num_veus`` is negative."""
        check_least(self, 0, "num_veus")

    def run(self, module: ir.Module) -> None:
        """Print the cheapest design of each function that rOperators call, on standard error.

        Raises:
            PassError: if there is no rOperator, or if the module already has rKernels.
        """
        num_veus = None if self.num_veus == 0 else self.num_veus
        machine = machine_of(find_device(self.device).device(num_veus))
        called = callers(module)
        if not called:
            raise PassError(
                f"{self.name}: expected at least one rtask.operator, found none: run "
                "rtask-form-operators first"
            )
        _check_not_tiled(module)
        for function in functions(module):
            calls = called.get(symbol_name(function))
            if calls and function.operation.regions[0].blocks:
                print(self._text(function, len(calls), machine), file=sys.stderr)

    def _text(self, function: ir.OpView, calls: int, machine: Machine) -> str:
        shared = f" ({calls} rOperators)" if calls > 1 else ""
        title = f"@{symbol_name(function)}{shared}"
        problem = read_problem(Computation(function), decide_values=self.values)
        if problem is None:
            return f"{title}: no loops to map"
        outcome = find_design(problem, machine, tiles=self.tiles)
        return "\n  ".join((f"{title}: {outcome.summary()}", *outcome.lines()))


def _check_not_tiled(module: ir.Module) -> None:
    for op in module.body.operations:
        if op.operation.name == "rtask.kernel":
            raise OperationError(
                op,
                "expected rOperators on whole tensors, found an rKernel, whose loops are mapped "
                "already: print designs in front of rtask-tile",
            )
