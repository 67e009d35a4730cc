"""`rtask-pad-channels`: pads activations to a multiple of 16 channels, the block size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.channels.padding import Padded, choose_paddings, rounded, runs_along
from rammer_mlir.passes.channels.propagation import Changes, Part
from rammer_mlir.passes.ir.constant_pad import pad_with_zeros
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.fills import filling
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.merged import WeightPart


@dataclass(frozen=True)
class PadChannels(Pass):
    """Pad the channels of activations to whole blocks; zero weights compute the added channels.

    `rtask-block-channels` can then store these activations in blocks too.
    """

    name: ClassVar[str] = "rtask-pad-channels"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Choose the values of the entry function to pad, and rewrite its operations."""
        weights = DerivedWeights(module)
        operations = list(entry_block(module).operations)
        padder = _Padder(choose_paddings(operations, weights), weights)
        for op in operations:
            padder.rewrite(op)
        padder.finish()
        weights.finish()


class _Padder:
    """Rewrites an MLIR block's operations so that chosen values have padding channels.

    Call ``rewrite`` for each operation in order, then ``finish``.
    """

    def __init__(self, paddings: Changes[Padded], weights: DerivedWeights) -> None:
        self._paddings = paddings
        self._weights = weights
        self._padded: dict[ir.Value, ir.Value] = {}
        self._done: list[ir.OpView] = []

    def rewrite(self, op: ir.OpView) -> None:
        """Emit a clone of ``op`` that reads padded operands and computes padded results.

        Do nothing if neither an operand nor a result of ``op`` is to be padded.
        """
        part = self._paddings.parts.get(op.operation)
        if part is None:
            return
        copy = op.operation.clone(ip=ir.InsertionPoint(op)).operation
        with ir.InsertionPoint(copy), op.operation.location:
            if is_generic(op):
                self._fill_in_operands(copy, Structured(op), part)
            else:
                for number, value in enumerate(op.operation.operands):
                    copy.operands[number] = self._padded_form(value)
                self._widen_slice(copy, part)
        for number, old in enumerate(op.operation.results):
            new = copy.results[number]
            if number in part.results:
                new.set_type(_padded_type(old.type, part.results[number]))
                self._padded[old] = new
            else:
                old.replace_all_uses_with(new)
        self._done.append(op)

    def finish(self) -> None:
        """Emit slices without padding channels for operations that still read the unpadded values.

        Then erase the original operations that padded clones replace.
        """
        for op in reversed(self._done):
            with ir.InsertionPoint(op), op.operation.location:
                for value in op.operation.results:
                    if value in self._padded and any(True for _ in value.uses):
                        padded = self._paddings.values[value]
                        plain = _own_channels(self._padded[value], value, padded)
                        value.replace_all_uses_with(plain)
            op.operation.erase()

    def _fill_in_operands(self, copy: ir.Operation, op: Structured, part: Part[Padded]) -> None:
        runs = runs_along(op, part.loops, self._paddings.values)
        assert runs is not None, "it would not take part"
        for position, (map_, value) in enumerate(
            zip(op.maps, op.op.operation.operands, strict=True)
        ):
            grown = _runs_of_dimensions(map_, runs)
            if value in self._paddings.values:
                copy.operands[position] = self._padded_form(value)
            elif any(grown) and position < len(op.inputs):
                copy.operands[position] = self._padded_weight(value, grown)
            elif any(grown):
                result = part.results[position - len(op.inputs)]
                copy.operands[position] = _fresh(value, _padded_type(value.type, result))

    def _padded_form(self, value: ir.Value) -> ir.Value:
        """Return ``value`` with padding channels.

        If a clone of an operation computes the padded value, return the clone's result; otherwise,
        emit a ``tensor.pad`` with zeros.
        """
        if value not in self._padded:
            padded = self._paddings.values[value]
            shape = shape_of(value)
            high = [0] * len(shape)
            high[padded.dim] = padded.size - shape[padded.dim]
            self._padded[value] = pad_with_zeros(value, [0] * len(shape), high)
        return self._padded[value]

    def _padded_weight(self, value: ir.Value, grown: list[int]) -> ir.Value:
        """Return a weight with zeros after each run of channels.

        A run is the channels of one operand of a concatenation. ``grown`` has, for each dimension
        of the weight, the count of runs along the dimension, or 0 if the dimension has no padding.
        """
        shape: list[int] = []
        size: list[int] = []
        whole: list[int] = []
        for n, runs in zip(shape_of(value), grown, strict=True):
            run = rounded(n // runs) if runs else n
            shape += [runs, n // runs] if runs > 1 else [n]
            size += [runs, run] if runs > 1 else [run]
            whole.append(max(runs, 1) * run)
        part = WeightPart(self._weights[value], shape, [0] * len(shape), size)
        joined = self._weights.join([part])
        return joined if size == whole else self._weights.reshape(joined, whole)

    @staticmethod
    def _widen_slice(copy: ir.Operation, part: Part[Padded]) -> None:
        if "static_sizes" in copy.attributes:
            padded = part.results[0]
            sizes = list(ir.DenseI64ArrayAttr(copy.attributes["static_sizes"]))
            sizes[padded.dim] = padded.size
            copy.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(sizes)


def _padded_type(kind: ir.Type, padded: Padded) -> ir.Type:
    ranked = ir.RankedTensorType(kind)
    shape = list(ranked.shape)
    shape[padded.dim] = padded.size
    return ir.RankedTensorType.get(shape, ranked.element_type)


def _fresh(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Emit an initial tensor of type ``kind`` that replaces the smaller initial tensor ``value``.

    If a fill computes ``value``, the new tensor is filled with the same scalar; otherwise the new
    tensor is a ``tensor.empty``.
    """
    ranked = ir.RankedTensorType(kind)
    empty = tensor.EmptyOp(list(ranked.shape), ranked.element_type).result
    scalar = filling(value)
    return empty if scalar is None else linalg.fill(scalar, outs=[empty])


def _own_channels(new: ir.Value, old: ir.Value, padded: Padded) -> ir.Value:
    """Emit a value equal to ``new`` without its padding channels, and return it.

    The result has the type of ``old``, and is a slice of ``new``. If ``old`` is a concatenation,
    the channels of each operand are followed by padding in ``new``; the result then concatenates a
    slice for each operand. ``padded`` describes the padding of ``new``.
    """
    shape = shape_of(old)
    shape[padded.dim] = padded.own
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(old.type).element_type)
    runs: list[ir.Value] = []
    for run in range(padded.runs):
        offsets = [0] * len(shape)
        offsets[padded.dim] = run * rounded(padded.own)
        ones = [1] * len(shape)
        runs.append(tensor.ExtractSliceOp(kind, new, [], [], [], offsets, shape, ones).result)
    return runs[0] if len(runs) == 1 else tensor.ConcatOp(old.type, padded.dim, runs).result


def _runs_of_dimensions(map_: ir.AffineMap, runs: Mapping[int, int]) -> list[int]:
    """Return the count of runs along each dimension of an operand, 0 without padding.

    A run is the channels of one operand of a concatenation, followed by padding channels.

    Args:
        map_: the indexing map of the operand.
        runs: for the index of each padded loop, the count of runs along the loop.
    """
    loops = [plain_dim(expr) for expr in map_.results]
    return [0 if loop is None else runs.get(loop, 0) for loop in loops]
