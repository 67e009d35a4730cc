"""`rtask-from-gpu`: turns launches of GPU kernels into rOperators, and their blocks into rTasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.from_gpu.block_kernel import block_function
from rammer_mlir.lowering.from_gpu.copies import launch_copies
from rammer_mlir.lowering.from_gpu.index_range import Dim3
from rammer_mlir.lowering.from_gpu.kernel_description import describe_kernel
from rammer_mlir.lowering.from_gpu.kernel_rules import check_kernel, uses_subgroups
from rammer_mlir.lowering.from_gpu.launches import (
    Launch,
    erase_other_hosts,
    host_function,
    read_launches,
)
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.constants import ArgumentList, argument_attributes
from rammer_mlir.passes.ir.entry import functions, is_private, symbol_name
from rammer_mlir.passes.program.task_graph import root_of

_CLEAN_UP = "lower-affine,canonicalize{region-simplify=disabled},cse"
"""Pass pipeline that simplifies kernels.

Affine operations are lowered first: under a condition, block ids are not valid affine symbols.
"""

_CONTAINER = "gpu.container_module"


@dataclass(frozen=True)
class FromGpu(Pass):
    """Turn the kernels that a host function launches into a data-flow graph of rOperators.

    Each launch becomes an rOperator, and each block of the launch an rTask. The dependencies follow
    from the kernels' memory accesses. On the GPU, rTasks run in a persistent block: it has as many
    threads as the largest launched block, rounded up to whole subgroups.

    ``subgroup`` is the count of lanes of a warp or wave that kernels may assume: 32 or 64. If
    several functions have launches, ``function`` names the function to keep; the other functions
    with launches are erased.
    """

    name: ClassVar[str] = "rtask-from-gpu"

    subgroup: int = 32
    function: str = ""

    def check_options(self) -> None:
        """Raise OptionError unless the subgroup has 32 or 64 lanes."""
        if self.subgroup not in (32, 64):
            raise OptionError(
                f"{self.name}: subgroup: expected 32 or 64 lanes, found {self.subgroup}"
            )

    def run(self, module: ir.Module) -> None:
        """Replace the host function's launches by rOperators, and the kernels by rKernels."""
        host = host_function(module, self.function)
        erase_other_hosts(module, host)
        with ir.Location.unknown(module.context):
            launch_copies(module, host)
            launches = read_launches(module, host)
            for launch in launches:
                check_kernel(launch, self.subgroup)
            _Writer(module, host, self.subgroup).write(launches)
            _clean_up(module)


_Key = tuple[
    ir.Operation,
    Dim3,
    Dim3,
    tuple[tuple[int, ir.Attribute], ...],
    tuple[ir.Type, ...],
    tuple[int, ...],
]
"""Kernel, grid, block, scalars, types and aliases of memrefs; equal keys share an rKernel."""


class _Writer:
    def __init__(self, module: ir.Module, host: ir.OpView, subgroup: int) -> None:
        self._module, self._host, self._subgroup = module, host, subgroup
        self._names: dict[_Key, tuple[str, frozenset[int]]] = {}
        self._taken = {symbol_name(function) for function in functions(module)}

    def write(self, launches: Sequence[Launch]) -> None:
        most = max(launch.num_threads for launch in launches)
        block_threads = -(-most // self._subgroup) * self._subgroup
        written: set[ir.Value] = set()
        number = 0
        for launch in launches:
            name, updated = self._kernel(launch, block_threads)
            buffers = list(launch.memrefs.values())
            if updated:
                self._operator(launch, name, number, buffers)
                number += 1
            written.update(root_of(buffers[argument]) for argument in updated)
            launch.operation.erase()
        self._clean_host()
        self._mark_arguments(written)
        self._erase_kernels(launches)

    def _kernel(self, launch: Launch, block_threads: int) -> tuple[str, frozenset[int]]:
        """Emit the rKernel of a launch unless it exists; return its name and its output memrefs.

        The output memrefs are those that a block may write, given by their positions among the
        launch's memref arguments, from 0. Launches of the same kernel with equal sizes, scalars,
        memref types and aliases share an rKernel.
        """
        kinds = tuple(value.type for value in launch.memrefs.values())
        scalars = tuple(launch.scalars.items())
        key = (launch.kernel, launch.grid, launch.block, scalars, kinds, launch.aliases)
        if key not in self._names:
            name = self._name(launch)
            ip = ir.InsertionPoint(self._host)
            updated = describe_kernel(launch, name, ip)
            if updated:
                subgroup = self._subgroup if uses_subgroups(launch) else 0
                block_function(launch, name, block_threads, subgroup, ip)
            self._names[key] = name, updated
        return self._names[key]

    def _name(self, launch: Launch) -> str:
        holder = ir.StringAttr(launch.holder.attributes["sym_name"]).value
        base = launch.name if holder == launch.name else f"{holder}.{launch.name}"
        name, number = base, 0
        while name in self._taken:
            name, number = f"{base}.{number}", number + 1
        self._taken.add(name)
        return name

    def _operator(
        self, launch: Launch, kernel: str, number: int, buffers: Sequence[ir.Value]
    ) -> None:
        ir.Operation.create(
            "rtask.operator",
            operands=buffers,
            attributes={
                "kernels": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(kernel)]),
                "operator_id": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number),
            },
            loc=launch.operation.location,
            ip=ir.InsertionPoint(launch.operation),
        )

    def _clean_host(self) -> None:
        """Erase the host's deallocations and unused operations, except rOperators.

        The host's allocations become ``memref.alloc``, because memory is planned from the schedule.
        """
        for operation in list(self._host.operation.regions[0].blocks[0].operations):
            name = operation.operation.name
            if name in ("memref.dealloc", "gpu.dealloc") or name.startswith("gpu.host_"):
                operation.operation.erase()
            elif name in ("gpu.alloc", "memref.alloca"):
                _allocate(operation.operation)
        operations = list(self._host.operation.regions[0].blocks[0].operations)
        for operation in reversed(operations[:-1]):
            unused = not any(list(result.uses) for result in operation.operation.results)
            if unused and operation.operation.name != "rtask.operator":
                operation.operation.erase()

    def _mark_arguments(self, written: set[ir.Value]) -> None:
        arguments = ArgumentList(self._host)
        block = self._host.operation.regions[0].blocks[0]
        marks = argument_attributes(self._host)
        for number, argument in enumerate(block.arguments):
            if argument in written and "rtask.output" not in marks[number]:
                arguments.mark(number, "rtask.inout", ir.UnitAttr.get())
        arguments.finish()

    def _erase_kernels(self, launches: Sequence[Launch]) -> None:
        for holder in {launch.holder for launch in launches}:
            holder.erase()
        attributes = self._module.operation.attributes
        left = any(op.operation.name == "gpu.module" for op in self._module.body.operations)
        if _CONTAINER in attributes and not left:
            del attributes[_CONTAINER]
        if is_private(self._host):
            del self._host.operation.attributes["sym_visibility"]


def _clean_up(module: ir.Module) -> None:
    passes = passmanager.PassManager.parse(f"builtin.module(func.func({_CLEAN_UP}))")
    passes.enable_verifier(False)  # affine operations may be invalid here; run_pipeline verifies
    passes.run(module.operation)


def _allocate(operation: ir.Operation) -> None:
    kind = ir.MemRefType(operation.results[0].type)
    with ir.InsertionPoint(operation):
        plain = ir.Operation.create(
            "memref.alloc", results=[kind], loc=operation.location,
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])},
        )  # fmt: skip
    operation.results[0].replace_all_uses_with(plain.results[0])
    operation.erase()
