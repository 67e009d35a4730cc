"""Replaces Loop nodes by Scan nodes, and replaces sequences to which Loops append by tensors.

The rewriting is part of constant folding, when constants and shapes are known.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from rammer_mlir.frontends.onnx.control_flow import is_unrolled
from rammer_mlir.frontends.onnx.folding.evaluate import evaluate_constants
from rammer_mlir.frontends.onnx.folding.types import TensorKind, Types
from rammer_mlir.frontends.onnx.loops.bodies import Surroundings, body_of
from rammer_mlir.frontends.onnx.loops.counted import write_scan
from rammer_mlir.frontends.onnx.loops.normal_form import known_steps, normal_form
from rammer_mlir.frontends.onnx.loops.sequences import Stacked, join, split, stack_appended
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, opset
from rammer_mlir.frontends.onnx.well_formed import naming

Results = Mapping[str, TensorKind]


def rewrite_loops(model: Model) -> bool:
    """Rewrite a model's Loops, in place; return whether a node was rewritten.

    A Loop becomes a Scan, and a sequence to which a Loop appends becomes a tensor, if that is
    possible. A Loop that is small enough to be unrolled later stays a Loop. The model's constants
    must be folded, and its shapes inferred.
    """
    if all(node.op_type != "Loop" for node in model.graph.node):
        return False
    rewriter = _LoopRewriter(model)
    evaluate_constants(model, rewriter)
    return rewriter.is_changed


class _LoopRewriter:
    """Rewrites the Loops of a model; a Loop that is small enough to be unrolled later stays a Loop.

    If a tensor replaces a sequence that a Loop returns, a ConcatFromSequence that reads the
    sequence is rewritten too. ``evaluate_constants`` calls the rewriter for each node.
    """

    def __init__(self, model: Model) -> None:
        """Store ``model``, to which new constants are added."""
        self._model = model
        self._opset = opset(model.proto)
        self._empty = {
            node.output[0] for node in model.graph.node if node.op_type == "SequenceEmpty"
        }
        self._stacks: dict[str, Stacked] = {}
        self.is_changed = False

    def __call__(
        self, node: onnx.NodeProto, values: Mapping[str, Array], types: Types
    ) -> tuple[list[onnx.NodeProto], Results] | None:
        """Return the nodes that replace ``node``, and the types of their results by name.

        Return None if ``node`` stays as it is. ``values`` are the known constants and ``types`` the
        known types, both by name.
        """
        if node.domain not in ONNX_DOMAINS:
            return None
        if node.op_type == "ConcatFromSequence" and node.input[0] in self._stacks:
            return self._join(node, types)
        if node.op_type != "Loop":
            return None
        with naming(node):
            return self._loop(node, Surroundings(values, types, self._opset))

    def _loop(
        self, node: onnx.NodeProto, around: Surroundings
    ) -> tuple[list[onnx.NodeProto], Results] | None:
        normal = normal_form(node, around, self._model)
        if normal is not None:
            # The next sweep rewrites this loop again, with the types of the values it captures.
            self.is_changed = True
            return normal, {}
        steps = known_steps(node, around.values)
        if steps is not None and is_unrolled(body_of(node), steps, around.values):
            return None
        found = stack_appended(node, around, self._empty)
        loop, stacks = found or (node, {})
        write = NodeWriter(self._model, node.name)
        types = {} if steps is None else write_scan(loop, steps, around, write)
        if not types and found is None:
            return None
        self.is_changed = True
        if not types:
            write.nodes.append(loop)
        elif steps:
            self._stacks.update(stacks)
        write.nodes.extend(split(stack, sequence) for sequence, stack in stacks.items())
        return write.nodes, types

    def _join(self, node: onnx.NodeProto, types: Types) -> tuple[list[onnx.NodeProto], Results]:
        stack = self._stacks[node.input[0]]
        write = NodeWriter(self._model, node.name)
        return write.nodes, join(node, stack, types[stack.name], write)
