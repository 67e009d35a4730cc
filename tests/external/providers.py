"""A provider of external rKernels for tests, and costs by which policies choose them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import onnx
from onnx import parser

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.extend import OfferedOperator, external_rkernel
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

ROWS, COLUMNS = 24, 64

TRIPLED = """
#include <stdint.h>
int32_t rows(int64_t rtask, const float *x, float *y) {
  for (int i = 0; i < 64; i++) y[64 * rtask + i] = 3 * x[64 * rtask + i];
  return x[64 * rtask] > 1e6f ? -3 : 0;
}"""
"""Multiplies a row by three, unlike the model's Relu, so that results show which code ran."""

TRIPLED_IR = """
define i32 @rows(i64 %rtask, ptr %x, ptr %y) {
  %from = mul i64 %rtask, 64
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %at = add i64 %from, %i
  %p = getelementptr float, ptr %x, i64 %at
  %q = getelementptr float, ptr %y, i64 %at
  %v = load float, ptr %p
  %w = fmul float %v, 3.0
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}"""


def relu() -> onnx.ModelProto:
    """Return a model whose only operator is Relu."""
    size = f"[{ROWS},{COLUMNS}]"
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float{size} x) => (float{size} y) '
        "{ y = Relu(x) }"
    )


@dataclass
class Rows:
    """A provider of rKernels for operators on one input of ROWS rows.

    Each rTask of an offered rKernel computes a row.

    Attributes:
        code: the rKernel's code.
        form: the form of the code, such as ``c``.
        symbol: name of the function that the code defines.
        box: the box that an rTask reads and writes: an offset and a size for each dimension.
        work: arguments of ``external_rkernel`` that replace those of ``offer``.
    """

    code: str | bytes = TRIPLED
    form: str = "c"
    symbol: str = "rows"
    box: tuple[tuple[int | str, int], ...] = (("d0", 1), (0, COLUMNS))
    work: Mapping[str, Any] = field(default_factory=dict[str, Any])

    name: ClassVar[str] = "rows"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        """Offer an rKernel if input and output are ROWS x COLUMNS f32 tensors, else nothing."""
        kind = ir.Type.parse(f"tensor<{ROWS}x{COLUMNS}xf32>")
        if operator.inputs != (kind,) or operator.outputs != (kind,):
            return []
        work: dict[str, Any] = {
            "num_rtasks": ROWS, "reads": {0: self.box}, "writes": {0: self.box},
            "operations": COLUMNS, "num_bytes": 8 * COLUMNS, **self.work,
        }  # fmt: skip
        return [external_rkernel(operator, self.code, self.symbol, form=self.form, **work)]


def _favour(kernel: RKernel, device: Device) -> float | None:
    """Return a nanosecond for rKernels of the provider, and a second for all others."""
    return 1e-9 if "rows" in kernel.name else 1.0


@contextmanager
def offered(rows: Rows) -> Generator[None]:
    """Register a provider, and costs that favor its rKernels, while the context is entered."""
    with ExitStack() as stack:
        for registry, name, value in (
            (KERNEL_PROVIDERS, "rows", rows),
            (COST_FUNCTIONS, "favour", _favour),
        ):
            registry.register(name, value)  # pyright: ignore[reportArgumentType]
            stack.callback(registry.unregister, name)
        yield


def compiled(rows: Rows, model: onnx.ModelProto | None = None, veus: int = 2) -> Executable:
    """Compile a model with the rKernels of ``rows`` for all rOperators that they fit.

    The model is that of ``relu`` by default; ``veus`` is the number of vEUs.
    """
    with offered(rows):
        found = rammer_mlir.compile(
            model or relu(), rkernels="rows", costs="favour", num_veus=veus, policy="list"
        )
    assert isinstance(found, Executable)
    return found
