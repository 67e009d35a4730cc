"""Prepares ONNX models: makes shapes static, folds constants, expands unsupported operators."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
import onnx.version_converter

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.affine import fold_affine
from rammer_mlir.frontends.onnx.attribute_rules import check_attributes
from rammer_mlir.frontends.onnx.contrib.rewrite import require_rewritten, rewrite_contrib
from rammer_mlir.frontends.onnx.control_flow import expand_control_flow, has_control_flow
from rammer_mlir.frontends.onnx.conversion_exclusions import exclude_eye_like, restore_excluded
from rammer_mlir.frontends.onnx.declared_types import Declared, check_declared, take_declared
from rammer_mlir.frontends.onnx.dilated import decompose_dilated
from rammer_mlir.frontends.onnx.folding.evaluate import evaluate_constants
from rammer_mlir.frontends.onnx.folding.simplify import is_simple, simplify
from rammer_mlir.frontends.onnx.hosting.loop_shapes import infer_loops
from rammer_mlir.frontends.onnx.inline import has_inlined, inline_functions
from rammer_mlir.frontends.onnx.local_functions import inline_local_functions
from rammer_mlir.frontends.onnx.loops.rewriter import rewrite_loops
from rammer_mlir.frontends.onnx.loops.sinking import sink_into_scans
from rammer_mlir.frontends.onnx.model import Model, first_line
from rammer_mlir.frontends.onnx.node_names import name_nodes, separate_nodes
from rammer_mlir.frontends.onnx.node_rules import check_nodes
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.older_opsets import (
    allow_no_elements,
    keep_coordinates,
    keep_types,
    write_out_older,
)
from rammer_mlir.frontends.onnx.recurrent import decompose_recurrent
from rammer_mlir.frontends.onnx.recurrent_loops import repeat_long_layers
from rammer_mlir.frontends.onnx.refusals import (
    refuse_for_all_sizes,
    refuse_hosted,
    refuse_unsupported,
)
from rammer_mlir.frontends.onnx.rewrites import rewrite_nodes
from rammer_mlir.frontends.onnx.scan_batches import set_batches_aside
from rammer_mlir.frontends.onnx.shapes import (
    infer_shapes,
    open_nodes,
    require_sizes,
    require_static_values,
)
from rammer_mlir.frontends.onnx.tensors import ShapeTable, opset
from rammer_mlir.frontends.onnx.transposed import decompose_transposed
from rammer_mlir.frontends.onnx.weight_values import set_weights_aside
from rammer_mlir.support.log import log_progress

_OLDEST_OPSET, _NEW_OPSET = 13, 17
"""The oldest opset that needs no conversion; the opset to which older models are converted."""

_BROADCAST_OPSET = 7
"""The first opset with NumPy's broadcasting rules."""

_OPERAND_OPSET = 11
"""The first opset in which Resize has coordinate modes, and Clip and Pad have tensor operands."""

_MOST_ROUNDS = 64
"""Largest number of rounds of folding and shape inference; most models need two or three."""


@dataclass(frozen=True)
class Folded:
    """A model with folded constants, unrolled short loops and expanded cheap conditionals.

    Attributes:
        model: the folded model; all operators are supported by the compiler or the host.
        declared: types that the original model declares for its values.
        warned: names of values about whose declared shape a warning was issued; the same set as
            ``Model.warned`` of the original model.
    """

    model: Model
    declared: Declared
    warned: set[str]


def prepare(model: Model) -> Model:
    """Return a model from which IR can be emitted, so that a single static program runs the model.

    The inputs of ``model`` must have static shapes. Constants are folded, short loops and recurrent
    operators are unrolled.

    Raises:
        ModelError: if the model contradicts itself or cannot be converted.
        ShapeError: if a shape is not static.
        UnsupportedError: if operators cannot be compiled, or only the host can execute them.
    """
    folded = fold(model)
    refuse_hosted(folded.model)
    return finish(folded)


def fold(model: Model) -> Folded:
    """Fold a model's constants, and expand short loops and cheap conditionals; shapes may be open.

    Raises:
        ModelError: if the model contradicts itself or cannot be converted.
        UnsupportedError: if operators cannot be compiled.
    """
    log_progress("preparation", lambda: f"{len(model.graph.node)} nodes")
    declared, warned = take_declared(model.graph), model.warned
    inline_local_functions(model)
    check_attributes(model.graph)
    separate_nodes(model.graph)
    model = _upgrade(model)
    name_nodes(model.graph)
    model = _fold(model)
    # Refuse after folding, which removes nodes of branches that are never taken.
    refuse_unsupported(model)
    check_nodes(model)
    require_sizes(model.graph)
    model = _expand(model)
    for _ in range(_MOST_ROUNDS):
        # The trip count of a loop may follow from the shapes of another loop's results.
        if not rewrite_loops(model):
            break
        model = _expand(_fold(model))
    if sink_into_scans(model):
        model = _fold(model)
    return Folded(infer_loops(model, _fold), declared, warned)


def finish(folded: Folded) -> Model:
    """Return a model from which IR can be emitted, given a folded model.

    Recurrent layers, and dilated and transposed convolutions are decomposed. Batch norms, and
    operators such as Mul with a constant per channel, are folded into convolutions. Shapes are
    checked.

    Raises:
        RammerError: if the model contradicts itself, or a shape is not static.
    """
    model = folded.model
    require_rewritten(model.graph)
    decompose_recurrent(model)
    fold_affine(model)
    decompose_dilated(model)
    if decompose_transposed(model):
        model = _fold(model)
    model = _infer(model)
    check_nodes(model)
    require_static_values(model.graph)
    require_sizes(model.graph)
    check_declared(model.graph, folded.declared, folded.warned)
    set_weights_aside(model)
    return model


def refuse_size_independent_errors(model: Model) -> None:
    """Raise an error if a model cannot be compiled, whatever the sizes of its open dimensions are.

    The model is not modified.

    Raises:
        UnsupportedError: if operators cannot be compiled.
    """
    model = model.copy()
    inline_local_functions(model)
    refuse_for_all_sizes(model)


def _expand(model: Model) -> Model:
    """Return the model with short loops, cheap Ifs, and some other operators expanded.

    The other operators are those that ``inline_functions`` replaces by their ONNX definitions. In
    addition, recurrent layers with too many time steps to unroll are rewritten as Scans.
    """
    while True:
        if has_inlined(model):
            model = inline_functions(model)
        elif not repeat_long_layers(model) and not expand_control_flow(model):
            return model
        model = _fold(model)


def _upgrade(model: Model) -> Model:
    if opset(model.proto) >= _OLDEST_OPSET:
        return model
    # The converter changes or crashes on these operators, so they are handled before it.
    set_batches_aside(model)
    exclude_eye_like(model)
    write_out_older(model)
    try:
        newer = onnx.version_converter.convert_version(model.proto, _NEW_OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError) as error:
        raise ModelError(
            f"the model uses opset {opset(model.proto)}, which cannot be converted to "
            f"{_NEW_OPSET}: {first_line(error)}"
        ) from error
    allow_no_elements(newer)
    if opset(model.proto) < _OPERAND_OPSET:
        keep_coordinates(newer)
        keep_types(model.proto, newer)
    restore_excluded(newer)
    new = model.with_proto(newer)
    return _with_slopes_of_channels(new) if opset(model.proto) < _BROADCAST_OPSET else new


def _with_slopes_of_channels(model: Model) -> Model:
    """Return the model with the slopes of each PRelu reshaped to keep their meaning below opset 7.

    ``model`` was converted from an opset below 7. There, a vector of slopes has an element per
    channel. By the broadcasting rules of opset 7, it would have an element per index of the last
    dimension.
    """
    if all(node.op_type != "PRelu" for node in model.graph.node):
        return model
    table = ShapeTable(_infer(model).graph)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        shapes = [table.find_shape(name) for name in node.input] if node.op_type == "PRelu" else []
        data, slope = shapes or (None, None)
        if data is not None and slope is not None and len(slope) == 1 and len(data) > 2:
            write = NodeWriter(model, node.name or f"{node.output[0]}:slope")
            axes = write.integers(*range(1, len(data) - 1))
            node.input[1] = write.node("Unsqueeze", [node.input[1], axes])
            nodes.extend(write.nodes)
        nodes.append(node)
    model.set_nodes(nodes)
    return model


def _infer(model: Model) -> Model:
    return model.with_proto(infer_shapes(model.proto))


def _fold(model: Model) -> Model:
    """Return the model after constant folding, simplification and shape inference.

    These three steps are repeated until they find nothing to change.
    """
    model = _infer(model)
    before: tuple[int, int] | None = None
    for _ in range(_MOST_ROUNDS):
        is_rewritten = rewrite_contrib(model)
        if is_rewritten:
            model = _infer(model)
        is_rewritten |= rewrite_nodes(model)
        evaluated = evaluate_constants(model) or is_rewritten
        size = len(model.graph.node), len(open_nodes(model.graph))
        # A model is simplified at least once, even if there is nothing to fold.
        if before is not None and not evaluated and (size == before or size[1] == 0):
            break
        before, had_choices = size, has_control_flow(model)
        if not is_simple(model):
            model = simplify(model)
        if had_choices:
            # Fold the chosen branch first: inference refuses some constants that folding accepts.
            evaluate_constants(model)
        model = _infer(model)
    return model
