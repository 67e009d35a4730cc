"""`rtask-check-external`: compares results of external rKernels and of the compiler's rKernels."""

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
    """Execute rTasks of external rKernels, and compare the results with the compiler's rKernels.

    - In the boxes that an rTask reads, an input that is a constant in the IR has the constant's
      values, and any other input is random. Outside of these boxes, every input is poison. Each
      rTask is executed twice: with NaN as poison, then with a large number as poison.
    - Outputs are filled with a marker value, which the rTask has to leave unchanged outside of the
      boxes that it writes.
    - A float may differ by ``tolerance`` times the largest absolute value that the rTask computes
      (at least 1).
    - If an rKernel has more than ``rtasks`` rTasks, at most ``rtasks`` of them are executed, evenly
      spaced.

    The pass runs at the `buffers` stage, where an rOperator has both its external candidates and
    the compiler's candidates. A warning lists the external rKernels that are not checked: those
    that no rKernel of the compiler can replace, and those that update buffers in place.
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
        """Raise ``OperationError`` if an external rKernel's results or boxes are wrong.

        The module is not changed.
        """
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

    Args:
        names: the rKernels that are not checked.
        expected: text of the warning after "expected": the condition for a check, and what was
            found in its place.
    """
    if names:
        listed = ", ".join(f"'@{name}'" for name in names)
        warn_user(
            f"offload_check: expected {expected}; external rKernels that are not checked: {listed}",
            OffloadWarning,
        )


def _known_operands(module: ir.Module, op: ir.OpView) -> dict[int, NDArray[np.generic]]:
    """Return the operands of an rOperator that are constants in the IR, by operand index.

    Code generators may read these constants, and generate code that is correct only for their
    values.
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
    """Return the boxes that the rTasks of an rKernel read or write, by argument index.

    For each access of an argument, there is a pair of arrays: the starts of the box, and its ends
    (exclusive), with a row for each rTask. Arguments without such an access have no key.

    Args:
        op: the ``rtask.kernel``.
        key: the kind of the accesses: ``reads`` or ``writes``.
        num_rtasks: number of rTasks of the rKernel.
        shapes: shape of each argument.
    """
    found: Checked = {}
    for access in read_accesses(op, key):
        boxes = access.boxes(num_rtasks, shapes[access.argument])
        found.setdefault(access.argument, []).append(boxes)
    return found
