"""Defines a region's description, which a code generator receives, and the code that it returns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import Grain
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.ir.boxes_text import Box
from rammer_mlir.passes.ir.constants import ConstantArgument
from rammer_mlir.passes.ir.entry import COMPOSITE, entry_block, functions, symbol_name
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.readings import read_all
from rammer_mlir.passes.regions.units import Unit, units_of
from rammer_mlir.passes.regions.weights import Weights, weights_of
from rammer_mlir.programs.module_options import Value
from rammer_mlir.programs.modules import Requirement


@dataclass(frozen=True)
class RegionOperation:
    """A single operation of a region, or a composite (a match of a code generator's pattern).

    The values of a region are numbered: the region's inputs first, then the results of the region's
    operations.

    Attributes:
        name: the composite's name, or the kind of the recognized operation, such as ``conv2d``;
            MLIR's name of an operation that is not recognized.
        readings: the recognized operations, several for a composite; empty if none is recognized.
        values: maps each operand and result of ``readings``, given by its IR value
            (``Operand.value``), to its number in the region; values inside a composite have no
            number.
        inputs: the numbers of the operands of the operation or composite.
        outputs: the numbers of the results of the operation or composite.
    """

    name: str
    readings: tuple[Reading, ...]
    values: Mapping[Hashable, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """The description of a region for its code generator.

    The region's values have numbers: first the inputs, then the results of the operations.

    Attributes:
        name: name of the region's function.
        inputs: types of the region's inputs.
        outputs: types of the region's results.
        operations: the region's composites and single operations in topological order.
        results: the numbers of the values that the region returns.
        text: a module of MLIR's own dialects with one public function of the region's name, which
            computes the results from the inputs.
        target: the target of the code, as ``--target`` names it: ``cpu`` is this machine.
        options: values of the options that the code generator declares, by name.
    """

    name: str
    inputs: tuple[ir.Type, ...]
    outputs: tuple[ir.Type, ...]
    operations: tuple[RegionOperation, ...]
    results: tuple[int, ...]
    text: str = ""
    target: str = "cpu"
    options: Mapping[str, Value] = field(default_factory=dict[str, Value])

    @property
    def macs(self) -> int:
        """The count of multiply-accumulates of the whole region."""
        return sum(reading.macs for each in self.operations for reading in each.readings)


@dataclass(frozen=True)
class Layouts:
    """Blocked layouts that a code generator supports for a region's inputs and outputs.

    ``inputs`` and ``outputs`` map the index of an input or output to one of its dimensions. The
    value may then be stored in blocks of 16 elements of that dimension, with the elements of a
    block innermost. Blocks of dimension 1 of ``[N, C, H, W]``, for example, have the shape
    ``[N, C / 16, H, W, 16]``. The dimension's size is a multiple of 16 and the elements are f32.
    `rtask-layout-regions` decides which of these values are blocked: the region then has a
    ``linalg.unpack`` of a blocked input, and a ``linalg.pack`` produces a blocked output.
    """

    inputs: Mapping[int, int] = field(default_factory=dict[int, int])
    outputs: Mapping[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        """Raise an OptionError if ``inputs`` or ``outputs`` do not map integers to integers."""
        for given in vars(self).values():
            if not _are_dimensions(given):
                raise OptionError(
                    f"Layouts: expected dimensions by number, as {{0: 1}}, found {given!r}"
                )

    def __bool__(self) -> bool:
        """Whether the code generator supports blocks for any input or output of the region."""
        return bool(self.inputs or self.outputs)


def _are_dimensions(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    pairs = cast("Mapping[object, object]", given).items()
    return all(type(each) is int for pair in pairs for each in pair)


@dataclass(frozen=True)
class RegionCode:
    """The code that a code generator returns for a region, as an external rKernel.

    Attributes:
        code: text of source code or bytes of an object; for an engine, a graph or binary.
        symbol: name of the function
            ``int32_t symbol(int64_t rtask, inputs..., outputs...)``; on a GPU of the function
            ``void symbol(int64_t rtask, int32_t thread, int32_t threads, inputs..., outputs...)``,
            which all threads of a block call. For code with a state, the prefix of the names of
            three functions, which end with ``_open``, ``_run`` and ``_close``. For an engine, the
            name that the engine gets.
        form: ``c``, ``llvm`` or ``object``; ``graph`` or ``binary`` for an engine; on a GPU
            ``llvm``, and on an NVIDIA GPU ``ptx`` or ``cuda``.
        num_rtasks: count of the rTasks.
        reads: the box (offsets and sizes) of an input that rTask ``d0`` reads, by the input's
            index; each rTask reads the whole of an input without an entry.
        writes: the box of an output that rTask ``d0`` writes, by the output's index; an rTask
            writes the whole of an output without an entry.
        has_state: whether the function has a state, which is opened before the first run; see
            ``rammer_mlir.engines.native``. Graphs and binaries always have a state.
        holds_weights: whether the state depends on the region's weights: then regions that differ
            only in their weights have separate states, and so separate rKernels.
        engine: name of the engine that runs a graph or binary.
        needs: packages that must be installed where the code runs.
        objects: relocatable objects that the code calls.
        alignment: alignment of inputs and outputs in bytes, a power of two up to 64.
        efficiency: estimated arithmetic throughput of the code, divided by that of the host's
            rKernels.
        scratch_bytes: bytes ``n`` of scratch memory that an rTask uses only while it runs; 0 for
            none. The function gets a buffer for it after the outputs; rTask ``i`` uses the bytes
            from ``i * m`` on, where ``m`` is ``n`` rounded up to a multiple of 64.
        grain: ``region``: the code computes on the thread of the calling vEU, and other rTasks run
            at the same time. ``device``: the code computes on its own threads, as many as there are
            vEUs, and no other rTask runs at the same time; the rKernel has a single rTask, and
            is for CPUs.
    """

    code: str | bytes
    symbol: str
    form: str = "c"
    num_rtasks: int = 1
    reads: Mapping[int, Box] = field(default_factory=dict[int, Box])
    writes: Mapping[int, Box] = field(default_factory=dict[int, Box])
    has_state: bool = False
    holds_weights: bool = False
    engine: str = ""
    needs: tuple[Requirement, ...] = ()
    objects: tuple[bytes, ...] = ()
    alignment: int = 1
    efficiency: float = 1.0
    scratch_bytes: int = 0
    grain: Grain = "region"


def region_of(
    module: ir.Module, function: ir.OpView, text: str = "", target: str = "cpu"
) -> Region:
    """Return the description of a region from a function that `rtask-outline-regions` has made.

    Args:
        module: the module of the function.
        function: the function of the region.
        text: a module in MLIR's own dialects with the same function.
        target: the target of the code.
    """
    block = function.operation.regions[0].blocks[0]
    callees = {symbol_name(each): each for each in functions(module)}
    numbers: dict[Hashable, int] = {value: n for n, value in enumerate(block.arguments)}
    operations: list[RegionOperation] = []
    known = _agreed_weights(module, function)
    for unit in units_of(block, known):
        for value in unit.outputs:
            numbers[value] = len(numbers)
        operations.append(_operation(unit, numbers, callees, known))
    *_, end = block.operations
    returned = list(end.operation.operands)
    return Region(
        symbol_name(function),
        tuple(value.type for value in block.arguments),
        tuple(value.type for value in returned),
        tuple(operations),
        tuple(numbers[value] for value in returned),
        text,
        target,
    )


def _agreed_weights(module: ir.Module, function: ir.OpView) -> Weights:
    """Return the weights among the arguments of a region's function, by argument.

    An argument is a weight if all calls pass equal weights to it and the IR stores their content.
    """
    entry = weights_of(module)
    name = symbol_name(function)
    arguments = list(function.operation.regions[0].blocks[0].arguments)
    found: dict[ir.Value, ConstantArgument] = {}
    calls = [
        list(op.operation.operands)
        for op in entry_block(module).operations
        if op.operation.name == "func.call"
        and ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value == name
    ]
    for number, values in enumerate(zip(*calls, strict=True)):
        weights = [entry.get(value) for value in values]
        first = weights[0]
        is_agreed = all(
            w is not None and first and w.attributes == first.attributes for w in weights
        )
        if first is not None and is_agreed and first.held is not None:
            found[arguments[number]] = replace(first, number=number, value=arguments[number])
    return found


def _operation(
    unit: Unit,
    numbers: Mapping[Hashable, int],
    callees: Mapping[str, ir.OpView],
    weights: Weights,
) -> RegionOperation:
    inputs = tuple(numbers[value] for value in unit.inputs)
    outputs = tuple(numbers[value] for value in unit.outputs)
    if unit.root.name != "func.call":
        name = unit.readings[0].kind if unit.readings else unit.root.name
        known = (*unit.inputs, *unit.outputs)
        values: dict[Hashable, int] = {value: numbers[value] for value in known}
        return RegionOperation(name, unit.readings, values, inputs, outputs)
    callee = callees[ir.FlatSymbolRefAttr(unit.root.attributes["callee"]).value].operation
    body = callee.regions[0].blocks[0]
    *computed, end = body.operations
    values = dict(zip(body.arguments, (numbers[v] for v in unit.root.operands), strict=True))
    values |= dict(zip(end.operation.operands, outputs, strict=True))
    name = ir.StringAttr(callee.attributes[COMPOSITE]).value
    pairs = zip(body.arguments, unit.root.operands, strict=True)
    inner: dict[ir.Value, ConstantArgument] = {
        a: replace(weights[v], value=a) for a, v in pairs if v in weights
    }
    return RegionOperation(name, tuple(read_all(computed, inner)), values, inputs, outputs)
