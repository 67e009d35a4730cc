"""Lowers ``stablehlo.fft`` to multiplications by the matrices of discrete Fourier transforms.

Specification: https://openxla.org/stablehlo/spec#fft. A transform along a dimension of n elements
costs n multiplications for each element of the result. Complex tensors are computed as two real
tensors, one of real parts and one of imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import arith, ir, stablehlo
from rammer_mlir.passes.ir.dense_values import dense_attribute
from rammer_mlir.passes.ir.element_types import dtype_of
from rammer_mlir.passes.ir.generics import sum_of_products
from rammer_mlir.passes.ir.traversal import operations_named, replace

_MOST_ELEMENTS = 2048
"""Maximum elements of a transformed dimension: two matrices of 16 MiB in f32."""

Matrix = NDArray[np.float64]


def lower_fourier_transforms(module: ir.Module) -> None:
    """Replace each ``stablehlo.fft`` of static shape by products with constant matrices.

    Transforms of more than 2048 elements along a dimension (``_MOST_ELEMENTS``) remain unchanged.
    """
    if stablehlo is None:
        return
    for op in list(operations_named(module.operation, "stablehlo.fft")):
        kinds = [ir.RankedTensorType(value.type) for value in (*op.operands, *op.results)]
        lengths = list(ir.DenseI64ArrayAttr(op.attributes["fft_length"]))
        if all(kind.has_static_shape for kind in kinds) and max(lengths) <= _MOST_ELEMENTS:
            with ir.InsertionPoint(op), op.location:
                replace(op, [_Transform(op, lengths).result()])


class _Transform:
    """The emitter of a discrete Fourier transform over the last dimensions of a tensor."""

    def __init__(self, op: ir.Operation, lengths: list[int]) -> None:
        self._op = op
        self._lengths = lengths
        self._rank = ir.RankedTensorType(op.operands[0].type).rank
        self._first = self._rank - len(lengths)

    def result(self) -> ir.Value:
        """Emit the transform, and return the transformed tensor."""
        name = str(self._op.attributes["fft_type"])
        (given,) = self._op.operands
        for kind, transform in _KINDS.items():
            if f" {kind}>" in name:
                return transform(self, given)
        raise AssertionError(f"the verifier refuses {name}")

    def forward(self, given: ir.Value) -> ir.Value:
        return self._complex(*self._transform_along_axes(*_parts(given), is_inverse=False))

    def inverse(self, given: ir.Value) -> ir.Value:
        return self._complex(*self._transform_along_axes(*_parts(given), is_inverse=True))

    def of_real(self, given: ir.Value) -> ir.Value:
        """Emit the transform of the real tensor ``given``, and return the complex result.

        If ``given`` has n elements along the last dimension, the result has ``n // 2 + 1`` elements
        along it. The transform's other elements are conjugates of returned elements, and are
        omitted.
        """
        count = self._lengths[-1]
        matrix = _matrix(count, is_inverse=False)[:, : count // 2 + 1]
        parts = [self._product(given, part, self._rank - 1) for part in (matrix.real, matrix.imag)]
        return self._complex(
            *self._transform_along_axes(*parts, is_inverse=False, without_last=True)
        )

    def to_real(self, given: ir.Value) -> ir.Value:
        """Emit the inverse transform of the complex tensor ``given``, and return the real result.

        If the result has n elements along the last dimension, ``given`` has ``n // 2 + 1`` elements
        along it: the omitted elements are conjugates of given elements. The last dimension is
        transformed after all other dimensions.
        """
        real, imaginary = self._transform_along_axes(
            *_parts(given), is_inverse=True, without_last=True
        )
        count = self._lengths[-1]
        matrix = _matrix(count, is_inverse=True)[: count // 2 + 1]
        twice = np.full(len(matrix), 2.0)
        twice[0] = 1
        if count % 2 == 0:
            twice[-1] = 1
        matrix = matrix * twice[:, None]
        last = self._rank - 1
        return _binary(
            arith.SubFOp,
            self._product(real, matrix.real, last),
            self._product(imaginary, matrix.imag, last),
        )

    def _transform_along_axes(
        self, real: ir.Value, imaginary: ir.Value, *, is_inverse: bool, without_last: bool = False
    ) -> tuple[ir.Value, ir.Value]:
        for dimension in range(self._first, self._rank - without_last):
            matrix = _matrix(self._lengths[dimension - self._first], is_inverse=is_inverse)
            products = [
                self._product(value, part, dimension)
                for value in (real, imaginary)
                for part in (matrix.real, matrix.imag)
            ]
            real = _binary(arith.SubFOp, products[0], products[3])
            imaginary = _binary(arith.AddFOp, products[1], products[2])
        return real, imaginary

    def _product(self, value: ir.Value, matrix: Matrix, dimension: int) -> ir.Value:
        """Emit the product of a tensor and a constant matrix along a dimension of the tensor.

        Each vector along ``dimension`` is multiplied, as a row vector, by ``matrix``.
        """
        kind = ir.RankedTensorType(value.type)
        dtype = dtype_of(kind.element_type)
        weights = dense_attribute(np.ascontiguousarray(matrix).astype(dtype), kind.element_type)
        constant = arith.ConstantOp(
            ir.RankedTensorType.get(matrix.shape, kind.element_type), weights
        ).result
        shape = list(kind.shape)
        shape[dimension] = matrix.shape[1]
        loops = [ir.AffineDimExpr.get(n) for n in range(self._rank + 1)]
        summed = loops[-1]
        read = loops[: self._rank]
        read[dimension] = summed
        maps = [
            ir.AffineMap.get(self._rank + 1, 0, each)
            for each in (read, [summed, loops[dimension]], loops[: self._rank])
        ]
        return sum_of_products([value, constant], maps, [True] * self._rank + [False], shape)

    def _complex(self, real: ir.Value, imaginary: ir.Value) -> ir.Value:
        name, kind = "stablehlo.complex", self._op.results[0].type
        return ir.Operation.create(name, [kind], [real, imaginary]).results[0]


_KINDS: dict[str, Callable[[_Transform, ir.Value], ir.Value]] = {
    "FFT": _Transform.forward,
    "IFFT": _Transform.inverse,
    "RFFT": _Transform.of_real,
    "IRFFT": _Transform.to_real,
}


def _matrix(count: int, *, is_inverse: bool) -> NDArray[np.complex128]:
    """Return the square matrix of a discrete Fourier transform of ``count`` elements.

    The shape is (count, count). If ``is_inverse``, the matrix is that of the inverse transform,
    with the factor ``1 / count``. Angles are reduced modulo 2 pi.
    """
    turns = np.outer(np.arange(count), np.arange(count)) % count / count
    matrix = np.exp((2j if is_inverse else -2j) * np.pi * turns)
    return np.asarray(matrix / count if is_inverse else matrix, np.complex128)


def _parts(value: ir.Value) -> tuple[ir.Value, ir.Value]:
    kind = ir.RankedTensorType(value.type)
    part = ir.RankedTensorType.get(kind.shape, ir.ComplexType(kind.element_type).element_type)
    real, imaginary = (
        ir.Operation.create(name, [part], [value]).results[0]
        for name in ("stablehlo.real", "stablehlo.imag")
    )
    return real, imaginary


def _binary(
    make: Callable[[ir.Value, ir.Value], ir.OpView], first: ir.Value, second: ir.Value
) -> ir.Value:
    return make(first, second).operation.results[0]
