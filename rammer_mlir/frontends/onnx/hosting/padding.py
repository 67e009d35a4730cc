"""Determines whether a part (a subgraph to compile) stays correct if its inputs are padded.

A program for padded inputs serves several sizes of the open dimensions. Every open dimension of an
input is tracked through the part. A row has the elements at one index of an open dimension. Each
node with an open dimension in an operand must compute the rows of this dimension independently,
according to a table of rules. If any node does not, the part is compiled for each size separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from rammer_mlir.errors import RammerError
from rammer_mlir.evaluators.operation import NotFoldableError, Operation
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.folding.attributes import attributes_of
from rammer_mlir.frontends.onnx.folding.types import TensorKind, graph_types, infer_node
from rammer_mlir.frontends.onnx.hosting.bounds import SizeBounds
from rammer_mlir.frontends.onnx.hosting.padded_content import CONTENT_RULES
from rammer_mlir.frontends.onnx.hosting.padded_node import Dims, PaddedNode
from rammer_mlir.frontends.onnx.hosting.padded_operators import SHAPE_RULES
from rammer_mlir.frontends.onnx.hosting.padded_values import (
    Demands,
    DependentRowsError,
    Dim,
    Padded,
    PartValue,
    stand_in_content,
    standing_in,
)
from rammer_mlir.frontends.onnx.hosting.parts import Part
from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.open_inputs import open_signature
from rammer_mlir.frontends.onnx.shapes import infer_shapes
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, label, opset
from rammer_mlir.frontends.onnx.traversal import subgraphs
from rammer_mlir.programs.padding import PaddedInput, PaddedOutput, Padding

_MOVING = (
    *("Cast", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "Identity", "Reshape"),
    *("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
)
"""Operators whose results consist of elements of their operands."""

_DIRECT = ("Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that return all elements of their first operand, in order, possibly repeated."""

_INDICES = ("Gather", "GatherElements")
_CHOICES = ("Where",)


@dataclass(frozen=True)
class PaddingResult:
    """The result of the analysis that decides how the inputs of a part are padded.

    Attributes:
        padding: the open axes of inputs to pad and of outputs to cut; None if the part is not
            padded.
        obstacle: the node or other reason that prevents padding, as text for messages; empty if
            nothing prevents padding.
    """

    padding: Padding | None
    obstacle: str = ""


def padding_of(part: Part, bounds: SizeBounds | None = None) -> PaddingResult:
    """Return the padding of a part's open dimensions, or the obstacle to padding.

    Args:
        part: a part of a model.
        bounds: upper bounds of the sizes of the model's values, which limit the padded sizes; None
            for no limit.
    """
    signature = open_signature(part.model)
    if part.shape_values:
        return PaddingResult(None, f"the value of '{part.shape_values[0]}'")
    if signature.unranked or not all(tensor.is_tensor for tensor in signature.inputs):
        return PaddingResult(None, "an input of unknown rank")
    verdict = _Analysis(part.model).run()
    if verdict.padding is None or bounds is None:
        return verdict
    return replace(verdict, padding=replace(verdict.padding, most=_most(verdict.padding, bounds)))


def _most(padding: Padding, bounds: SizeBounds) -> int | None:
    """Return an upper bound of the sizes of all padded axes of inputs; None if it is unknown.

    A group has all axes of inputs that must have the same size. The bound of a group is the least
    bound of its axes, and the result is the greatest bound of any group.
    """
    found: dict[int, list[int]] = {}
    for each in padding.inputs:
        sizes = bounds.of(each.name) or ()
        for axis, group in each.axes:
            size = sizes[axis] if axis < len(sizes) else None
            found.setdefault(group, []).extend([] if size is None else [size])
    return max(map(min, found.values())) if all(found.values()) else None


class _Analysis:
    """The analysis of a part: visits nodes in order, and tracks open dimensions through them."""

    def __init__(self, model: Model) -> None:
        self._model, self._opset = model, opset(model.proto)
        self._values = {n: PartValue.of_constant(v) for n, v in model.constants().items()}
        self._demands = Demands()
        self._opened: list[str] = []
        self._static: dict[str, TensorKind] = {}

    def run(self) -> PaddingResult:
        """Visit all nodes in order; return how inputs are padded, or the obstacle to padding."""
        try:
            self._static = graph_types(infer_shapes(self._model.proto).graph)
        except RammerError:
            return PaddingResult(None, "shapes that contradict each other")
        self._take_inputs()
        for node in self._model.graph.node:
            try:
                self._visit(node)
            except (DependentRowsError, IndexError, ValueError, LookupError, TypeError):
                return PaddingResult(None, label(node))
        try:
            return PaddingResult(self._padding())
        except DependentRowsError:
            return PaddingResult(None, "an output, or padding that nodes ask different things of")

    def _take_inputs(self) -> None:
        symbols: dict[str, int] = {}
        for value, tensor in zip(
            self._model.inputs, open_signature(self._model).inputs, strict=True
        ):
            dims: list[Dim] = []
            for dim in tensor.shape or ():
                known = isinstance(dim, int)
                dims.append(dim if known else Padded(symbols.setdefault(dim, len(symbols))))
            self._values[tensor.name] = PartValue(
                tuple(dims),
                value.type.tensor_type.elem_type,
                sources=frozenset({tensor.name}),
                direct=tensor.name,
            )

    def _visit(self, node: onnx.NodeProto) -> None:
        if node.domain not in ONNX_DOMAINS or any(True for _ in subgraphs(node)):
            raise DependentRowsError
        operands = [self._values[name] if name else None for name in node.input]
        if all(value is None or value.is_static for value in operands):
            results = self._constants(node, operands) or self._unpadded(node)
        else:
            results = self._padded(node, operands)
        self._values.update(zip(node.output, results, strict=False))

    def _constants(
        self, node: onnx.NodeProto, operands: Sequence[PartValue | None]
    ) -> list[PartValue]:
        """Return the results of a node, if its operands and results are small constants.

        Else returns an empty list. ``operands`` has the facts about the node's operands; None for
        omitted operands.
        """
        arrays = [None if value is None else value.constant for value in operands]
        if node.op_type not in EVALUATORS or any(
            value is not None and (array is None or array.size > LARGE)
            for value, array in zip(operands, arrays, strict=True)
        ):
            return []
        sizes = [self._static.get(name, TensorKind(0, None)).size for name in node.output if name]
        if any(size is None or size > LARGE for size in sizes):
            return []
        operation = Operation(node.op_type, attributes_of(node), arrays, len(node.output))
        try:
            with np.errstate(all="ignore"):
                return [PartValue.of_constant(v) for v in EVALUATORS[node.op_type](operation)]
        except (NotFoldableError, ArithmeticError):
            return []

    def _unpadded(self, node: onnx.NodeProto) -> list[PartValue]:
        """Return facts about the results of a node that depends on no open dimension.

        Raises DependentRowsError if the shape of a result is unknown.
        """
        found: list[PartValue] = []
        kinds = self._inferred(node)
        for name in node.output:
            kind = kinds.get(name) or self._static.get(name)
            if name and (kind is None or kind.shape is None):
                raise DependentRowsError
            shape = () if kind is None or kind.shape is None else kind.shape
            found.append(PartValue(shape, 0 if kind is None else kind.elem_type))
        return self._with_origin(node, found)

    def _padded(
        self, node: onnx.NodeProto, operands: Sequence[PartValue | None]
    ) -> list[PartValue]:
        """Return facts about the results of a node that depends on open dimensions.

        ``operands`` has the facts about the node's operands; None for omitted operands.

        Raises:
            DependentRowsError: if the node does not compute each index of an open dimension
                independently, or no rule proves that it does.
        """
        kinds = self._inferred(node)
        inferred = [kinds.get(name) for name in node.output if name]
        sizes = [kind.shape for kind in inferred if kind is not None and kind.shape is not None]
        if len(sizes) < len(node.output):
            raise DependentRowsError
        given = PaddedNode(node.op_type, attributes_of(node), operands, sizes, self._demands)
        content = self._content(given)
        shapes = list(sizes) if content is not None else SHAPE_RULES[node.op_type](given)
        # The rules and ONNX's inference must agree for the substituted size.
        if [standing_in(shape) for shape in shapes] != [tuple(size) for size in sizes]:
            raise DependentRowsError
        types = [kind.elem_type for kind in inferred if kind is not None]
        results = [PartValue(s, t) for s, t in zip(shapes, types, strict=True)]
        if content is None:
            return self._with_origin(node, results)
        sized = replace(results[0], content=content)
        array = None if sized.is_sized else stand_in_content(sized)
        return [sized if array is None else PartValue.of_constant(array)]

    @staticmethod
    def _content(node: PaddedNode) -> tuple[Dim, ...] | None:
        """Return the elements of a node's result if they are computed from shapes, else None.

        Raises:
            DependentRowsError: if the elements depend on open sizes, and no rule computes them.
        """
        is_shape = node.kind in ("Shape", "Size")
        followed = node.operands[1:] if node.kind == "Where" else node.operands
        is_sized = any(value is not None and value.is_sized for value in node.operands)
        is_target = node.kind in ("Reshape", "Expand", "Slice") and node.operand(0).content is None
        if node.kind in ("ConstantOfShape", "Range") or is_target:
            return None
        if not is_shape and not is_sized:
            return None
        if node.kind not in CONTENT_RULES or any(
            value is not None and value.is_padded for value in followed if not is_shape
        ):
            raise DependentRowsError
        kind = onnx.helper.tensor_dtype_to_np_dtype(node.operand(0).elem_type)
        target = node.attribute("to")
        if (not is_shape and kind.kind not in "iub") or (target is not None and target.kind != "i"):
            raise DependentRowsError
        return CONTENT_RULES[node.kind](node)

    def _inferred(self, node: onnx.NodeProto) -> dict[str, TensorKind]:
        """Return the types of a node's results, by name, as if open dimensions were static.

        ONNX's shape inference runs as if all open dimensions of the inputs had the size
        ``STAND_IN``.
        """
        values = {name: self._values[name] for name in node.input if name}
        types = {n: TensorKind(v.elem_type, standing_in(v.shape)) for n, v in values.items()}
        found = {n: stand_in_content(v) for n, v in values.items()}
        arrays: dict[str, Array] = {n: v for n, v in found.items() if v is not None}
        return infer_node(node, self._opset, types, arrays)

    def _with_origin(self, node: onnx.NodeProto, results: list[PartValue]) -> list[PartValue]:
        """Return ``results``, the facts about a node's results, with ``sources`` and ``direct``.

        ``sources`` names the part's inputs from which the elements are copied; ``direct`` names the
        single input that has the same elements in the same order. If the node computes elements
        instead of moving them, ``results`` are returned unchanged.
        """
        if node.op_type == "ConstantOfShape":
            return [replace(value, sources=frozenset({""})) for value in results]
        if node.op_type not in _MOVING:
            return results
        names = list(node.input)
        # Where selects by its first operand, which contributes no elements.
        if node.op_type in _CHOICES:
            del names[0]
        # The other operands are shapes, axes or indices.
        elif node.op_type != "Concat":
            del names[1:]
        origins = [self._values[name].sources for name in names if name]
        known = [origin for origin in origins if origin is not None]
        if len(known) < len(origins):
            return results
        direct = self._values[names[0]].direct if node.op_type in _DIRECT else ""
        sources = frozenset[str]().union(*known)
        return [replace(value, sources=sources, direct=direct) for value in results]

    def _padding(self) -> Padding:
        """Return the padding of inputs, and the open axes of outputs from which padding is cut off.

        Raises:
            DependentRowsError: if requirements conflict, an element of an output is the size of an
                open dimension, or no input has an open axis.
        """
        demands = self._demands
        # The same padding cannot be both 0 and the last row's number.
        if demands.zeros & demands.lasts:
            raise DependentRowsError
        outputs: list[PaddedOutput] = []
        for value in (self._values[output.name] for output in self._model.graph.output):
            # Outputs are cut, but an output that is a size itself would have to be corrected.
            if value.is_sized:
                raise DependentRowsError
            outputs.append(PaddedOutput(tuple(self._cuts(value.shape))))
        inputs: list[PaddedInput] = []
        for value in self._model.inputs:
            axes = tuple((axis, group) for axis, group, _ in self._cuts(self._shape(value.name)))
            is_last, is_index = value.name in demands.lasts, value.name in demands.indices
            if axes or is_index:
                inputs.append(PaddedInput(value.name, axes, is_last, is_index))
        if not any(each.axes for each in inputs):
            raise DependentRowsError
        return Padding(tuple(inputs), tuple(outputs), bool(demands.lasts))

    def _shape(self, name: str) -> Dims:
        return self._values[name].shape

    def _cuts(self, shape: Dims) -> list[tuple[int, int, int]]:
        """Return a triple (axis, group, factor) for each open axis of a shape.

        A group is a set of open dimensions of the inputs that must have the same size; ``group`` is
        its index. The size of ``axis`` is ``factor`` times the size of the group's dimensions.
        """
        return [
            (axis, self._demands.leader(dim.symbol), dim.factor)
            for axis, dim in enumerate(shape)
            if isinstance(dim, Padded)
        ]
