"""Build the nine "light" networks of the onnx package, with random weights from seeds.

The package ships the graphs of well-known networks, in which all elements of a weight are the same
constant. Here every weight is drawn at random. Its distribution depends on its role (such as
filter, bias or scale), and on the estimated mean and variance of the activations that it is applied
to. Everything else stays as published, including the opset of 2018. The small scale has smaller
images, and a quarter of the channels in all networks except ShuffleNet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from rammer_mlir.benchmarks.models import light_shapes, weights
from rammer_mlir.benchmarks.models.moments import STANDARD, Moments, propagate
from rammer_mlir.benchmarks.models.scale import Scale
from rammer_mlir.errors import ModelError

IR_VERSION = 8
"""IR version of the result; the files' version 3 requires every weight to be an input, too."""


@dataclass(frozen=True)
class Light:
    """A light network: its file name in the onnx package, and its sizes at the small scale.

    ``small_image`` is the height and width of the image, ``small_divisor`` the divisor of all
    numbers of channels.
    """

    stem: str
    small_image: int = 64
    small_divisor: int = 4
    """Divisor of every number of channels; 1 if reshapes in the graph fix them."""


def build(light: Light, batch: int, scale: Scale) -> onnx.ModelProto:
    """Load a light network with random weights; its input is an image [N, 3, 224, 224] f32.

    At the small scale, the image and the numbers of channels are smaller.
    """
    folder = Path(str(onnx.__file__)).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{light.stem}.onnx")
    shapes = _take_weights(model)
    image = 224
    if scale == "small":
        image = light.small_image
        light_shapes.divide_channels(shapes, light.small_divisor)
    light_shapes.fit(model, shapes, batch, image)
    model.graph.initializer.extend(_draw_all(model, shapes, seed=sum(light.stem.encode())))
    model.ir_version = IR_VERSION
    return model


def _take_weights(model: onnx.ModelProto) -> light_shapes.Shapes:
    """Remove all weights from the graph of ``model``, so that random weights can take their places.

    Return the shapes, by name, of the weights that nodes read. A weight is an f32 initializer, the
    result of a ConstantOfShape node, or a Reshape of a weight; such nodes are removed too.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {n: list(t.dims) for n, t in constants.items() if t.data_type == TensorProto.FLOAT}
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        shape = numpy_helper.to_array(constants[node.input[0]])
        shapes[node.output[0]] = [int(dim) for dim in shape]
        graph.node.remove(node)
    for node in [node for node in graph.node if node.op_type == "Reshape"]:
        if node.input[0] in shapes:
            shape = numpy_helper.to_array(constants[node.input[1]])
            shapes[node.output[0]] = [int(dim) for dim in shape]
            graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    inputs = [info for info in graph.input if info.name not in constants]
    kept = [tensor for name, tensor in constants.items() if name in used and name not in shapes]
    for field in (graph.input, graph.initializer, graph.value_info):
        del field[:]
    graph.input.extend(inputs)
    graph.initializer.extend(kept)
    return {name: shape for name, shape in shapes.items() if name in used}


def _draw_all(model: onnx.ModelProto, shapes: light_shapes.Shapes, seed: int) -> list[TensorProto]:
    """Return random weights with the names and shapes in ``shapes``, drawn from ``seed``.

    Each weight is drawn for the node of ``model`` that reads it first. The node decides the
    weight's role, such as filter, bias or scale. The weight is scaled for the estimated mean and
    variance of the node's first operand.
    """
    rng = np.random.default_rng(seed)
    moments: dict[str, Moments] = {model.graph.input[0].name: STANDARD}
    drawn: dict[str, weights.Floats] = {}
    unsqueezed = {
        node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Unsqueeze"
    }
    for node in model.graph.node:
        operands = [unsqueezed.get(name, name) for name in node.input]
        missing = [name for name in operands if name in shapes and name not in drawn]
        # Its operand is a weight, which is drawn for the node that reads the result.
        if node.op_type == "Unsqueeze":
            continue
        source = moments[operands[0]]
        for name, array in zip(missing, _draw(rng, node, missing, shapes, source), strict=True):
            drawn[name] = array
            moments[name] = Moments(float(array.mean()), float(array.var()))
        if node.op_type in ("Conv", "Gemm"):
            result = STANDARD  # the moments that its filters were drawn for
        else:
            result = propagate(node.op_type, [moments[n] for n in operands if n in moments])
        moments.update(dict.fromkeys(node.output, result))
    return [numpy_helper.from_array(array, name) for name, array in drawn.items()]


def _draw(
    rng: np.random.Generator,
    node: onnx.NodeProto,
    names: list[str],
    shapes: light_shapes.Shapes,
    source: Moments,
) -> list[weights.Floats]:
    match node.op_type, [shapes[name] for name in names]:
        case _, []:
            return []
        case "Conv" | "Gemm", [filters, *biases]:
            values = [weights.filters(rng, filters, source)]
            return values + [weights.bias(rng, length) for [length] in biases]
        case "BatchNormalization", [[length], *_]:
            mean, variance = weights.statistics(rng, length, source)
            return [weights.scale(rng, length), weights.bias(rng, length), mean, variance]
        case "Mul", [[length]]:
            return [weights.scale(rng, length)]
        case "Add", [[length]]:
            return [weights.bias(rng, length)]
        case op_type, found:
            raise ModelError(f"node '{node.name}' ({op_type}): no rule to draw weights {found}")


NETWORKS = {
    "light_alexnet": Light("bvlc_alexnet"),
    "light_densenet121": Light("densenet121"),
    "light_inception_v1": Light("inception_v1"),
    "light_inception_v2": Light("inception_v2"),
    "light_resnet50": Light("resnet50"),
    "light_shufflenet": Light("shufflenet", small_divisor=1),
    "light_squeezenet": Light("squeezenet"),
    "light_vgg19": Light("vgg19"),
    "light_zfnet512": Light("zfnet512", small_image=96),
}
"""All light networks of the package."""
