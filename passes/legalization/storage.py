"""Rewrites tensors of unsupported element types to tensors of supported types.

The module ``stored_types`` lists the unsupported types. An element is stored in parts, one in each
new tensor: a complex number in a real and an imaginary part, a narrow float or integer in a single
part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, rename_operands
from rammer_mlir.passes.ir.function_type import update_function_type
from rammer_mlir.passes.ir.generics import indexing_maps, iterator_types
from rammer_mlir.passes.ir.loop_states import REGION
from rammer_mlir.passes.ir.structured import Structured
from rammer_mlir.passes.ir.traversal import nested_operations
from rammer_mlir.passes.legalization.constant_parts import constant_parts
from rammer_mlir.passes.legalization.sequential import CONTROL_FLOW
from rammer_mlir.passes.legalization.stored_types import Storage, like, storage_of

Values = Sequence[ir.Value]


def store_elements(function: ir.OpView) -> None:
    """Replace each tensor of an unsupported element type by tensors of supported types.

    Each new tensor stores one part of the elements: narrow floats have one part, a byte; complex
    numbers have two parts, real and imaginary. A complex argument or result of the function becomes
    one tensor with an additional last dimension of size 2, as in NumPy's memory. The function must
    have one block, and its operations must exchange only tensors.
    """
    operation = function.operation
    block = operation.regions[0].blocks[0]
    kinds = [value.type for value in block.arguments]
    if any(map(_storage, kinds)) or any(map(_is_stored, nested_operations(operation))):
        _Storing(operation).run()


def _storage(kind: ir.Type) -> Storage | None:
    """Return how the elements of a tensor type, or a complex scalar type, are stored in parts.

    Return None for tensors of supported elements, and for scalars other than complex numbers.
    """
    if isinstance(kind, ir.RankedTensorType):
        return storage_of(kind.element_type)
    return storage_of(kind) if isinstance(kind, ir.ComplexType) else None


def _is_stored(op: ir.Operation) -> bool:
    return any(_storage(value.type) for value in (*op.operands, *op.results))


def _part_types(kind: ir.Type) -> list[ir.Type]:
    storage = _storage(kind)
    return [kind] if storage is None else [like(kind, part) for part in storage.parts]


class _Storing:
    def __init__(self, function: ir.Operation) -> None:
        self._function = function
        self._block = function.regions[0].blocks[0]
        self._values: ValueMap = {}
        """The new value of each old value that is not stored in parts."""
        self._parts: dict[ir.Value, list[ir.Value]] = {}
        """The parts of each old value that is stored in parts."""
        self._rewrites: dict[str, Callable[[ir.Operation], None]] = {
            "arith.constant": self._constant,
            "linalg.generic": self._generic,
            "tensor.extract": self._extract,
            "tensor.pad": self._with_region,
            "tensor.generate": self._with_region,
            "func.return": self._return,
            **dict.fromkeys((REGION, *CONTROL_FLOW), self._control_flow),
            **dict.fromkeys(("scf.yield", "scf.condition"), self._pass_on),
        }

    def run(self) -> None:
        old = [each.operation for each in self._block.operations]
        with ir.InsertionPoint.at_block_begin(self._block), self._function.location:
            for argument in list(self._block.arguments):
                if _storage(argument.type) is not None:
                    self._argument(argument)
        rewritten: list[ir.Operation] = []
        for op in old:
            if any(map(self._is_concerned, (op, *nested_operations(op)))):
                with ir.InsertionPoint(op), op.location:
                    self._rewrite(op)
                rewritten.append(op)
            else:
                rename_operands(op, self._values)
        for op in reversed(rewritten):
            if op.name != "func.return":
                op.erase()
        update_function_type(self._function)

    def _is_concerned(self, op: ir.Operation) -> bool:
        return _is_stored(op) or any(value in self._parts for value in op.operands)

    def _argument(self, argument: ir.BlockArgument) -> None:
        kind = ir.RankedTensorType(argument.type)
        storage = storage_of(kind.element_type)
        assert storage is not None
        first = storage.parts[0]
        count = len(storage.parts)
        if count == 1:
            argument.set_type(like(kind, first))
            self._parts[argument] = [argument]
            return
        argument.set_type(ir.RankedTensorType.get([*kind.shape, count], first))
        self._parts[argument] = [
            tensor.ExtractSliceOp(
                ir.RankedTensorType.get(kind.shape, first), argument, [], [], [],
                [0] * kind.rank + [number], [*kind.shape, 1], [1] * (kind.rank + 1),
            ).result
            for number in range(count)
        ]  # fmt: skip

    def _rewrite(self, op: ir.Operation) -> None:
        self._rewrites.get(op.name, self._by_parts)(op)

    def _copy(self, block: ir.Block, upto: int | None = None) -> None:
        """Clone the operations ``[:upto]`` of a block at the insertion point; None clones all.

        ``upto`` is a slice's end: -1 leaves out the terminator. Operations on values of unsupported
        element types are rewritten to operations on their parts, such as the real and imaginary
        parts of complex numbers.
        """
        for each in list(block.operations)[:upto]:
            op = each.operation
            if any(map(self._is_concerned, (op, *nested_operations(op)))):
                with op.location:
                    self._rewrite(op)
                continue
            copy = op.clone(ip=ir.InsertionPoint.current).operation
            rename_operands(copy, self._values)
            self._values.update(zip(op.results, copy.results, strict=True))

    def _value(self, value: ir.Value) -> ir.Value:
        """Return the value that replaces an old value.

        For a scalar of an unsupported type, emit its computation from its parts, such as a complex
        number from its real and imaginary parts.
        """
        if value in self._parts and not isinstance(value.type, ir.RankedTensorType):
            storage = storage_of(value.type)
            assert storage is not None
            return storage.load(self._parts[value])
        return self._values.get(value, value)

    def _parts_of(self, value: ir.Value) -> list[ir.Value]:
        """Return the values that together store an old value, such as its real and imaginary part.

        For a value of a supported element type, return a list of its only replacement.
        """
        if value in self._parts:
            return self._parts[value]
        if isinstance(value.type, ir.RankedTensorType):
            return [self._value(value)]
        storage = storage_of(value.type)
        return [self._value(value)] if storage is None else storage.store(self._value(value))

    def _expanded(self, values: Values) -> list[ir.Value]:
        """Return the new operands for the old operands ``values``, in order.

        A value of an unsupported element type is replaced by all its parts, such as its real and
        its imaginary part.
        """
        return [
            part
            for value in values
            for part in (
                self._parts_of(value)
                if value in self._parts or _storage(value.type) is not None
                else [self._value(value)]
            )
        ]

    def _record(self, old: Values, new: Values) -> None:
        """Record ``new`` as the replacements of the values ``old``, in order.

        An old value of an unsupported element type takes one new value for each of its parts.
        """
        rest = list(new)
        for value in old:
            count = len(_part_types(value.type))
            taken, rest = rest[:count], rest[count:]
            if _storage(value.type) is None:
                self._values[value] = taken[0]
                value.replace_all_uses_with(taken[0])
            else:
                self._parts[value] = taken

    def _by_parts(self, op: ir.Operation) -> None:
        """Emit an operation on tensors once for each part, such as real and imaginary parts.

        An operation on scalars alone is cloned: operations on complex scalars are lowered later.
        """
        of_tensors = [
            value
            for value in (*op.operands, *op.results)
            if isinstance(value.type, ir.RankedTensorType)
        ]
        if not of_tensors:
            copy = ir.Operation.create(
                op.name, [v.type for v in op.results], [self._value(v) for v in op.operands],
                _attributes(op),
            )  # fmt: skip
            self._values.update(zip(op.results, copy.results, strict=True))
            return
        operands = [self._parts_of(value) for value in op.operands]
        results = [_part_types(value.type) for value in op.results]
        count = max(map(len, [*operands, *results]))
        made = [
            ir.Operation.create(
                op.name,
                [each[min(number, len(each) - 1)] for each in results],
                [each[min(number, len(each) - 1)] for each in operands],
                _attributes(op),
            )
            for number in range(count if results and len(results[0]) > 1 else 1)
        ]
        for number, value in enumerate(op.results):
            self._record([value], [each.results[number] for each in made])

    def _constant(self, op: ir.Operation) -> None:
        self._record(op.results, constant_parts(op))

    def _extract(self, op: ir.Operation) -> None:
        source, *places = op.operands
        element = ir.RankedTensorType(source.type).element_type
        result = op.results[0].type
        storage = storage_of(result)
        assert storage is not None or element == result
        where = [self._value(place) for place in places]
        found = [tensor.ExtractOp(part, where).result for part in self._parts_of(source)]
        self._values[op.results[0]] = found[0] if storage is None else storage.load(found)

    def _generic(self, op: ir.Operation) -> None:
        structured = Structured(op.opview)
        count = len(list(op.opview.inputs))  # type: ignore[attr-defined]
        given = list(op.operands)
        operands = [self._expanded([value]) for value in given]
        inputs, outputs = list(chain(*operands[:count])), list(chain(*operands[count:]))
        maps: list[ir.AffineMap] = []
        for parts, map_ in zip(operands, structured.maps, strict=True):
            maps += [map_] * len(parts)
        kinds = [kind for value in op.results for kind in _part_types(value.type)]
        new = linalg.GenericOp(
            kinds, inputs, outputs, indexing_maps(maps), iterator_types(structured.parallel)
        )
        elements = [ir.RankedTensorType(value.type).element_type for value in (*inputs, *outputs)]
        old = op.regions[0].blocks[0]
        block = new.regions[0].blocks.append(*elements)
        with ir.InsertionPoint(block):
            self._load(old.arguments, list(block.arguments))
            self._copy(old, -1)
            *_, last = old.operations
            linalg.YieldOp(self._stored(last.operation.operands))
        self._record(op.results, list(new.results))

    def _load(self, old: Values, new: Values) -> None:
        """Record the replacements of the arguments ``old`` of a loop nest's body.

        ``new`` are the arguments of the new body. An element of an unsupported type has several new
        arguments, one for each part (such as real and imaginary part), and is computed from them.
        """
        rest = list(new)
        for value in old:
            storage = storage_of(value.type)
            count = 1 if storage is None else len(storage.parts)
            taken, rest = rest[:count], rest[count:]
            self._values[value] = taken[0] if storage is None else storage.load(taken)

    def _stored(self, values: Values) -> list[ir.Value]:
        """Return the values that a new body yields for the old yielded ``values``.

        A value of an unsupported element type is replaced by all its parts, such as its real and
        its imaginary part.
        """
        return [part for value in values for part in self._parts_of(value)]

    def _with_region(self, op: ir.Operation) -> None:
        """Emit an operation with a region, such as a padding, once for each part of its result.

        Parts are, for example, the real and the imaginary part of complex numbers. The region of
        each copy yields the elements of its part.
        """
        (old,) = [region.blocks[0] for region in op.regions]
        operands = [self._parts_of(value) for value in op.operands]
        made: list[ir.Value] = []
        for number, kind in enumerate(_part_types(op.results[0].type)):
            new = ir.Operation.create(
                op.name, [kind], [each[min(number, len(each) - 1)] for each in operands],
                _attributes(op), regions=1,
            )  # fmt: skip
            block = new.regions[0].blocks.append(*(value.type for value in old.arguments))
            self._values.update(zip(old.arguments, block.arguments, strict=True))
            with ir.InsertionPoint(block):
                self._copy(old, -1)
                *_, last = old.operations
                tensor.YieldOp(self._stored(last.operation.operands)[number])
            made.append(new.results[0])
        self._record(op.results, made)

    def _control_flow(self, op: ir.Operation) -> None:
        """Clone an operation with regions, such as ``scf.for`` or ``scf.execute_region``.

        Operands, arguments and results of unsupported element types are replaced by their parts,
        such as real and imaginary parts.
        """
        new = ir.Operation.create(
            op.name,
            [kind for value in op.results for kind in _part_types(value.type)],
            self._expanded(op.operands),
            _attributes(op),
            regions=len(op.regions),
        )
        for old, region in zip(op.regions, new.regions, strict=True):
            for block in old.blocks:
                kinds = [kind for value in block.arguments for kind in _part_types(value.type)]
                copy = region.blocks.append(*kinds)
                self._record(block.arguments, list(copy.arguments))
                with ir.InsertionPoint(copy):
                    self._copy(block)
        self._record(op.results, list(new.results))

    def _pass_on(self, op: ir.Operation) -> None:
        ir.Operation.create(op.name, [], self._expanded(op.operands))

    def _return(self, op: ir.Operation) -> None:
        for number, value in enumerate(list(op.operands)):
            if value in self._parts:
                op.operands[number] = _joined(self._parts[value])


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in op.attributes}


def _joined(parts: Values) -> ir.Value:
    """Emit and return a tensor that has the given parts along a new last dimension.

    For example, a real and an imaginary part give a tensor of pairs. A single part is returned
    unchanged.
    """
    if len(parts) == 1:
        return parts[0]
    kind = ir.RankedTensorType(parts[0].type)
    shape = list(kind.shape)
    one = ir.RankedTensorType.get([*shape, 1], kind.element_type)
    groups = [[n] for n in range(kind.rank)]
    if groups:
        groups[-1].append(kind.rank)
    columns = [tensor.ExpandShapeOp(one, part, groups, [], [*shape, 1]).result for part in parts]
    whole = ir.RankedTensorType.get([*shape, len(parts)], kind.element_type)
    return tensor.ConcatOp(whole, kind.rank, columns).result
