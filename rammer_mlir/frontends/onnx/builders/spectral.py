"""Builds Fourier transforms as matrix products, the fastest method for short frame lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.products import accumulator, contract, converted
from rammer_mlir.frontends.onnx.builders.structured import (
    loop,
    pointwise,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
    constant,
)
from rammer_mlir.frontends.onnx.builders.views import (
    part,
    reshape,
)
from rammer_mlir.passes.ir.scalar import DType

_LONGEST = 2048
"""Largest length n of a transform, whose matrix has up to 4 n^2 elements."""

Transform = Callable[[NDArray[np.complex128]], NDArray[np.generic]]
"""A linear transform of each row of a complex matrix."""


def _matrix(transform: Transform, length: int, parts: int, dtype: DType) -> Tensor:
    """Emit the matrix of a linear transform, found by transforming the unit vectors.

    Args:
        transform: maps signals, the rows of a matrix, to their spectra, real or complex.
        length: length of a signal.
        parts: 1 for real signals, 2 for complex signals.
        dtype: element type.

    Returns:
        A tensor [spectrum's length, spectrum's parts, length, parts]. Dimension 1 selects the real
            or imaginary part of the spectrum; its size is 1 if the spectrum is real, else 2.
            Dimension 3 selects the real or imaginary part of the signal.
    """
    units = np.eye(length, dtype=np.complex128)
    rows = [transform(units), transform(1j * units)][:parts]
    spectra = np.stack(rows, axis=-1)
    both = [spectra.real, spectra.imag] if np.iscomplexobj(spectra) else [spectra]
    return constant(np.stack(both, axis=1).transpose(2, 1, 0, 3).astype(dtype))


def dft(node: Node) -> Tensor:
    """Emit DFT and its inverse, including transforms between real signals and one-sided spectra."""
    x = node.tensor(0)
    axis = _dft_axis(node) % x.rank
    inverse, onesided = node.attribute("inverse", 0), node.attribute("onesided", 0)
    given = node.integers(1)
    extent = x.shape[axis]
    length = given[0] if given else 2 * (extent - 1) if inverse and onesided else extent
    _check_length(node, length)

    def transform(rows: NDArray[np.complex128]) -> NDArray[np.generic]:
        if inverse:
            return (np.fft.irfft if onesided else np.fft.ifft)(rows, n=length, axis=-1)
        spectra = np.fft.fft(rows, n=length, axis=-1)
        return spectra[:, : length // 2 + 1] if onesided else spectra

    used = min(extent, length)
    signal = part(x, [0] * x.rank, [used if i == axis else n for i, n in enumerate(x.shape)])
    kind = accumulator(x.dtype)
    matrix = _matrix(transform, used, x.shape[-1], kind)
    rank = x.rank
    shape = [matrix.shape[0] if i == axis else n for i, n in enumerate(x.shape)]
    domain = [*shape[:-1], matrix.shape[1], used, x.shape[-1]]
    left = [rank if i == axis else i for i in range(rank - 1)]
    result = contract(
        domain, 2, (signal, [*left, rank + 1]), (matrix, [axis, rank - 1, rank, rank + 1]), kind
    )
    return converted(result, x.dtype)


def _dft_axis(node: Node) -> int:
    if node.opset < 20:
        return node.attribute("axis", 1)
    given = node.integers(2)
    return given[0] if given else -2


def _check_length(node: Node, length: int) -> None:
    if length > _LONGEST:
        raise node.unsupported(f"a transform of length {length}: expected at most {_LONGEST}")


def stft(node: Node) -> Tensor:
    """Emit STFT: the Fourier transform of each frame, weighted by the window.

    As in ONNX Runtime, a real signal may be a tensor [batch, length], without a last dimension for
    the real and imaginary parts.
    """
    x = node.tensor(0)
    if x.rank == 2:
        x = reshape(x, (*x.shape, 1))
    step, given = node.integers(1), node.integers(3)
    window = node.tensor(2) if node.has(2) else None
    length = given[0] if given else window.shape[0] if window else 0
    if not step or not length:
        raise node.unsupported("expected a constant frame_step, and a window or a frame_length")
    _check_length(node, length)
    onesided = node.attribute("onesided", 1)

    def transform(rows: NDArray[np.complex128]) -> NDArray[np.generic]:
        spectra = np.fft.fft(rows, n=length, axis=-1)
        return spectra[:, : length // 2 + 1] if onesided else spectra

    size = window.shape[0] if window else length
    kind = accumulator(x.dtype)
    matrix = _matrix(transform, size, x.shape[-1], kind)
    if window is not None:
        matrix = pointwise(lambda m, w: m * w.cast(kind), matrix, reshape(window, (size, 1)))
    batch, frames, *_ = node.out().shape
    domain = [batch, frames, *matrix.shape[:2], size, x.shape[-1]]
    signal: list[Expr] = [0, loop(1) * step[0] + loop(4), 5]
    result = contract(domain, 2, (x, signal), (matrix, [2, 3, 4, 5]), kind)
    return converted(result, x.dtype)


BUILDERS: dict[str, Builder] = {"DFT": dft, "STFT": stft}
