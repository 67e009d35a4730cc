"""`rtask-lower-to-gpu`: lowers scheduled rPrograms to one persistent kernel of the gpu dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.to_llvm import gpu_module
from rammer_mlir.lowering.gpu.program.dispatch import STRAIGHT_LINE_LIMIT
from rammer_mlir.lowering.gpu.program.program_to_gpu import GpuProgram, lower_to_gpu
from rammer_mlir.lowering.targets import find_gpu
from rammer_mlir.passes.base import Pass, check_least
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.program.program_ir import read_plan

LAUNCH = "rtask.launch"
"""Attribute of the gpu module that describes the launch of its kernel."""


@dataclass(frozen=True)
class LowerToGpu(Pass):
    """Map rKernels to the threads of a block, and vEUs to the blocks of one persistent kernel.

    ``target`` is a GPU as on the command line. A program of at most ``straight_line_limit`` records
    becomes straight-line code, a longer program a loop over the task table. The module's attribute
    ``rtask.launch`` describes the launch: the kernel's arguments, the bytes of each argument, the
    count of blocks and of threads per block, and the values of the argument ``table``.
    """

    name: ClassVar[str] = "rtask-lower-to-gpu"

    target: str = "nvvm"
    straight_line_limit: int = STRAIGHT_LINE_LIMIT

    def check_options(self) -> None:
        """Raise an OptionError if ``straight_line_limit`` is negative."""
        check_least(self, 0, "straight_line_limit")

    def run(self, module: ir.Module) -> None:
        """Replace the module's content by a ``gpu.module`` with one persistent kernel."""
        gpu = find_gpu(self.target)
        with ir.Location.unknown(module.context):
            num_veus = max(len(program.veus) for program in read_plan(module).plan.programs)
            weights = _weights_of_the_right_size(entry_function(module))
            program = lower_to_gpu(module, weights, num_veus, gpu, self.straight_line_limit)
            gpu_module(module).attributes[LAUNCH] = _launch(program)


def _launch(program: GpuProgram) -> ir.DictAttr:
    """Return the ``rtask.launch`` attribute, from which users of the IR can launch the kernel."""
    i64 = ir.IntegerType.get_signless(64)
    names = [ir.StringAttr.get(name) for name in program.arguments]
    return ir.DictAttr.get(
        {
            "arguments": ir.ArrayAttr.get(names),
            "bytes": ir.DenseI64ArrayAttr.get(list(program.argument_bytes)),
            "blocks": ir.IntegerAttr.get(i64, program.num_veus),
            "threads": ir.IntegerAttr.get(i64, program.block_threads),
            "table": ir.DenseI64ArrayAttr.get(program.tables[0].tolist()),
        }
    )


def _weights_of_the_right_size(main: Any) -> dict[int, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return a placeholder for each weight, by argument index: zeros of the weight's size in bytes.

    ``main`` is the entry function. The lowering needs only the offsets of weights in the constants,
    not their values.
    """
    kinds = main.operation.attributes["function_type"].value.inputs
    return {
        number: np.zeros(int(np.prod(kind.shape, dtype=np.int64)) * element_bytes(kind), np.uint8)
        for number, (attributes, kind) in enumerate(
            zip(argument_attributes(main), kinds, strict=True)
        )
        if CONSTANT in attributes
    }
