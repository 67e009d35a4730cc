"""Emits the addresses, loads and stores of a micro tile's registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.cpu.vectorize import memory
from rammer_mlir.lowering.cpu.vectorize.cost import (
    MAX_STRIDE,
    MIN_TRANSPOSED,
    needs_gather_or_transpose,
)
from rammer_mlir.lowering.cpu.vectorize.memory import Mask, Scope
from rammer_mlir.lowering.cpu.vectorize.nest import Nest
from rammer_mlir.lowering.cpu.vectorize.operands import Operand
from rammer_mlir.lowering.cpu.vectorize.shuffle import interleave, joined, segment, transpose
from rammer_mlir.lowering.cpu.vectorize.tile import TilePlan
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply


@dataclass(frozen=True)
class Span:
    """A range of a loop: ``points`` iterations from ``base``.

    ``valid`` is the dynamic number of these iterations that are within the loop's bounds, or None
    if all are.
    """

    base: Index
    points: int
    valid: ir.Value | None = None


@dataclass(frozen=True)
class Instance:
    """A register of a micro tile.

    ``offsets`` maps each unrolled dimension, and the dimension along the lanes, to the offset of
    the register's first lane from the micro tile's first point, in points. ``mask`` has the
    register's valid lanes.
    """

    offsets: dict[int, int]
    mask: Mask


@dataclass(frozen=True)
class Address:
    """An address in elements of a flat buffer: a sum of products, plus the constant ``known``.

    ``moving`` has the two factors of each product, at least one of which is an emitted value.
    """

    moving: tuple[tuple[Index, Index], ...]
    known: int


Spans = dict[int, Span]


class Registers:
    """Emits the addresses, loads and stores of a micro tile's registers.

    ``vector`` is the dimension along the lanes, None for scalar code. ``unroll`` maps the unrolled
    dimensions to their factors. ``scope`` memoizes the values emitted in the current block.
    ``spans`` arguments have the micro tile's part of each loop, by dimension.
    """

    def __init__(self, nest: Nest, plan: TilePlan) -> None:
        self.rank = len(nest.sizes)
        self.lanes = plan.lanes
        self.vector = None if plan.vector is None else nest.loops[plan.vector]
        self.unroll = {nest.loops[loop]: factor for loop, factor in plan.unroll}
        self.scope = Scope()

    def along_lanes(self, span: Span) -> list[tuple[int, Mask]]:
        """Return the registers that cover a span of the vector loop.

        A register is given by a pair: the offset in points of its first lane, and the mask of its
        valid lanes.
        """
        if span.valid is not None:
            mask = self.scope.once(
                ("mask", span.valid), lambda: memory.make_mask(self.lanes, span.valid)
            )
            return [(0, mask)]
        offsets = range(0, span.points, self.lanes)
        return [(o, memory.make_mask(self.lanes, span.points - o)) for o in offsets]

    def broadcast(self, value: ir.Value) -> ir.Value:
        """Emit a value broadcast to all lanes."""
        return self.scope.once(("lanes", value), lambda: memory.broadcast(value, self.lanes))

    def dim_index(self, dim: int, spans: Spans, instance: Instance) -> Index:
        """Return the loop index along ``dim`` for a register.

        The result is a vector of the indices of all lanes if ``dim`` is along the lanes, else a
        scalar.
        """
        if dim not in spans:
            return 0
        index = add(spans[dim].base, instance.offsets.get(dim, 0))
        if dim != self.vector:
            return index
        return self.scope.once(
            ("lane indices", index), lambda: memory.lane_indices(index, self.lanes)
        )

    def _address(self, operand: Operand, spans: Spans, instance: Instance) -> Address:
        """Return the address of an operand for a register as a sum that is not emitted yet.

        Operations are emitted only for the indices of panels.
        """
        known, moving = 0, []
        if isinstance(operand.offset, int):
            known = operand.offset
        else:
            moving.append((operand.offset, 1))
        for loop, span in spans.items():
            stride = operand.strides[loop]
            offset = instance.offsets.get(loop, 0)
            if isinstance(span.base, int):
                offset += span.base
            elif not isinstance(stride, int) or stride:
                moving.append((span.base, stride))
            if isinstance(stride, int):
                known += offset * stride
            elif offset:
                moving.append((offset, stride))
        for jump in operand.jumps:
            if jump.loop not in spans:
                continue
            offset = instance.offsets.get(jump.loop, 0)
            number = self._panel(spans[jump.loop].base, offset, jump.width)
            if isinstance(number, int) and isinstance(jump.distance, int):
                known += number * jump.distance
            elif number != 0:
                moving.append((number, jump.distance))
        return Address(tuple(moving), known)

    def _panel(self, base: Index, offset: int, width: int) -> Index:
        """Return the index of the panel that contains point ``base + offset`` of a loop.

        A panel has ``width`` points. If ``base`` is dynamic, the index is that of the panel with
        point ``base``, because a micro tile never crosses panels.
        """
        if isinstance(base, int):
            return (base + offset) // width
        return self.scope.once(("panel", base, width), lambda: arith.divui(base, constant(width)))

    def _emit_address(self, address: Address) -> Index:
        base = self.scope.once(("address", address.moving), lambda: _sum(address.moving))
        return add(base, address.known)

    def address(self, operand: Operand, spans: Spans, instance: Instance) -> Index:
        """Emit the address in an operand of the first lane of the register ``instance``.

        The address counts elements. ``spans`` has the micro tile's part of each loop.
        """
        return self._emit_address(self._address(operand, spans, instance))

    def _vector_stride(self, operand: Operand) -> Index:
        return 0 if self.vector is None else operand.strides[self.vector]

    def load(self, operand: Operand, spans: Spans, instance: Instance) -> ir.Value:
        """Emit the load of an operand's elements for the register ``instance``.

        The result is a vector, or a scalar if the operand is invariant along the lanes. ``spans``
        has the micro tile's part of each loop.
        """
        if operand.is_scalar:
            return operand.value
        if operand.results is not None:
            return self._load_anywhere(operand, spans, instance)
        along = self._loaded_loop(operand, spans, instance)
        if along is not None:
            return self._load_transposed(operand, spans, instance, along)
        stride = self._vector_stride(operand) if self.vector in instance.offsets else 0
        address = self._address(operand, spans, instance)
        mask = instance.mask if not isinstance(stride, int) or stride else Mask(None, None)
        return self.scope.once(
            ("load", operand.value, address, mask.count),
            lambda: memory.load(operand, self._emit_address(address), stride, self.lanes, mask),
        )

    def _adjacent_loop(self, operand: Operand, spans: Spans) -> int | None:
        """Return the unrolled loop along which an operand is contiguous.

        The result is None if there is no such loop, if the code is scalar, or if the micro tile has
        a dynamic number of points along the lanes.
        """
        if self.vector not in spans or spans[self.vector].valid is not None:
            return None
        return next((loop for loop in self.unroll if operand.strides[loop] == 1), None)

    def _loaded_loop(self, operand: Operand, spans: Spans, instance: Instance) -> int | None:
        """Return the unrolled loop for contiguous loads with a transpose; None without such a loop.

        Along that loop, adjacent points are contiguous in memory, while the lanes of a register are
        too far apart for contiguous loads. So contiguous loads along the loop, one for each lane,
        and a transpose replace a gather.
        """
        if self.vector not in instance.offsets or operand.jumps:
            return None
        along = self._adjacent_loop(operand, spans)
        if along not in instance.offsets or not needs_gather_or_transpose(
            self._vector_stride(operand)
        ):
            return None
        return along if spans[along].points >= MIN_TRANSPOSED else None

    def _load_transposed(
        self, operand: Operand, spans: Spans, instance: Instance, along: int
    ) -> ir.Value:
        """Emit the load of the register ``instance``, by contiguous loads along the loop ``along``.

        One row of elements along that loop is loaded for each lane, and the rows are transposed.
        The transpose also gives the registers at adjacent points of the loop, which are memoized.
        """
        group, place = divmod(instance.offsets[along], self.lanes)
        first = Instance(instance.offsets | {along: group * self.lanes}, instance.mask)
        count = min(self.lanes, spans[along].points - group * self.lanes)
        address = self._address(operand, spans, first)
        registers = self.scope.once(
            ("transposed", operand.value, address, instance.mask.count),
            lambda: self._columns(operand, spans, first, count),
        )
        return registers[place]

    def _columns(
        self, operand: Operand, spans: Spans, first: Instance, count: int
    ) -> list[ir.Value]:
        """Emit and return ``count`` registers, by contiguous loads and a transpose.

        ``first`` is the first of the registers. For each lane, the elements of all registers are
        contiguous in memory: they are loaded as a row. The transposed rows are the registers.
        """
        assert self.vector is not None
        size = 1 << (count - 1).bit_length()
        mask = memory.make_mask(size, count)
        existing = first.mask.count if isinstance(first.mask.count, int) else self.lanes
        rows: list[ir.Value] = []
        for lane in range(existing):
            offsets = first.offsets | {self.vector: first.offsets[self.vector] + lane}
            address = self._address(operand, spans, Instance(offsets, mask))
            rows.append(memory.load(operand, self._emit_address(address), 1, size, mask))
        rows += [rows[-1]] * (self.lanes - existing)
        return transpose([joined(rows[row::size]) for row in range(size)], self.lanes)

    def _load_anywhere(self, operand: Operand, spans: Spans, instance: Instance) -> ir.Value:
        """Emit the load of an operand with a non-linear map: a gather at every lane's index."""
        dims = [self.dim_index(d, spans, instance) for d in range(self.rank)]
        address = as_value(operand.address(dims))
        if isinstance(address.type, ir.VectorType):
            return memory.gather(operand, 0, address, self.lanes, instance.mask)
        return memory.load(operand, address, 0, self.lanes, instance.mask)

    def store_all(
        self, operand: Operand, spans: Spans, instances: list[Instance], values: Sequence[ir.Value]
    ) -> None:
        """Emit the stores of an output's registers, shuffled if that makes the stores contiguous.

        ``values`` has the value of each register of ``instances``, and ``spans`` the micro tile's
        part of each loop.
        """
        pairs = list(zip(instances, values, strict=True))
        along = self._interleaved_loop(operand, spans)
        if along is not None:
            for group in _groups(pairs, along, spans[along].points).values():
                self._store_interleaved(operand, spans, group)
            return
        along = self._transposed_loop(operand, spans)
        if along is not None:
            for group in _groups(pairs, along, self.lanes).values():
                self._store_transposed(operand, spans, group)
            return
        for instance, value in pairs:
            self._store(operand, spans, instance, value)

    def _interleaved_loop(self, operand: Operand, spans: Spans) -> int | None:
        """Return the unrolled loop whose registers are stored interleaved; None if there is none.

        In memory, a register's lanes are 2 to ``MAX_STRIDE`` elements apart, and the elements
        between them are in the registers at the other points of that loop: ``a0 b0 a1 b1`` for a
        stride of 2.
        """
        along, stride = self._adjacent_loop(operand, spans), self._vector_stride(operand)
        if along is None or operand.jumps or not isinstance(stride, int):
            return None
        return along if 1 < stride <= MAX_STRIDE and spans[along].points == stride else None

    def _store_interleaved(
        self, operand: Operand, spans: Spans, group: list[tuple[Instance, ir.Value]]
    ) -> None:
        """Emit the stores of registers that together cover a contiguous piece of memory.

        ``group`` has the registers with their values, in the order of their first elements in
        memory.
        """
        first = group[0][0]
        address = self._address(operand, spans, first)
        count = first.mask.count
        for number, part in enumerate(interleave([value for _, value in group], self.lanes)):
            start = number * self.lanes
            existing = count * len(group) - start if isinstance(count, int) else self.lanes
            if existing > 0:
                place = add(self._emit_address(address), start)
                mask = memory.make_mask(self.lanes, existing)
                memory.store(operand, place, 1, self.lanes, mask, part)

    def _transposed_loop(self, operand: Operand, spans: Spans) -> int | None:
        """Return the unrolled loop along which registers are transposed before their store.

        Adjacent points of the output along that loop are contiguous in memory, but adjacent lanes
        are not. The result is None if there is no such loop, or if the loop has too few points for
        a transpose to pay.
        """
        along = self._adjacent_loop(operand, spans)
        if along is None or self._vector_stride(operand) == 1:
            return None
        return along if spans[along].points >= MIN_TRANSPOSED else None

    def _store_transposed(
        self, operand: Operand, spans: Spans, group: list[tuple[Instance, ir.Value]]
    ) -> None:
        """Emit the stores of registers by a transpose and one contiguous store for each lane.

        For each lane, the elements of all registers of ``group`` are contiguous in memory.
        ``group`` has pairs of a register and its value, in the order of these elements in memory.
        """
        assert self.vector is not None
        first, values = group[0][0], [value for _, value in group]
        size = 1 << (len(values) - 1).bit_length()
        columns = transpose([*values, *[values[-1]] * (size - len(values))], self.lanes)
        count = first.mask.count
        existing = count if isinstance(count, int) else self.lanes
        mask = memory.make_mask(size, len(values))
        for lane in range(existing):
            row = segment(columns[lane % size], lane // size, size)
            offsets = first.offsets | {self.vector: first.offsets[self.vector] + lane}
            address = self._address(operand, spans, Instance(offsets, mask))
            memory.store(operand, self._emit_address(address), 1, size, mask, row)

    def _store(self, operand: Operand, spans: Spans, instance: Instance, value: ir.Value) -> None:
        stride = self._vector_stride(operand) if self.vector in instance.offsets else 0
        address = self.address(operand, spans, instance)
        memory.store(operand, address, stride, self.lanes, instance.mask, value)


def _groups(
    pairs: Sequence[tuple[Instance, ir.Value]], along: int, size: int
) -> dict[tuple[tuple[int, int], ...], list[tuple[Instance, ir.Value]]]:
    """Group registers and their values by ``size`` adjacent points of loop ``along``.

    The key of a group has a pair for each loop: its dimension, and the offset that all registers of
    the group share along it. For the loop ``along``, the pair has the index of the group instead of
    an offset.
    """
    groups: dict[tuple[tuple[int, int], ...], list[tuple[Instance, ir.Value]]] = {}
    for instance, value in pairs:
        place = instance.offsets | {along: instance.offsets[along] // size}
        groups.setdefault(tuple(sorted(place.items())), []).append((instance, value))
    return groups


def _sum(terms: tuple[tuple[Index, Index], ...]) -> Index:
    """Emit the sum of the products of the pairs in ``terms``."""
    total: Index = 0
    for index, stride in terms:
        total = add(total, multiply(index, stride))
    return total
