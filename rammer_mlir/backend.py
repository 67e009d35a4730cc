"""Implements ONNX's backend interface (``onnx.backend.base``), for ONNX's test runner and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import rammer_mlir
from rammer_mlir.errors import InputError, OptionError, RammerError
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.feeds import by_position


class RammerRep(BackendRep):
    """A compiled model with the interface that ONNX's tools expect."""

    def __init__(self, executable: RunnableModel) -> None:
        self._executable = executable

    def run(self, inputs: object, **kwargs: object) -> tuple[Any, ...]:
        """Run the model and return its outputs, in the model's order.

        ``inputs`` is a sequence of arrays in the order of the model's inputs, a single array, or a
        mapping of arrays by input name. ``kwargs`` are ignored.

        Raises:
            InputError: if the arrays do not match the model's signature.
        """
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            given = list(inputs) if isinstance(inputs, Sequence) else [inputs]
            feeds = by_position(self._executable.input_names, given)
        # Lists are sequences, and None is an absent optional value.
        arrays = {
            name: value if value is None or isinstance(value, list) else np.asarray(value)
            for name, value in feeds.items()
        }
        outputs = self._executable.run(arrays)
        return tuple(outputs.values())


class RammerBackend(Backend):
    """Compiles ONNX models for this machine's CPU."""

    # Any: options are those of ``rammer_mlir.compile``, by name, and checked there.

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether the model can be compiled for ``device`` with the options ``kwargs``."""
        try:
            cls.prepare(model, device, **kwargs)
        except RammerError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> RammerRep:
        """Compile the model with the options ``kwargs`` of ``rammer_mlir.compile``, and return it.

        Raises:
            RammerError: if the model cannot be compiled, or the device is not a CPU.
        """
        if not cls.supports_device(device):
            raise OptionError(f"device '{device}': expected CPU, found another; choose it")
        return RammerRep(rammer_mlir.compile(model, **kwargs))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: object,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[np.generic], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile and run a node on this machine's CPU, and return the node's outputs.

        Args:
            node: a node of any supported operator.
            inputs: the arrays of the node's distinct input tensors, in order; absent inputs have no
                array. If there is only one array, it may be given without a sequence.
            device: ``CPU`` or ``CPU:0``.
            outputs_info: dtype and shape of each output in order, if ONNX cannot infer them.
            kwargs: ``opset_version``, by default ONNX's newest, and options of ``compile``.

        Raises:
            RammerError: if the node cannot be compiled, or the arrays do not match its inputs.
        """
        given = inputs if isinstance(inputs, Sequence) else [inputs]
        arrays = [np.asarray(value) for value in given]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        model = _model_of(node, arrays, outputs_info or (), version)
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether ``device`` is ``CPU`` or ``CPU:0``, the only supported devices."""
        return device in ("CPU", "CPU:0")


def _model_of(
    node: onnx.NodeProto,
    arrays: Sequence[Array],
    outputs_info: Sequence[tuple[np.dtype[np.generic], tuple[int, ...]]],
    version: int,
) -> onnx.ModelProto:
    """Return a model that consists of a single node.

    Args:
        node: the node.
        arrays: the arrays of the node's distinct input tensors, in order; absent inputs have no
            array. Each array gives its input's dtype and shape.
        outputs_info: dtype and shape of the node's first outputs; may be empty.
        version: opset of ONNX's default domain.

    Raises:
        InputError: if the number of arrays is wrong.
    """
    names = [name for name in dict.fromkeys(node.input) if name]
    if len(arrays) != len(names):
        raise InputError(f"'{node.op_type}': expected {len(names)} inputs, found {len(arrays)}")
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    for value, (dtype, shape) in zip(outputs, outputs_info, strict=False):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    graph = helper.make_graph([node], "node", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


is_compatible = RammerBackend.is_compatible
prepare = RammerBackend.prepare
run = RammerBackend.run_model
run_model = RammerBackend.run_model
run_node = RammerBackend.run_node
supports_device = RammerBackend.supports_device
