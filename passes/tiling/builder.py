"""Builds the function ``(rtask_id, inputs..., outputs...) -> outputs`` of an rKernel on tensors."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import affine, arith, bufferization, func, ir, tensor
from rammer_mlir.passes.ir.boxes import Span, linear_form, panel_index, panel_number
from rammer_mlir.passes.ir.cloning import clone_into, rename_operands
from rammer_mlir.passes.ir.gathers import gathers_of
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of
from rammer_mlir.passes.tiling.kernel import Computation, TiledDomain

Size = int | ir.Value
"""A static offset or size, or an index value if it depends on the rTask id."""


def build_tiled(computation: Computation, domain: TiledDomain, name: str) -> ir.OpView:
    """Emit and return the function ``name`` of an rKernel that computes one tile of a computation.

    The function is inserted before the computation's function. ``domain`` is the tiling.
    """
    return _TileBuilder(computation, domain).build(name)


def declare(computation: Computation, name: str) -> tuple[ir.OpView, ir.Block]:
    """Emit the function ``name`` of an rKernel with an empty block; return both."""
    inputs = [argument.type for argument in computation.block.arguments]
    outputs = [value.type for value in computation.returned]
    kind = ir.FunctionType.get([ir.IndexType.get(), *inputs, *outputs], outputs)
    with ir.InsertionPoint(computation.function), ir.Location.unknown():
        function = func.FuncOp(name, kind, visibility="private")
        block = function.add_entry_block()
    return function, block


def arguments(computation: Computation, block: ir.Block) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the arguments of an rKernel's function for inputs, and those for outputs.

    The first argument, the rTask id, is left out.
    """
    arguments: list[ir.Value] = list(block.arguments[1:])
    num_inputs = len(list(computation.block.arguments))
    return arguments[:num_inputs], arguments[num_inputs:]


def copy_into(value: ir.Value, out: ir.Value) -> ir.Value:
    """Emit and return a copy of ``value`` into ``out`` that canonicalization does not remove."""
    return bufferization.MaterializeInDestinationOp(out.type, value, out).result


class _TileBuilder:
    def __init__(self, computation: Computation, domain: TiledDomain) -> None:
        self._computation = computation
        self._domain = domain
        self._index = {op.op.operation: i for i, op in enumerate(domain.space.operations)}
        self._mapping: dict[ir.Value, ir.Value] = {}
        self._outputs: dict[ir.Value, ir.Value] = {}
        self._offsets: dict[str, ir.Value] = {}

    def build(self, name: str) -> ir.OpView:
        function, block = declare(self._computation, name)
        inputs, outputs = arguments(self._computation, block)
        self._mapping.update(zip(self._computation.block.arguments, inputs, strict=True))
        self._outputs.update(zip(self._computation.returned, outputs, strict=True))
        ip = ir.InsertionPoint(block)
        with ip, ir.Location.unknown():
            self._id = block.arguments[0]
            self._sizes = [self._class_size(index) for index in range(len(self._domain.parts))]
            for op in self._computation.operations:
                if is_generic(op):
                    self._tile(Structured(op), ip)
                else:
                    clone_into(op, self._mapping, ip)
            func.ReturnOp([self._insert(value) for value in self._computation.returned])
        return function

    def _class_size(self, index: int) -> Size:
        span = self._domain.class_spans[index]
        # Only a tile that does not divide the extent needs a dynamic size.
        if span.size == 0 or span.extent % span.size == 0:
            return span.size
        remaining = ir.AffineExpr.get_constant(span.extent) - span.offset
        full = ir.AffineExpr.get_constant(span.size)
        map_ = ir.AffineMap.get(1, 0, [full, remaining])
        return affine.AffineMinOp(map_, [self._id]).result

    def _loop_sizes(self, operation: int) -> list[Size]:
        sizes: list[Size] = []
        for loop, span in enumerate(self._domain.spans(operation)):
            index = self._domain.class_of(operation, loop)
            sizes.append(span.size if index is None else self._sizes[index])
        return sizes

    def _offset(self, expr: ir.AffineExpr) -> Size:
        """Return the value of an offset: an int if ``expr`` is constant, else an SSA index value.

        ``expr`` is an expression of the rTask id ``d0``. The SSA value is emitted once for each
        expression.
        """
        if isinstance(expr, ir.AffineConstantExpr):
            return expr.value
        key = str(expr)
        if key not in self._offsets:
            map_ = ir.AffineMap.get(1, 0, [expr])
            self._offsets[key] = affine.AffineApplyOp(map_, [self._id]).result
        return self._offsets[key]

    def _box(
        self, map_: ir.AffineMap, operation: int, shape: Sequence[int]
    ) -> tuple[list[Size], list[Size]]:
        """Return the offsets and sizes of the box of an operand that an rTask accesses.

        Both are in elements. Sizes are clipped at the edges of the operand.

        Args:
            map_: the indexing map of the operand.
            operation: index of the operation that has the operand.
            shape: the shape of the operand.
        """
        spans = self._domain.spans(operation)
        sizes = self._loop_sizes(operation)
        boxes = [
            self._dimension(expr, spans, sizes, extent)
            for expr, extent in zip(map_.results, shape, strict=True)
        ]
        return [offset for offset, _ in boxes], [size for _, size in boxes]

    def _dimension(
        self, expr: ir.AffineExpr, spans: list[Span], sizes: list[Size], extent: int
    ) -> tuple[Size, Size]:
        place = panel_index(expr)
        if place is not None and place.is_number and not spans[place.loop].is_whole:
            offset = panel_number(spans[place.loop].offset, place.width)
            return self._offset(offset), _num_panels(sizes[place.loop], place.width)
        form = linear_form(expr)
        if form is None or all(spans[dim].is_whole for dim in form.coefficients):
            return 0, extent
        offset = ir.AffineExpr.get_constant(0)
        for dim, factor in sorted(form.coefficients.items()):
            offset = offset + spans[dim].offset * factor
        dim = plain_dim(expr)
        if dim is not None:
            return self._offset(offset), sizes[dim]
        static = form.constant + 1
        dynamic: list[tuple[ir.Value, int]] = []
        for loop, factor in sorted(form.coefficients.items()):
            size = sizes[loop]
            if isinstance(size, int):
                static += factor * (size - 1)
            else:
                static -= factor
                dynamic.append((size, factor))
        return self._offset(offset), _weighted_sum(static, dynamic)

    def _tile(self, op: Structured, ip: ir.InsertionPoint) -> None:
        number = self._index[op.op.operation]
        operands: list[ir.Value] = []
        num_inputs = len(op.inputs)
        reused = _reused_inputs(self._computation, op)
        for position, value in enumerate(op.op.operation.operands):
            result = position - num_inputs
            if result < 0:
                operands.append(self._operand(op.maps[position], number, value))
            else:
                operands.append(self._initial(op, result, reused))
        copy = op.op.operation.clone(ip=ip).operation
        for position, operand in enumerate(operands):
            copy.operands[position] = operand
        self._rename_captures(copy)
        for result, value in enumerate(op.op.operation.results):
            copy.results[result].set_type(operands[num_inputs + result].type)
            self._mapping[value] = copy.results[result]
        self._shift_indices(copy, number)

    def _initial(self, op: Structured, result: int, reused: dict[int, ir.Value]) -> ir.Value:
        """Return the tensor into which the tiled ``op`` writes its tile of a result.

        ``result`` is the index of the result. If the body of ``op`` reads the elements that it
        overwrites, the tensor has their initial values; otherwise its values are unspecified.
        ``reused`` maps the index of a result to the input whose tile the result overwrites.
        """
        value = op.outputs[result]
        if _is_computed(value):
            return self._mapping[value]
        if not op.reads_output(result):
            source = reused.get(result)
            return self._destination(op, result) if source is None else self._mapping[source]
        number = self._index[op.op.operation]
        initial = self._operand(op.maps[len(op.inputs) + result], number, value)
        return copy_into(initial, self._destination(op, result))

    def _rename_captures(self, copy: ir.Operation) -> None:
        for inner in copy.regions[0].blocks[0].operations:
            rename_operands(inner.operation, self._mapping)

    def _operand(self, map_: ir.AffineMap, number: int, value: ir.Value) -> ir.Value:
        shape = shape_of(value)
        tile = self._mapping[value]
        if not shape or _is_computed(value):
            return tile
        offsets, sizes = self._box(map_, number, shape)
        return _extract(tile, offsets, sizes, shape)

    def _destination(self, op: Structured, result: int) -> ir.Value:
        """Return the tensor into which an rTask computes its tile of a result of ``op``.

        ``result`` is the index of the result. The tensor is a slice of an output of the function,
        or an empty tensor if the tile is a temporary.
        """
        number = self._index[op.op.operation]
        map_ = op.maps[len(op.inputs) + result]
        value = op.op.operation.results[result]
        offsets, sizes = self._box(map_, number, shape_of(value))
        target = _final_output(self._computation, value)
        if target is not None:
            return _extract(self._outputs[target], offsets, sizes, shape_of(value))
        element = ir.RankedTensorType(value.type).element_type
        return tensor.EmptyOp(sizes, element).result

    def _insert(self, value: ir.Value) -> ir.Value:
        produced = ir.OpResult(value)
        op = Structured(produced.owner)
        result = produced.result_number
        number = self._index[op.op.operation]
        map_ = op.maps[len(op.inputs) + result]
        offsets, sizes = self._box(map_, number, shape_of(value))
        return _insert(self._mapping[value], self._outputs[value], offsets, sizes)

    def _shift_indices(self, copy: ir.Operation, number: int) -> None:
        """Add the tile's offset to each ``linalg.index`` of a tiled operation.

        A ``linalg.index`` of the tiled operation counts from the tile's start, but the body expects
        indices of the whole operation. Gathers from a value that the same rTask computes keep the
        indices from the tile's start.

        Args:
            copy: the tiled operation.
            number: index of the original operation in the computation.
        """
        spans = self._domain.spans(number)
        gathers = gathers_of(Structured(copy.opview))
        from_tiles = [gather.op for gather in gathers if _is_computed(gather.value)]
        for inner in list(copy.regions[0].blocks[0].operations):
            if inner.operation.name != "linalg.index":
                continue
            loop = ir.IntegerAttr(inner.operation.attributes["dim"]).value
            offset = self._offset_before(copy, spans[loop].offset)
            if offset is None:
                continue
            with ir.InsertionPoint.after(inner.operation):
                shifted = arith.AddIOp(inner.operation.results[0], offset)
            kept = [shifted.operation, *from_tiles]
            inner.operation.results[0].replace_all_uses_except(shifted.result, kept)

    def _offset_before(self, op: ir.Operation, expr: ir.AffineExpr) -> ir.Value | None:
        if isinstance(expr, ir.AffineConstantExpr):
            return None
        with ir.InsertionPoint(op):
            map_ = ir.AffineMap.get(1, 0, [expr])
            return affine.AffineApplyOp(map_, [self._id]).result


def _num_panels(size: Size, width: int) -> Size:
    """Return the count of panels of ``width`` iterations that cover ``size`` iterations."""
    if isinstance(size, int):
        return -(-size // width)
    points = ir.AffineExpr.get_dim(0)
    map_ = ir.AffineMap.get(1, 0, [ir.AffineExpr.get_ceil_div(points, width)])
    return affine.AffineApplyOp(map_, [size]).result


def _weighted_sum(static: int, dynamic: list[tuple[ir.Value, int]]) -> Size:
    if not dynamic:
        return static
    expr = ir.AffineExpr.get_constant(static)
    for position, (_, factor) in enumerate(dynamic):
        expr = expr + ir.AffineExpr.get_dim(position) * factor
    map_ = ir.AffineMap.get(len(dynamic), 0, [expr])
    return affine.AffineApplyOp(map_, [value for value, _ in dynamic]).result


def _is_computed(value: ir.Value) -> bool:
    """Whether a ``linalg.generic`` of the rOperator computes ``value``.

    If so, an rTask has only its tile of ``value``, not the whole tensor.
    """
    owner = value.owner
    return not isinstance(owner, ir.Block) and is_generic(owner.opview)


def _single_use(value: ir.Value) -> ir.OpOperand | None:
    uses = list(value.uses)
    return uses[0] if len(uses) == 1 else None


def _reused_inputs(computation: Computation, op: Structured) -> dict[int, ir.Value]:
    """Return, by result index, an input that a result of an elementwise operation can overwrite.

    A result's tile can overwrite an input's tile if the input is a temporary of the rTask, has the
    type and the indexing map of the result, and has no other use.
    """
    if not op.is_elementwise:
        return {}
    reused: dict[int, ir.Value] = {}
    num_inputs = len(op.inputs)
    for result in range(op.num_outputs):
        out = op.op.operation.results[result]
        if op.reads_output(result) or _is_computed(op.outputs[result]):
            continue
        for position, value in enumerate(op.inputs):
            if (
                value not in reused.values()
                and value.type == out.type
                and op.maps[position] == op.maps[num_inputs + result]
                and _single_use(value) is not None
                and value not in computation.returned
                and _is_computed(value)
            ):
                reused[result] = value
                break
    return reused


def _final_output(computation: Computation, value: ir.Value) -> ir.Value | None:
    """Return the function's result in whose buffer ``value`` is computed; None for a temporary.

    If the function returns ``value``, the result is ``value`` itself. Else follow the only user of
    ``value``, and of each next value, as long as the user overwrites its input in place; if this
    chain ends with a result of the function, return that result.
    """
    while value not in computation.returned:
        use = _single_use(value)
        if use is None or not is_generic(use.owner):
            return None
        op = Structured(use.owner)
        result = use.operand_number - len(op.inputs)
        if result < 0:
            matches = [r for r, v in _reused_inputs(computation, op).items() if v == value]
            if not matches:
                return None
            result = matches[0]
        value = op.op.operation.results[result]
    return value


def _split(values: Sequence[Size]) -> tuple[list[ir.Value], list[int]]:
    """Return offsets or sizes as the two lists that MLIR's slice operations need.

    The first list has only the values that are known at run time, as operands. The second list has
    an integer for each offset or size: the static value, or MLIR's marker for a dynamic value.
    """
    dynamic = [value for value in values if not isinstance(value, int)]
    marker = ir.ShapedType.get_dynamic_size()
    return dynamic, [value if isinstance(value, int) else marker for value in values]


def _extract(
    source: ir.Value, offsets: list[Size], sizes: list[Size], shape: Sequence[int]
) -> ir.Value:
    if all(offset == 0 for offset in offsets) and sizes == list(shape):
        return source
    dynamic_offsets, static_offsets = _split(offsets)
    dynamic_sizes, static_sizes = _split(sizes)
    element = ir.RankedTensorType(source.type).element_type
    return tensor.ExtractSliceOp(
        ir.RankedTensorType.get(static_sizes, element),
        source,
        dynamic_offsets,
        dynamic_sizes,
        [],
        static_offsets,
        static_sizes,
        [1] * len(offsets),
    ).result


def _insert(tile: ir.Value, target: ir.Value, offsets: list[Size], sizes: list[Size]) -> ir.Value:
    if tile.type == target.type:
        return tile
    dynamic_offsets, static_offsets = _split(offsets)
    dynamic_sizes, static_sizes = _split(sizes)
    return tensor.InsertSliceOp(
        tile,
        target,
        dynamic_offsets,
        dynamic_sizes,
        [],
        static_offsets,
        static_sizes,
        [1] * len(offsets),
    ).result
