"""Writes an ONNX model of open dimensions, whose weight stands in a file in a folder.

Usage: external_model.py MODEL FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

model, folder = map(Path, sys.argv[1:])
weight = onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
folder.mkdir(parents=True, exist_ok=True)
(folder / "weights.bin").write_bytes(weight.raw_data)
set_external_data(weight, "weights.bin")
weight.ClearField("raw_data")
x, y = (
    helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", 4]) for name in "xy"
)
graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
opset = helper.make_opsetid("", 21)
model.write_bytes(
    helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString()
)
