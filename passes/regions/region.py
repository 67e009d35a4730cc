"""Describes an outlined region for its code generator, and defines the generator's result."""

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
    """A composite, or a single operation, of a region.

    The values of a region are numbered: the region's inputs first, then the results of the region's
    operations.

    Attributes:
        name: the composite's name, or the reading's kind.
        readings: the meaning of the operation or composite; empty if an operation has no reading.
        values: the number in the region of each operand and result that ``readings`` names, by
            value; values inside a composite have no number.
        inputs: the numbers of the operands of the operation or composite.
        outputs: the numbers of its results.
    """

    name: str
    readings: tuple[Reading, ...]
    values: Mapping[Hashable, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """A region. Its values have numbers: its inputs first, then the results of its operations.

    Attributes:
        name: the name of its function.
        inputs: the types of its inputs.
        outputs: the types of its results.
        operations: its operations in topological order.
        results: the numbers of the values that it returns.
        text: a module of MLIR's own dialects with one public function of the region's name, which
            computes the results from the inputs.
        target: the target of the code, as ``--target`` names it: ``cpu`` is this machine.
        options: values of the options that the code generator declares.
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
        """The number of multiply-accumulates."""
        return sum(reading.macs for each in self.operations for reading in each.readings)


@dataclass(frozen=True)
class Layouts:
    """Additional layouts that a code generator supports for a region's values.

    ``inputs`` and ``outputs`` map numbers of inputs and outputs to a dimension. Each of these
    values may be stored in blocks of 16 elements of that dimension, with the elements of a block
    innermost: ``[N, C, H, W]`` with dimension 1 as ``[N, C / 16, H, W, 16]``. The dimension is a
    multiple of 16 and the elements are f32. `rtask-layout-regions` chooses among them: the region
    then has a ``linalg.unpack`` of a blocked input, and a ``linalg.pack`` produces a blocked
    output.
    """

    inputs: Mapping[int, int] = field(default_factory=dict[int, int])
    outputs: Mapping[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        """Raise an OptionError if a number or a dimension is no integer."""
        for given in vars(self).values():
            if not _are_dimensions(given):
                raise OptionError(
                    f"Layouts: expected dimensions by number, as {{0: 1}}, found {given!r}"
                )

    def __bool__(self) -> bool:
        """Whether any value may be stored in blocks."""
        return bool(self.inputs or self.outputs)


def _are_dimensions(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    pairs = cast("Mapping[object, object]", given).items()
    return all(type(each) is int for pair in pairs for each in pair)


@dataclass(frozen=True)
class RegionCode:
    """A code generator's result for a region: the code of an external rKernel.

    Attributes:
        code: source or an object; a graph or other bytes for an engine.
        symbol: the function ``int32_t symbol(int64_t rtask, inputs..., outputs...)``; on a GPU
            ``void symbol(int64_t rtask, int32_t thread, int32_t threads, inputs..., outputs...)``,
            which all threads of a block call; for code with state the prefix to which ``_open``,
            ``_run`` and ``_close`` are appended, or the name that the engine gets.
        form: ``c``, ``llvm`` or ``object``; ``graph`` or ``binary`` for an engine; on a GPU
            ``llvm``, and on an NVIDIA GPU ``ptx`` or ``cuda``.
        num_rtasks: the number of rTasks.
        reads: the box of each input, by its number, that rTask ``d0`` reads, if not all of it.
        writes: the box of each output, by its number, if not all of it.
        has_state: whether the function has a state, which is opened before the first run; see
            ``rammer_mlir.engines.native``. Functions of graphs and binaries always have.
        holds_weights: whether the state depends on the region's weights: then regions that differ
            only in their weights have separate states, and so separate rKernels.
        engine: the name of the engine that runs a graph or binary.
        needs: packages that must be installed where the code runs.
        objects: relocatable objects that the code calls.
        alignment: alignment of inputs and outputs in bytes, a power of two up to 64.
        efficiency: estimated speed of its arithmetic, as a share of that of the host's rKernels.
        scratch_bytes: scratch memory of each rTask, which is dead after it: an additional buffer
            after the outputs, in which rTask ``i`` has the bytes from ``i * n`` on, where ``n`` is
            this number rounded up to a multiple of 64. 0 for no such buffer.
        grain: ``region``: the code computes on the thread of the calling vEU, and other rTasks run
            at the same time; ``device``: on its own threads, as many as there are vEUs, and no
            other rTask runs at the same time. Such code has a single rTask, and is for CPUs.
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

    An argument counts if all calls pass it equal weights whose content is in the IR.
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
