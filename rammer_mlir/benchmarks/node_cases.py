"""Select ONNX's own node tests, and check a single test.

Tests of tensors of real numbers are selected, except those of training, random numbers, image files
and the 8- and 4-bit element types.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from rammer_mlir.errors import RammerError

if TYPE_CHECKING:
    from onnx.backend.test.case.test_case import TestCase

Array = NDArray[np.generic]

RunModel = Callable[[onnx.ModelProto, Mapping[str, Array]], Mapping[str, Array]]
"""A function that maps a model and its inputs by name to the outputs by name."""

_LEFT_OUT_OPERATORS = {
    "Bernoulli",
    "ImageDecoder",
    "OptionalGetElement",
    "OptionalHasElement",
    "RandomUniformLike",
}
_REAL_TYPES = {
    getattr(onnx.TensorProto, name)
    for name in "FLOAT FLOAT16 BFLOAT16 DOUBLE BOOL INT8 INT16 INT32 INT64 "
    "UINT8 UINT16 UINT32 UINT64".split()
}

_PARAMETERS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""Parameter inputs by operator: constants in real models, but inputs in the tests.

Examples are the axes of reductions and the lengths of sequences.
"""


@dataclass(frozen=True)
class NodeTest:
    """A test of ONNX's suite for an operator: a model, inputs, and the outputs that are expected.

    Attributes:
        name: name of the test.
        model: the model, with parameters such as axes as constants.
        inputs: inputs by name.
        outputs: expected outputs by name.
        relative: the test's relative tolerance of the outputs.
        absolute: the test's absolute tolerance of the outputs.
    """

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    relative: float
    absolute: float

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the model's operators."""
        return tuple(sorted({node.op_type for node in self.model.graph.node}))


@dataclass(frozen=True)
class Result:
    """The result of a test; ``reason`` is None if it passed, else says why it failed."""

    name: str
    operators: tuple[str, ...]
    reason: str | None


def node_tests(only: str = "") -> Iterator[NodeTest]:
    """Yield ONNX's node tests whose name contains ``only``, each with its first data set.

    Tests that this module does not select, such as those of training, are left out. Collecting all
    tests takes some seconds before the first test is yielded.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases: list[TestCase] = collect_testcases(None)  # type: ignore[arg-type]
    parameters = {case.name: _parameters(_model(case).graph) for case in cases}
    for case in cases:
        if only in case.name and "training" not in case.name and _is_taken(_model(case)):
            # Values that a function body computes from an operator's parameters are no parameters.
            original = case.name.partition("_expanded")[0]
            yield from _tests(case, parameters.get(original) or parameters[case.name])


def _model(case: TestCase) -> onnx.ModelProto:
    assert case.model is not None
    return case.model


def _is_taken(model: onnx.ModelProto) -> bool:
    values = [*model.graph.input, *model.graph.output]
    return (
        all(value.type.HasField("tensor_type") for value in values)
        and all(value.type.tensor_type.elem_type in _REAL_TYPES for value in values)
        and not any(node.domain for node in model.graph.node)
        and not any(node.op_type in _LEFT_OUT_OPERATORS for node in model.graph.node)
    )


def _tests(case: TestCase, parameters: set[str]) -> Iterator[NodeTest]:
    for inputs, outputs in (case.data_sets or ())[:1]:
        model = onnx.ModelProto()
        model.CopyFrom(_model(case))
        names = [value.name for value in model.graph.input]
        feeds = {n: _array(value) for n, value in zip(names, inputs, strict=True)}
        expected = {
            value.name: _array(array)
            for value, array in zip(model.graph.output, outputs, strict=True)
        }
        _fix_parameters(model, feeds, parameters)
        yield NodeTest(case.name, model, feeds, expected, case.rtol, case.atol)


def _array(value: object) -> Array:
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def _parameters(graph: onnx.GraphProto) -> set[str]:
    """Return the names of graph inputs that real models have as constants, such as axes.

    In ONNX's node tests, these operands are graph inputs instead of constants.
    """
    found: set[str] = set()
    for node in graph.node:
        numbers = _PARAMETERS.get(node.op_type, ())
        if node.op_type.startswith("Reduce"):
            numbers = (1,)
        elif node.op_type in ("LSTM", "GRU", "RNN"):
            numbers = (4,)
        found.update(node.input[i] for i in numbers if i < len(node.input))
    return found - {""}


def _fix_parameters(model: onnx.ModelProto, feeds: dict[str, Array], fixed: set[str]) -> None:
    """Turn the inputs named in ``fixed`` into constants, with their values taken from ``feeds``."""
    kept = [value for value in model.graph.input if value.name not in fixed]
    for name in fixed & feeds.keys():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(feeds.pop(name)), name))
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    del model.graph.input[:]
    model.graph.input.extend(copies)
    model.ir_version = max(model.ir_version, 4)


def check(test: NodeTest, run_model: RunModel) -> Result:
    """Run a test and return its result.

    An exception is a failed test; the exception's message is the reason. ``run_model`` compiles and
    runs a model; it maps inputs by name to outputs by name.
    """
    operators = test.operators
    try:
        found = run_model(test.model, test.inputs)
    except RammerError as error:
        return Result(test.name, operators, f"{type(error).__name__}: {error}")
    except Exception as error:  # a fault of the compiler: reported with the others
        line = (str(error).splitlines() or [""])[0]
        return Result(test.name, operators, f"unexpected {type(error).__name__}: {line}")
    for name, expected in test.outputs.items():
        reason = _difference(expected, np.asarray(found[name]), test)
        if reason:
            return Result(test.name, operators, f"output '{name}': {reason}")
    return Result(test.name, operators, None)


def _two_units(dtype: np.dtype[np.generic]) -> float:
    """Return the least relative tolerance of float outputs: twice the machine epsilon of ``dtype``.

    A test's own tolerance applies if it is larger.
    """
    return 2.0**-6 if dtype.name == "bfloat16" else 2 * float(np.finfo(dtype.name).eps)


def _difference(expected: Array, found: Array, test: NodeTest) -> str | None:
    kinds = [f"{a.dtype}{list(a.shape)}" for a in (expected, found)]
    if kinds[0] != kinds[1]:
        return f"expected {kinds[0]}, found {kinds[1]}"
    exact = expected.dtype.kind in "biu"
    left, right = (a if exact else a.astype(np.float64) for a in (expected, found))
    relative = test.relative if exact else max(test.relative, _two_units(expected.dtype))
    absolute = test.absolute if exact else max(test.absolute, 1e-6)
    if exact:
        same = bool(np.array_equal(left, right))
    else:
        same = bool(np.allclose(right, left, relative, absolute, equal_nan=True))
    return None if same else "wrong numbers"
