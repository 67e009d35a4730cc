"""Checks a compiled model's results against the types that ``torch.export`` infers."""

from __future__ import annotations

from collections.abc import Mapping

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.pytorch.interface import ResultType
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.programs.signature import Signature


def check_results(found: Signature | OpenSignature, expected: Mapping[str, ResultType]) -> None:
    """Check the shapes and dtypes of a compiled model's outputs.

    The check is necessary because ``torch.onnx`` converts some operators wrongly. ``expected`` has
    the types of the exported program's results, by name; open dimensions are not compared.

    Raises:
        UnsupportedError: names the first output whose shape or dtype is not the expected one.
    """
    for output in found.outputs:
        wanted = expected.get(output.name)
        if wanted is None or output.shape is None or output.dtype is None:
            continue
        shape, dtype = wanted.shape, wanted.dtype
        if wanted.is_complex and not output.dtype.name.startswith("complex"):
            # ONNX lacks most operators of complex numbers: the exporter makes pairs.
            shape, dtype = (*shape, 2), {"complex64": "float32"}.get(dtype, "float64")
        is_equal = len(shape) == len(output.shape) and all(
            a == b
            for a, b in zip(shape, output.shape, strict=True)
            if isinstance(a, int) and isinstance(b, int)
        )
        if not is_equal or dtype != output.dtype.name:
            raise UnsupportedError(
                f"result '{output.name}': expected {_text(shape, dtype)} of torch.export, found "
                f"{_text(output.shape, output.dtype.name)} in the model that torch.onnx made; "
                "express the result by other operators"
            )


def _text(shape: tuple[object, ...], dtype: str) -> str:
    return f"{dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"
