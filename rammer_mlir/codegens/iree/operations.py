"""Decides which recognized operations (``Reading``) IREE compiles to a single dispatch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rammer_mlir.codegens.primitives.chains import with_steps
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.patterns import CompositePattern, op
from rammer_mlir.passes.regions.reading import Reading

ELEMENT_TYPES = {"f32": np.float32, "i32": np.int32, "i8": np.int8}
"""MLIR element types in which IREE computes without conversion, with NumPy's types."""

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_DEPTHWISE = ("depthwise_conv1d", "depthwise_conv2d", "depthwise_conv3d")
_PRODUCTS = ("matmul", "batch_matmul")
_REDUCED = "sum mean max min prod sum_square l1"
_REDUCTIONS = tuple(f"reduce_{name}" for name in _REDUCED.split())
_POOLS = ("max_pool", "min_pool", "sum_pool", "average_pool")

_MAIN = (*_PRODUCTS, *_CONVOLUTIONS, *_DEPTHWISE, *_REDUCTIONS, *_POOLS, "softmax")
"""Kinds of operations that become a dispatch each, with the element-wise functions after it."""

_UNARY = tuple(
    "relu clip sigmoid swish gelu hard_sigmoid hard_swish leaky_relu elu softplus mish softsign "
    "reciprocal square quantize exp tanh erf sqrt rsqrt neg abs elementwise".split()
)
_BINARY = tuple("add sub mul div maximum minimum prelu elementwise".split())
_ELEMENTWISE = tuple(dict.fromkeys((*_UNARY, *_BINARY)))

_EFFICIENCY = {
    **dict.fromkeys(_CONVOLUTIONS, 0.3),
    **dict.fromkeys(_DEPTHWISE, 0.1),
    **dict.fromkeys(_POOLS, 0.35),
    **dict.fromkeys(_PRODUCTS, 0.9),
    "softmax": 0.5,
}
"""Speed of IREE's code as a share of the speed of the host's rKernels, by kind of operation.

Measured on one vEU on a Zen 4 core, in f32 and layout NCHW.
"""


def is_supported(reading: Reading) -> bool:
    """Whether IREE compiles an operation to efficient code that computes in its operands' types."""
    operands = (*reading.inputs, reading.output)
    is_known = reading.kind in _MAIN or reading.kind in _ELEMENTWISE
    return is_known and all(operand.element_type in ELEMENT_TYPES for operand in operands)


def has_main_operation(readings: Iterable[Reading]) -> bool:
    """Whether any operation of a region is not an element-wise function."""
    return any(reading.kind in _MAIN for reading in readings)


def efficiency(readings: Iterable[Reading]) -> float:
    """Return the estimated speed of IREE's code for a region relative to the host's code."""
    return min((_EFFICIENCY.get(reading.kind, 1.0) for reading in readings), default=1.0)


def _is_one_dispatch(match: Match) -> bool:
    """Return whether IREE compiles the operations of a match to a single dispatch.

    IREE must support each operation, and each operation after the main one (which is not
    element-wise) must keep the shape of the main result.
    """
    (main,) = [place for place, r in enumerate(match.readings) if r.kind in _MAIN]
    shape = match.readings[main].output.shape
    has_shape = all(reading.output.shape == shape for reading in match.readings[main:])
    return has_shape and all(map(is_supported, match.readings))


_COMPOSITES = (
    ("convolution", op((*_CONVOLUTIONS, *_DEPTHWISE)), 1),
    ("product", op(_PRODUCTS), 1),
    ("pool", op(_POOLS), 0),
    ("reduction", op(_REDUCTIONS, op(_ELEMENTWISE)), 0),
    ("reduction", op(_REDUCTIONS), 0),
    ("softmax", op("softmax"), 0),
)
"""Names, patterns of main operations and priorities of composites.

Contractions have the highest priority, so that they get the element-wise neighbors.
"""

PATTERNS = tuple(
    CompositePattern(f"iree.{name}", with_steps(main, _UNARY, _BINARY), _is_one_dispatch, priority)
    for name, main, priority in _COMPOSITES
)
