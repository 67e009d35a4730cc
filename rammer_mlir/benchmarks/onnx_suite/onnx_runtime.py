"""Run models of ONNX's backend tests in ONNX Runtime, also with element types of ml_dtypes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.tensors import num_bytes

Run = Callable[[Sequence[object]], Sequence[object]]
"""A function that maps inputs by position to outputs by position."""

_NEWEST_IR = 13
"""The newest IR version that ONNX Runtime reads.

The tests' newer version adds nothing that the tests use.
"""


def prepare(model: onnx.ModelProto) -> Run:
    """Open a session for a model, and return a function that runs it.

    The function takes the inputs, and returns the outputs, in the order in which the model declares
    them.
    """
    os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"  # the tests use the newest opset
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.ir_version = min(model.ir_version, _NEWEST_IR)
    session = onnxruntime.InferenceSession(
        copy.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    kinds = [value.type.tensor_type.elem_type for value in model.graph.output]

    def run(inputs: Sequence[object]) -> Sequence[object]:
        names = [value.name for value in session.get_inputs()]
        given = {n: _array_of(value) for n, value in zip(names, inputs, strict=True)}
        if not any(map(_is_extension, given.values())) and not any(map(_is_extension_kind, kinds)):
            return session.run(None, given)
        values = {name: _value(array) for name, array in given.items()}
        outputs = session.run_with_ort_values(None, values)
        return [_array(value, kind) for value, kind in zip(outputs, kinds, strict=True)]

    return run


def _array_of(value: object) -> object:
    """Return ``value`` as an array if it is a NumPy scalar, else unchanged.

    ONNX Runtime rejects NumPy scalars.
    """
    return np.asarray(value) if isinstance(value, np.generic) else value


def _is_extension(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind != "O" and value.dtype.isbuiltin != 1


def _is_extension_kind(kind: int) -> bool:
    if kind in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return False
    return np.dtype(helper.tensor_dtype_to_np_dtype(kind)).isbuiltin != 1


def _value(array: object) -> onnxruntime.OrtValue:
    """Return an array as ONNX Runtime's ``OrtValue``; two 4-bit elements share a byte."""
    assert isinstance(array, np.ndarray)
    if not _is_extension(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    tensor = numpy_helper.from_array(array)
    shape: list[int] = list(array.shape)
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def _array(value: onnxruntime.OrtValue, kind: int) -> object:
    if not _is_extension_kind(kind):
        return value.numpy()
    tensor = onnx.TensorProto(dims=value.shape(), data_type=kind)
    tensor.raw_data = ctypes.string_at(value.data_ptr(), num_bytes(tensor))
    return numpy_helper.to_array(tensor)
