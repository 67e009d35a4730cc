"""Build the ONNX models of a kit: products of two inputs, and networks with weights from seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.benchmarks.gpu.kit.cases import Network, Product
from rammer_mlir.benchmarks.gpu.kit.seeds import Seeded, resembling
from rammer_mlir.benchmarks.gpu.kit.store import Array, Reference, Store, seeded
from rammer_mlir.benchmarks.models import build
from rammer_mlir.benchmarks.models.feeds import random_feeds
from rammer_mlir.frontends.onnx.affine import fold_affine
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.prepare import fold


@dataclass(frozen=True)
class SourceModel:
    """A model with its weights, and the seeds of those weights that a kit does not store.

    Attributes:
        model: the ONNX model.
        seeds: descriptions of the weights that are computed from seeds, by name.
    """

    model: onnx.ModelProto
    seeds: Mapping[str, Seeded]


def product_model(product: Product) -> onnx.ModelProto:
    """Return the model ``y = x @ w``, with x and w as inputs."""
    kind = TensorProto.FLOAT16 if product.precision == "f16" else TensorProto.FLOAT
    shapes = [product.rows, product.inner], [product.inner, product.columns]
    x, w = (helper.make_tensor_value_info(n, kind, s) for n, s in zip("xw", shapes, strict=True))
    y = helper.make_tensor_value_info("y", kind, [product.rows, product.columns])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [x, w], [y]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product_feeds(product: Product) -> dict[str, Reference]:
    """Return references to a product's inputs by name; the inputs are computed from seeds.

    The inputs are scaled so that the elements of the product have a variance of about 1.
    """
    dtype = "float16" if product.precision == "f16" else "float32"
    scale = (product.inner**-0.25,)
    return {
        "x": seeded(Seeded(1, (product.rows, product.inner), dtype, scale)),
        "w": seeded(Seeded(2, (product.inner, product.columns), dtype, scale)),
    }


def network_model(network: Network) -> SourceModel:
    """Return a benchmark model whose large weights are replaced by random weights from seeds.

    Batch norms are folded into convolutions first, so that the seeded weights are those that the
    program uses.
    """
    folded = fold(load(build(network.model, scale=network.scale)).copy()).model
    fold_affine(folded)
    return _reseeded(folded)


def _reseeded(model: Model) -> SourceModel:
    seeds: dict[str, Seeded] = {}
    arrays: dict[str, Array] = dict(model.weights)
    for number, (name, array) in enumerate(model.weights.items()):
        found = resembling(array, number + 1)
        if found is not None:
            seeds[name], arrays[name] = found, found.array()
    proto = onnx.ModelProto.FromString(model.proto.SerializeToString())
    inputs = [value for value in proto.graph.input if value.name not in arrays]
    kept = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in inputs]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return SourceModel(proto, seeds)


def network_feeds(model: onnx.ModelProto, store: Store) -> dict[str, Reference]:
    """Store a network's inputs, and return references to the inputs by name.

    Floating-point inputs are normally distributed; integer inputs are valid indices.
    """
    return {name: store.put(np.asarray(value)) for name, value in random_feeds(model, 1).items()}
