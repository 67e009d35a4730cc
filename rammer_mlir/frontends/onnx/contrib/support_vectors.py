"""Expands SVMRegressor to the weighted sum of a kernel over all support vectors.

The kernel is a function of a row of the input and a support vector.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.rule import Rule
from rammer_mlir.frontends.onnx.contrib.scores import post_transform

_F32 = np.float32


def _regressor(call: Call) -> None:
    coefficients = np.array(call.attribute("coefficients", [0.0]), _F32)
    count = call.attribute("n_supports", 0)
    rows = call.cast(call.find(0), TensorProto.FLOAT)
    if len(call.shape(0)) == 1:
        rows = call.reshape(rows, 1, -1)
    features = call.shape_of(rows)[-1]
    size = count * features if count else features
    given = call.attribute("support_vectors", [0.0]) if count else coefficients
    call.expect(len(given) == size, f"vectors of {size} elements", len(given))
    call.expect(not count or len(coefficients) == count, f"{count} factors", len(coefficients))
    found = _kernel(call, rows, np.array(given, _F32).reshape(-1, features))
    if count:
        found = call.op("MatMul", found, call.write.constant(coefficients.reshape(-1, 1)))
    found = call.op("Add", found, _number(call, call.attribute("rho", [0.0])[0]))
    if call.attribute("one_class", 0):
        found = _sides(call, found)
    call.finish(post_transform(call, found, call.attribute("post_transform", "NONE")))


def _number(call: Call, value: float) -> str:
    return call.write.constant(np.array(value, _F32))


def _sides(call: Call, distances: str) -> str:
    """Emit the result of a one-class model, and return its name.

    The result is 1 for rows that belong to the class, else -1. ``distances`` is the name of the
    weighted sums, one for each row. A row belongs to the class if its sum is positive.
    """
    is_inside = call.op("Greater", distances, _number(call, 0.0))
    return call.op("Where", is_inside, _number(call, 1.0), _number(call, -1.0))


def _kernel(call: Call, rows: str, vectors: np.ndarray[tuple[int, int], np.dtype[_F32]]) -> str:
    """Emit the kernel function of each row and support vector, [rows, vectors]; return its name."""
    kind = call.attribute("kernel_type", "LINEAR")
    gamma, offset, degree = call.attribute("kernel_params", [0.0, 0.0, 0.0])
    if kind == "RBF":
        return call.op(
            "Exp", call.op("Mul", _distances(call, rows, vectors), _number(call, -gamma))
        )
    products = call.op("MatMul", rows, call.write.constant(vectors.T))
    if kind == "LINEAR":
        return products
    moved = call.op("Mul", products, _number(call, gamma))
    moved = call.op("Add", moved, _number(call, offset))
    if kind == "POLY":
        return call.op("Pow", moved, _number(call, degree))
    call.expect(kind == "SIGMOID", "kernel_type: LINEAR, POLY, RBF or SIGMOID", repr(kind))
    return call.op("Tanh", moved)


def _distances(call: Call, rows: str, vectors: np.ndarray[tuple[int, int], np.dtype[_F32]]) -> str:
    """Emit the squared distance of each row to each vector, [rows, vectors]; return its name.

    The distance is computed as the sum of squared differences, since ``|a|^2 - 2 a b + |b|^2``
    would lose precision for near vectors.
    """
    apart = call.op("Unsqueeze", rows, call.write.integers(1))
    difference = call.op("Sub", apart, call.write.constant(vectors))
    squares = call.op("Mul", difference, difference)
    return call.op("ReduceSum", squares, call.write.integers(2), keepdims=0)


RULES: dict[str, Rule] = {
    "SVMRegressor": Rule(
        _regressor,
        "X",
        "Y",
        "coefficients kernel_params kernel_type n_supports one_class post_transform rho "
        "support_vectors",
    )
}
