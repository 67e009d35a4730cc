"""Helpers of tests of code generators: results in double precision, and lists of rKernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from rammer_mlir.codegens import Region, RegionCode
from rammer_mlir.codegens.onednn.codegen import OneDnn
from rammer_mlir.programs.records import RunRecord
from rammer_mlir.runtime.executable import Executable

Arrays = Mapping[str, NDArray[Any]]


def exact(model: onnx.ModelProto, feeds: Arrays) -> dict[str, NDArray[Any]]:
    """Return a model's outputs by name, computed in double precision by ONNX's evaluator.

    Of the evaluator's functions, only the error function rounds to single precision.
    """
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in _tensors(wide.graph):
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for each in (each for node in wide.graph.node for each in node.attribute):
        if each.name == "to" and each.i == TensorProto.FLOAT:
            each.i = TensorProto.DOUBLE
    for value in (*wide.graph.input, *wide.graph.value_info, *wide.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    names = [output.name for output in model.graph.output]
    found: Any = ReferenceEvaluator(wide).run(names, {n: _wide(v) for n, v in feeds.items()})
    results = dict(zip(names, map(np.asarray, found), strict=True))
    assert all(value.dtype == np.float64 for value in results.values()), "nothing is narrowed"
    return results


def _tensors(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Return the constants of a graph."""
    constants = [node for node in graph.node if node.op_type == "Constant"]
    values = [each.t for node in constants for each in node.attribute if each.name == "value"]
    return [*graph.initializer, *values]


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def count_converted_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives, for each region of oneDNN, the bytes copied between layouts."""
    counts: list[int] = []
    generate: Callable[[OneDnn, Region], RegionCode | None] = OneDnn.generate

    def spied(self: OneDnn, region: Region) -> RegionCode | None:
        counts.append(self.converted_bytes(region))
        return generate(self, region)

    monkeypatch.setattr(OneDnn, "generate", spied)
    return counts


def host_kernels(exe: Executable) -> list[str]:
    """Return the rKernel's name of each rOperator that foreign code does not compute."""
    program, names = exe.image.program, exe.image.module_names
    return [
        program.kernels[operator.kernel].name
        for operator in program.operators
        if operator.kernel not in names
    ]


def veus_with_modules(exe: Executable) -> int:
    """Return the number of vEUs that run foreign code."""
    program, names = exe.image.program, exe.image.module_names
    runs = [
        [record for record in records if isinstance(record, RunRecord)]
        for records in exe.image.launch.veus
    ]
    return sum(any(program.operators[r.operator].kernel in names for r in each) for each in runs)
