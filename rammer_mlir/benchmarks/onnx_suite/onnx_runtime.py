"""ONNX Runtime on the suite's inputs, also of element types that NumPy has from ml_dtypes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper

Run = Callable[[Sequence[object]], Sequence[object]]
"""From inputs by position to outputs by position."""

_NEWEST_IR = 13
"""The newest version of the file format that it reads; the tests' newer one says nothing else."""


def prepare(model: onnx.ModelProto) -> Run:
    """Open a session for a model and return what runs it."""
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
        given = dict(zip([value.name for value in session.get_inputs()], inputs, strict=True))
        if not any(map(_is_extension, inputs)) and not any(map(_is_extension_kind, kinds)):
            return session.run(None, given)
        values = {name: _value(array) for name, array in given.items()}
        outputs = session.run_with_ort_values(None, values)
        return [_array(value, kind) for value, kind in zip(outputs, kinds, strict=True)]

    return run


def _is_extension(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "V"


def _is_extension_kind(kind: int) -> bool:
    return kind != 0 and np.dtype(helper.tensor_dtype_to_np_dtype(kind)).kind == "V"


def _value(array: object) -> onnxruntime.OrtValue:
    assert isinstance(array, np.ndarray)
    if not _is_extension(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)


def _array(value: onnxruntime.OrtValue, kind: int) -> object:
    """Return a result's array; ONNX Runtime has none for bfloat16, and bytes for float8."""
    if not _is_extension_kind(kind):
        return value.numpy()
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    size = int(np.prod(value.shape())) * dtype.itemsize
    content = ctypes.string_at(value.data_ptr(), size)
    return np.frombuffer(content, dtype).reshape(value.shape())
