"""`rtask-check-external`: compares external rKernels with the compiler's own on random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.accesses import read_accesses
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.errors import OffloadWarning
from rammer_mlir.lowering.profiling.external_check import Argument, Checked, Trial, first_fault
from rammer_mlir.lowering.profiling.isolate import isolate
from rammer_mlir.lowering.profiling.native_kernel import load_kernel
from rammer_mlir.passes.base import Form, OperationError, Pass, check_least
from rammer_mlir.passes.ir.entry import entry_block, functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.passes.regions.weights import array_of, weights_of
from rammer_mlir.support.user_warnings import warn_user


@dataclass(frozen=True)
class CheckExternal(Pass):
    """Run each rTask of external rKernels alone, and compare with an rKernel of the compiler.

    Constants whose content is in the IR are used as inputs; all other inputs are random, with
    poison (NaN, then a large number) outside of the boxes that an rTask reads. Outputs are filled
    with a mark, which has to remain outside of the boxes that the rTask writes. A float may differ
    by ``tolerance`` times the largest absolute value that the rTask has to compute. If an rKernel
    has more than ``rtasks`` rTasks, that many of them run, evenly spaced. The pass runs on buffers,
    where rOperators still have both kinds of candidates. A warning names the external rKernels that
    are not checked: those without a candidate of the compiler to compare with, and those that
    update buffers.
    """

    name: ClassVar[str] = "rtask-check-external"
    takes: ClassVar[Form | None] = Form.BUFFERS

    tolerance: float = 1e-3
    rtasks: int = 64

    def check_options(self) -> None:
        """Raise ``OptionError`` if ``tolerance`` is negative or ``rtasks`` is less than 1."""
        check_least(self, 0, "tolerance")
        check_least(self, 1, "rtasks")

    def run(self, module: ir.Module) -> None:
        """Raise an error for an external rKernel with wrong results or boxes; change nothing."""
        described = described_kernels(module)
        checked: dict[str, bool] = {}
        for op in entry_block(module).operations:
            if op.operation.name != "rtask.operator":
                continue
            names = [
                ir.FlatSymbolRefAttr(name).value
                for name in ir.ArrayAttr(op.operation.attributes["kernels"])
            ]
            foreign = [name for name in names if read_external(described[name].operation)]
            own = [name for name in names if name not in foreign]
            for name in foreign:
                is_comparable = own and "updates" not in described[name].operation.attributes
                if is_comparable and not checked.get(name):
                    self._check(module, op, name, own[0])
                checked[name] = bool(is_comparable) or checked.get(name, False)
        warn_unchecked(
            [name for name, is_checked in checked.items() if not is_checked],
            "rKernels of the compiler that compute the same and update no buffer, found none",
        )

    def _check(self, module: ir.Module, op: ir.OpView, name: str, own: str) -> None:
        foreign, reference = _trial(module, name), _trial(module, own)
        known = _known_operands(module, op)
        fault = first_fault(foreign, reference, self.tolerance, self.rtasks, known)
        if fault:
            raise OperationError(
                op,
                f"external rKernel '@{name}': {fault}; mend its code or its boxes, or leave it out",
            )


def warn_unchecked(names: Sequence[str], expected: str) -> None:
    """Warn that external rKernels are not checked; do nothing if ``names`` is empty.

    ``names`` are the unchecked rKernels. ``expected`` is text with the unmet expectation and the
    actual situation.
    """
    if names:
        listed = ", ".join(f"'@{name}'" for name in names)
        warn_user(
            f"offload_check: expected {expected}; external rKernels that are not checked: {listed}",
            OffloadWarning,
        )


def _known_operands(module: ir.Module, op: ir.OpView) -> dict[int, NDArray[np.generic]]:
    """Return the operands of an rOperator whose content is in the IR, by number.

    Code generators see them, and may generate code for these values alone.
    """
    weights = weights_of(module)
    found: dict[int, NDArray[np.generic]] = {}
    for number, value in enumerate(op.operation.operands):
        held = array_of(value, weights)
        if held is not None:
            found[number] = held
    return found


def _trial(module: ir.Module, name: str) -> Trial:
    kernels = {symbol_name(function): function for function in functions(module)}
    op = described_kernels(module)[name].operation
    num_rtasks = ir.IntegerAttr(op.attributes["num_rtasks"]).value
    kernel = load_kernel(isolate(module, kernels[name], num_rtasks))
    kind = ir.FunctionType(ir.TypeAttr(kernels[name].operation.attributes["function_type"]).value)
    types = [ir.MemRefType(each) for each in kind.inputs[1:]]
    boxes = {
        key: _boxes(op, key, num_rtasks, [tuple(each.shape) for each in types])
        for key in ("reads", "writes")
    }
    arguments = [Argument(tuple(each.shape), str(each.element_type)) for each in types]
    return Trial(kernel, num_rtasks, arguments, boxes["reads"], boxes["writes"])


def _boxes(
    op: ir.Operation, key: str, num_rtasks: int, shapes: Sequence[tuple[int, ...]]
) -> Checked:
    """Return, by argument number, the boxes of all rTasks; arguments without boxes are left out.

    ``key`` is ``reads`` or ``writes``; ``shapes`` has each argument's shape.
    """
    found: Checked = {}
    for access in read_accesses(op, key):
        boxes = access.boxes(num_rtasks, shapes[access.argument])
        found.setdefault(access.argument, []).append(boxes)
    return found
