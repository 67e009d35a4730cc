"""Build ONNX graphs, with shapes from ONNX's shape inference and weights from a seed."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.moments import STANDARD, Moments, contract, propagate

OPSET = 20
IR_VERSION = 10

Attribute = int | float | str | Sequence[int] | Sequence[float] | onnx.TensorProto


@dataclass(frozen=True)
class Value:
    """A tensor of the graph under construction: name, type, and estimated mean and variance."""

    name: str
    type: onnx.TypeProto
    moments: Moments = STANDARD

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape of the tensor."""
        return tuple(int(dim.dim_value) for dim in self.type.tensor_type.shape.dim)

    @property
    def elem_type(self) -> int:
        """The element type, a number of the enumeration ``onnx.TensorProto.DataType``."""
        return int(self.type.tensor_type.elem_type)


class GraphBuilder:
    """Collects nodes, initializers, inputs and outputs, and makes a model of them."""

    def __init__(self, name: str, seed: int = 0, opset: int = OPSET) -> None:
        """Begin an empty graph ``name``; all its random numbers depend on the seed."""
        self.rng = np.random.default_rng(seed)
        self._name = name
        self._opset = opset
        self._scopes: list[str] = []
        self._counts: dict[str, int] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._output_names: dict[str, str] = {}
        self._initializers: dict[str, onnx.TensorProto] = {}

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Prefix the names of everything built in the context with ``name`` and a slash."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def _unique(self, stem: str) -> str:
        path = "/".join([*self._scopes, stem])
        number = self._counts.get(path, 0)
        self._counts[path] = number + 1
        return path if number == 0 else f"{path}_{number}"

    def input(
        self,
        name: str,
        shape: Sequence[int],
        elem_type: int = TensorProto.FLOAT,
        moments: Moments = STANDARD,
    ) -> Value:
        """Declare an input ``name`` of the model, and return its value.

        ``moments`` are the assumed mean and variance of its elements.
        """
        self._inputs.append(helper.make_tensor_value_info(name, elem_type, list(shape)))
        return Value(name, self._inputs[-1].type, moments)

    def constant(self, array: npt.NDArray[np.generic], stem: str = "constant") -> Value:
        """Add an initializer with the elements of ``array``, and return its value.

        The initializer's name is the prefix of the scope, ``stem``, and a number if the name would
        otherwise not be unique.
        """
        name = self._unique(stem)
        tensor = numpy_helper.from_array(np.ascontiguousarray(array), name)
        self._initializers[name] = tensor
        moments = STANDARD
        if array.dtype == np.float32:
            moments = Moments(float(array.mean()), float(array.var()))
        type_proto = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        return Value(name, type_proto, moments)

    def integers(self, *values: int) -> Value:
        """Add a one-dimensional int64 initializer, such as a shape, and return its value."""
        return self.constant(np.array(values, np.int64), "integers")

    def ops(
        self, op_type: str, *inputs: Value | None, num_outputs: int, **attributes: Attribute
    ) -> list[Value]:
        """Add a node of ``op_type`` with ``num_outputs`` outputs, and return the outputs.

        In ``inputs``, None stands for an omitted optional input.
        """
        name = self._unique(op_type)
        names = [name] if num_outputs == 1 else [f"{name}:{i}" for i in range(num_outputs)]
        operands = [value.name if value else "" for value in inputs]
        if op_type == "Split" and len(inputs) == 1:
            attributes["num_outputs"] = num_outputs
        node = helper.make_node(op_type, operands, names, name=name)
        node.attribute.extend(
            helper.make_attribute(key, value) for key, value in attributes.items()
        )
        types = self._infer(node, [value for value in inputs if value])
        moments = _moments(node, [value for value in inputs if value])
        self._nodes.append(node)
        return [Value(output, types[output], moments) for output in names]

    def op(self, op_type: str, *inputs: Value | None, **attributes: Attribute) -> Value:
        """Add a node of ``op_type`` with a single output, and return the output."""
        return self.ops(op_type, *inputs, num_outputs=1, **attributes)[0]

    def _infer(self, node: onnx.NodeProto, inputs: Sequence[Value]) -> dict[str, onnx.TypeProto]:
        small = {
            value.name: self._initializers[value.name]
            for value in inputs
            if value.name in self._initializers and math.prod(value.shape) <= 64
        }
        return onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, self._opset, ""),
            node,
            {value.name: value.type for value in inputs},
            small,
            opset_imports=[helper.make_opsetid("", self._opset)],
            ir_version=IR_VERSION,
        )

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        groups: int = 1,
        pads: Sequence[int] | None = None,
        with_bias: bool = False,
    ) -> Value:
        """Add a 2-D convolution of x [N, C, H, W] to ``channels`` channels; return its result.

        Args:
            x: the operand.
            channels: number of output channels.
            kernel: (height, width), or one number for both.
            stride: stride in both dimensions.
            groups: number of groups.
            pads: padding at the top, left, bottom and right. The default keeps the size of x for
                odd kernels at stride 1.
            with_bias: whether to add a random bias per output channel.
        """
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        shape = [channels, x.shape[1] // groups, height, width]
        weight = self.constant(weights.filters(self.rng, shape, x.moments), "weight")
        operands = [x, weight]
        if with_bias:
            operands.append(self.constant(weights.bias(self.rng, channels), "bias"))
        return self.op(
            "Conv",
            *operands,
            kernel_shape=[height, width],
            strides=[stride, stride],
            pads=list(pads) if pads is not None else [height // 2, width // 2] * 2,
            group=groups,
        )

    def batch_norm(self, x: Value, gain: float = 1.0) -> Value:
        """Add an inference-time batch normalization over dimension 1; return the result.

        The normalization's random scale and bias are multiplied by ``gain``.
        """
        channels = x.shape[1]
        mean, variance = weights.statistics(self.rng, channels, x.moments)
        found = self.op(
            "BatchNormalization",
            x,
            self.constant(weights.scale(self.rng, channels) * np.float32(gain), "scale"),
            self.constant(weights.bias(self.rng, channels) * np.float32(gain), "bias"),
            self.constant(mean, "mean"),
            self.constant(variance, "variance"),
        )
        return replace(found, moments=Moments(0.0, gain**2))

    def linear(self, x: Value, features: int) -> Value:
        """Add and return ``x @ W + b`` as MatMul and Add, where W has ``features`` columns."""
        shape = [features, x.shape[-1]]
        weight = weights.filters(self.rng, shape, x.moments).T
        product = self.op("MatMul", x, self.constant(weight, "weight"))
        return self.op("Add", product, self.constant(weights.bias(self.rng, features), "bias"))

    def gemm(self, x: Value, features: int) -> Value:
        """Add a fully connected layer on x [N, K] as Gemm; return its result [N, features]."""
        shape = [features, x.shape[1]]
        weight = self.constant(weights.filters(self.rng, shape, x.moments), "weight")
        return self.op(
            "Gemm", x, weight, self.constant(weights.bias(self.rng, features), "bias"), transB=1
        )

    def layer_norm(self, x: Value) -> Value:
        """Add and return a layer normalization over the last dimension."""
        features = x.shape[-1]
        scale = self.constant(weights.scale(self.rng, features), "scale")
        bias = self.constant(weights.bias(self.rng, features), "bias")
        return self.op("LayerNormalization", x, scale, bias, axis=-1)

    def reshape(self, x: Value, *shape: int) -> Value:
        """Add and return a reshape of x; one dimension may be -1."""
        return self.op("Reshape", x, self.integers(*shape))

    def output(self, value: Value, name: str) -> None:
        """Declare a node's result as an output of the model, with the output name ``name``.

        Call this method at most once for a value.
        """
        self._output_names[value.name] = name
        info = helper.make_tensor_value_info(name, value.elem_type, list(value.shape))
        self._outputs.append(info)

    def finish(self) -> onnx.ModelProto:
        """Return the model with all nodes, inputs and outputs so far."""
        for node in self._nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    names[i] = self._output_names.get(name, name)
        graph = helper.make_graph(
            self._nodes,
            self._name,
            self._inputs,
            self._outputs,
            list(self._initializers.values()),
        )
        opsets = [helper.make_opsetid("", self._opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name = "rammer-mlir"
        return model


def _moments(node: onnx.NodeProto, inputs: Sequence[Value]) -> Moments:
    moments = [value.moments for value in inputs]
    match node.op_type:
        case "Conv":
            shape = inputs[1].shape
            centered = weights.is_centered(shape)
            return contract(moments[0], moments[1], math.prod(shape[1:]), centered=centered)
        case "MatMul" | "Gemm":
            return contract(moments[0], moments[1], inputs[0].shape[-1], centered=True)
        case _:
            return propagate(node.op_type, moments)
