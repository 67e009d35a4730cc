"""Lifts scalars to 0-D tensors, since rOperators work on tensors."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir, linalg, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.generics import indexing_maps, iterator_types
from rammer_mlir.passes.ir.outline import clone_constants
from rammer_mlir.passes.ir.structured import Structured, captured_values
from rammer_mlir.passes.ir.traversal import replace
from rammer_mlir.passes.legalization.elementwise import (
    all_of,
    per_element,
    scalar_map,
)
from rammer_mlir.passes.legalization.sequential import is_control_flow, wrap

_COMPUTING = ("arith", "math", "affine", "complex")
"""Dialects whose operations on scalars are lifted to 0-D tensors."""


def lift_scalars(function: ir.OpView) -> None:
    """Rewrite a function of one block so that its operations exchange tensors and no scalars.

    A scalar argument, result or intermediate becomes a 0-D tensor.
    """
    _Lifting(function).run()


def _is_scalar(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.ShapedType)


def _tensor_type(kind: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get([], kind)


class _Lifting:
    def __init__(self, function: ir.OpView) -> None:
        self._function = function.operation
        self._block = self._function.regions[0].blocks[0]
        self._tensors: dict[ir.Value, ir.Value] = {}
        """The 0-D tensor that holds each computed scalar, by scalar."""

    def run(self) -> None:
        self._lift_arguments()
        for op in list(self._block.operations):
            self._lift(op)
        update_function_type(self._function)
        for op in reversed(list(self._block.operations)[:-1]):
            operation = op.operation
            if operation.results and not any(True for r in operation.results for _ in r.uses):
                operation.erase()

    def _lift_arguments(self) -> None:
        with ir.InsertionPoint.at_block_begin(self._block), self._function.location:
            for argument in list(self._block.arguments):
                if not _is_scalar(argument):
                    continue
                kind = argument.type
                argument.set_type(_tensor_type(kind))
                # Uses expect a scalar: redirect them to an extract, which is lifted like others.
                scalar = tensor.extract(argument, [])
                argument.replace_all_uses_except(scalar, scalar.owner.operation)

    def _lift(self, op: ir.OpView) -> None:
        operation = op.operation
        name = operation.name
        dialect = name.partition(".")[0]
        with ir.InsertionPoint(operation), operation.location:
            if name == "func.return":
                for number, value in enumerate(list(operation.operands)):
                    if _is_scalar(value):
                        operation.operands[number] = self._held(value)
            elif is_control_flow(op):
                wrap(operation, self._tensors)
            elif name == "linalg.generic":
                self._lift_captures(op)
            elif name in _TENSORS_OF_SCALARS:
                _TENSORS_OF_SCALARS[name](self, operation)
            elif name == "tensor.extract" or dialect in _COMPUTING:
                self._compute(op)

    def _compute(self, op: ir.OpView) -> None:
        """Replace an operation on scalars by a 0-D ``linalg.generic``.

        An operation that is computed from constants alone remains unchanged; its users clone it.
        """
        operation = op.operation
        if not operation.operands or not all(map(_is_scalar, operation.results)):
            return
        if operation.name == "tensor.extract" and len(operation.operands) == 1:
            self._tensors[operation.results[0]] = operation.operands[0]
            return
        inputs = self._inputs(list(operation.operands))
        if not inputs and all(map(_is_scalar, operation.operands)):
            return  # of constants alone: its users copy it
        elements = [(self._tensors[value], scalar_map(0)) for value in inputs]
        for number, result in enumerate(operation.results):

            def body(
                given: Sequence[ir.Value], _: Sequence[ir.Value], number: int = number
            ) -> ir.Value:
                return self._clone(op, inputs, given).results[number]

            self._tensors[result] = per_element([], result.type, elements, body)

    def _inputs(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Return, without duplicates, the scalars among ``values`` that a 0-D tensor already holds.

        A loop nest reads these scalars from the 0-D tensors, as inputs. Scalars that no tensor
        holds, such as constants, are cloned into the body of the loop nest.
        """
        return list(dict.fromkeys(value for value in values if value in self._tensors))

    @staticmethod
    def _clone(
        op: ir.OpView, inputs: Sequence[ir.Value], elements: Sequence[ir.Value]
    ) -> ir.Operation:
        mapping: ValueMap = dict(zip(inputs, elements, strict=True))
        ip = ir.InsertionPoint.current
        for value in op.operation.operands:
            if _is_scalar(value):
                clone_constants(value, mapping, ip)
        return clone_into(op, mapping, ip)

    def _held(self, value: ir.Value) -> ir.Value:
        """Return the 0-D tensor that holds a scalar; for a constant scalar, emit the tensor."""
        if value in self._tensors:
            return self._tensors[value]

        def body(_elements: Sequence[ir.Value], _indices: Sequence[ir.Value]) -> ir.Value:
            mapping: ValueMap = {}
            clone_constants(value, mapping, ir.InsertionPoint.current)
            return mapping[value]

        return per_element([], value.type, [], body)

    def _lift_captures(self, op: ir.OpView) -> None:
        """Replace a loop nest that captures scalars by a nest that reads them from 0-D operands."""
        operation = op.operation
        captured = self._inputs(captured_values(op))
        if not captured:
            return
        structured = Structured(op)
        count = len(list(op.inputs))  # type: ignore[attr-defined]
        loops = len(structured.parallel)
        operands = list(operation.operands)
        maps = structured.maps
        new = linalg.GenericOp(
            [value.type for value in operation.results],
            [*operands[:count], *(self._tensors[value] for value in captured)],
            operands[count:],
            indexing_maps([*maps[:count], *(scalar_map(loops) for _ in captured), *maps[count:]]),
            iterator_types(structured.parallel),
        )
        old = operation.regions[0].blocks[0]
        arguments = list(old.arguments)
        kinds = [argument.type for argument in arguments]
        block = new.regions[0].blocks.append(
            *kinds[:count], *(value.type for value in captured), *kinds[count:]
        )
        fresh = list(block.arguments)
        kept = [*fresh[:count], *fresh[count + len(captured) :]]
        mapping: ValueMap = dict(zip(arguments, kept, strict=True))
        mapping.update(zip(captured, fresh[count : count + len(captured)], strict=True))
        for inner in old.operations:
            clone_into(inner, mapping, ir.InsertionPoint(block))
        replace(operation, list(new.results))

    def _splat(self, op: ir.Operation) -> None:
        kind = ir.RankedTensorType(op.results[0].type)
        held = self._held(op.operands[0])
        value = per_element(
            kind.shape, kind.element_type, [(held, scalar_map(kind.rank))],
            lambda elements, _: elements[0],
        )  # fmt: skip
        replace(op, [value])

    def _from_elements(self, op: ir.Operation) -> None:
        """Replace a ``tensor.from_elements`` by a concatenation of its elements' 0-D tensors."""
        kind = ir.RankedTensorType(op.results[0].type)
        parts = [self._held(value) for value in op.operands]
        if not kind.rank:
            replace(op, parts)
            return
        one = ir.RankedTensorType.get([1], kind.element_type)
        rows = [tensor.ExpandShapeOp(one, part, [], [], [1]).result for part in parts]
        if len(rows) == 1:
            flat = rows[0]
        else:
            flat = tensor.ConcatOp(
                ir.RankedTensorType.get([len(rows)], kind.element_type), 0, rows
            ).result
        if kind.rank > 1:
            groups = [list(range(kind.rank))]
            flat = tensor.ExpandShapeOp(kind, flat, groups, [], list(kind.shape)).result
        replace(op, [flat])

    def _insert(self, op: ir.Operation) -> None:
        """Replace a ``tensor.insert`` by an elementwise loop nest that selects between two values.

        The element at the insertion's indices is the inserted scalar; every other element is
        copied.
        """
        value, target, *places = op.operands
        kind = ir.RankedTensorType(target.type)
        scalars = self._inputs([value, *places])
        inputs = [(self._tensors[each], scalar_map(kind.rank)) for each in scalars]
        identity = ir.AffineMap.get_identity(kind.rank)

        def body(elements: Sequence[ir.Value], indices: Sequence[ir.Value]) -> ir.Value:
            mapping: ValueMap = dict(zip(scalars, elements, strict=False))
            for each in (value, *places):
                clone_constants(each, mapping, ir.InsertionPoint.current)
            if not places:
                return mapping[value]
            here = all_of(
                [
                    arith.cmpi(arith.CmpIPredicate.eq, index, mapping[place])
                    for index, place in zip(indices, places, strict=True)
                ]
            )
            return arith.select(here, mapping[value], elements[-1])

        found = per_element(kind.shape, kind.element_type, [*inputs, (target, identity)], body)
        replace(op, [found])

    def _generate(self, op: ir.Operation) -> None:
        """Replace a ``tensor.generate`` by a loop nest, and lift the scalars that it captures."""
        kind = ir.RankedTensorType(op.results[0].type)
        old = op.regions[0].blocks[0]

        def body(_elements: Sequence[ir.Value], indices: Sequence[ir.Value]) -> ir.Value:
            mapping: ValueMap = dict(zip(old.arguments, indices, strict=True))
            *inner, last = old.operations
            for each in inner:
                clone_into(each, mapping, ir.InsertionPoint.current)
            result = last.operation.operands[0]
            return mapping.get(result, result)

        found = per_element(kind.shape, kind.element_type, [], body)
        owner = found.owner
        assert not isinstance(owner, ir.Block)
        replace(op, [found])
        with ir.InsertionPoint(owner.operation):
            self._lift_captures(owner.opview)


_TENSORS_OF_SCALARS = {
    "tensor.splat": _Lifting._splat,  # pyright: ignore[reportPrivateUsage]
    "tensor.from_elements": _Lifting._from_elements,  # pyright: ignore[reportPrivateUsage]
    "tensor.insert": _Lifting._insert,  # pyright: ignore[reportPrivateUsage]
    "tensor.generate": _Lifting._generate,  # pyright: ignore[reportPrivateUsage]
}
"""Rewrites, by operation, of the operations that make tensors from scalars."""
