"""`rtask-quantize-regions`: computes contractions in 8 or 16 bits, if accurate enough."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.quantization.observation import Observer
from rammer_mlir.compiler.quantization.quantize import Quantization
from rammer_mlir.compiler.quantization.samples import Samples
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.quantization.region_calls import body_of
from rammer_mlir.passes.quantization.rewrite import Precision
from rammer_mlir.passes.regions.codegen import find_codegen
from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.support.usable_cores import usable_cores


@dataclass(frozen=True)
class QuantizeRegions(Pass):
    """Compute contractions of regions in 8 or 16 bits; inputs and results of regions stay f32.

    The pass runs after the outlining of regions. It compiles the program and runs it on the samples
    in ``calibration``, an ``.npz`` file with an array for each input. The first runs observe the
    operands of contractions, and ``method`` (minmax, percentile, entropy) chooses a range for each
    operand. Further runs compare each quantized region with its f32 variant. A region stays f32 if
    its signal-to-noise ratio is below ``bound`` decibels, or if its code generator does not support
    the quantized region. The decision about each region is reported on standard error.

    With 8 bits, a weight has a scale for each channel, and another tensor has a single scale and a
    zero point. With ``dynamic``, the scale and the zero point are computed from the data of each
    run. With 16 bits, contractions read f16, or bf16 if a value exceeds the range of f16, and
    accumulate in f32.
    """

    name: ClassVar[str] = "rtask-quantize-regions"

    codegens: tuple[str, ...] = ()
    bits: int = 8
    calibration: str = ""
    method: str = "minmax"
    bound: float = 25.0
    dynamic: bool = False

    def run(self, module: ir.Module) -> None:
        """Quantize regions, and report the decision about each region on standard error.

        Raises:
            OptionError: if ``codegens`` or ``calibration`` is empty, or an option is invalid.
        """
        for option in ("codegens", "calibration"):
            if not getattr(self, option):
                raise OptionError(f"'{self.name}': expected {option}=..., found none")
        for name in self.codegens:
            find_codegen(name)
        quantization = Quantization(
            self.codegens, Precision(self.bits, self.dynamic), self.method, self.bound
        )
        quantization.check()
        inputs = _inputs(entry_function(module))
        feeds = Samples.of(self.calibration).feeds(inputs)
        observer = Observer(inputs, feeds, {}, usable_cores())
        for region in quantization.apply(module, observer).regions:
            print(region.line, file=sys.stderr)


def _inputs(main: ir.OpView) -> tuple[TensorSpec, ...]:
    """Return the inputs of the entry function that are not weights, in order.

    Raises:
        OperationError: if an input is no tensor of a supported element type.
    """
    pairs = zip(body_of(main).arguments, argument_attributes(main), strict=True)
    return tuple(
        _spec(main, number, value.type, given)
        for number, (value, given) in enumerate(pairs)
        if CONSTANT not in given
    )


def _spec(
    main: ir.OpView, number: int, kind: ir.Type, given: dict[str, ir.Attribute]
) -> TensorSpec:
    name = ir.StringAttr(given["rtask.name"]).value if "rtask.name" in given else f"input{number}"
    tensor = kind if isinstance(kind, ir.RankedTensorType) else None
    element = "" if tensor is None else str(tensor.element_type)
    if tensor is None or element not in _DTYPES:
        raise OperationError(
            main,
            f"input '{name}': expected a tensor of {', '.join(_DTYPES)}, found {kind}; compile "
            "the model as a whole",
        )
    return TensorSpec(name, tuple(tensor.shape), np.dtype(_DTYPES[element]))


_DTYPES = {
    "f32": "f4", "f64": "f8", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
    "i1": "?",
}  # fmt: skip
"""NumPy's dtypes of inputs; integers are signed."""
