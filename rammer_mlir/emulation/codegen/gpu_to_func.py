"""Converts a ``gpu.module`` to functions that call the emulator's runtime for GPU operations.

All other operations of the kernel are unchanged. Memory spaces are removed from types, because all
memory is CPU memory. A kernel's workgroup buffers become arguments after its other arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rammer_mlir.bindings import arith, func, ir, llvm, memref
from rammer_mlir.emulation.codegen import matrix_units, wave_products
from rammer_mlir.emulation.codegen.async_copies import replace_copies
from rammer_mlir.emulation.codegen.i64_language import Exchange, constant_word, i64
from rammer_mlir.emulation.codegen.indices import check_indices
from rammer_mlir.emulation.codegen.sites import Sites
from rammer_mlir.emulation.records import KernelArgument, Lane, SharedBuffer, Shuffle, World
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.gpu.program.barriers import PAUSE
from rammer_mlir.lowering.ir_walk import walk

_ALIGNMENT = 256

_REDUCTIONS: dict[str, Callable[[ir.Value, ir.Value], ir.Value]] = {
    "add": lambda a, b: arith.addf(a, b) if _is_float(a) else arith.addi(a, b),
    "mul": lambda a, b: arith.mulf(a, b) if _is_float(a) else arith.muli(a, b),
    "minsi": lambda a, b: arith.minsi(a, b),
    "maxsi": lambda a, b: arith.maxsi(a, b),
    "minui": lambda a, b: arith.minui(a, b),
    "maxui": lambda a, b: arith.maxui(a, b),
    "minnumf": lambda a, b: arith.minnumf(a, b),
    "maxnumf": lambda a, b: arith.maxnumf(a, b),
    "minimumf": lambda a, b: arith.minimumf(a, b),
    "maximumf": lambda a, b: arith.maximumf(a, b),
    "and": lambda a, b: arith.andi(a, b),
    "or": lambda a, b: arith.ori(a, b),
    "xor": lambda a, b: arith.xori(a, b),
}


@dataclass(frozen=True)
class FunctionModule:
    """A kernel and its callees as a module of ``func.func``s.

    ``kernel`` is the kernel's name; ``arguments`` and ``shared`` describe the kernel's arguments
    and workgroup buffers.
    """

    module: ir.Module
    kernel: str
    arguments: tuple[KernelArgument, ...]
    shared: tuple[SharedBuffer, ...]


def to_functions(module: ir.Module, kernel: str, sites: Sites, *, checked: bool) -> FunctionModule:
    """Return a new module with the functions of a kernel's ``gpu.module`` as ``func.func``s.

    ``kernel`` is the kernel's name. Operations that can fault are added to ``sites``. With
    ``checked``, checks of indices are inserted.

    Raises:
        UnsupportedError: if there is no such kernel, or the kernel uses an operation that cannot be
            emulated.
    """
    holder = _holder(module, kernel)
    result = ir.Module.create()
    arguments: tuple[KernelArgument, ...] = ()
    shared: tuple[SharedBuffer, ...] = ()
    with ir.InsertionPoint(result.body):
        for operation in holder.regions[0].blocks[0].operations:
            copy = operation.operation.clone().operation
            if copy.name == "func.func" and not len(copy.regions[0].blocks):
                _define_pause(copy)
            if copy.name != "gpu.func":
                continue
            if _symbol(copy) == kernel:
                arguments, shared = _arguments(copy), _shared(copy)
            _to_function(copy)
    if checked:
        check_indices(result, sites)
    replace_copies(list(walk(result.operation)), sites)
    for number, operation in enumerate(walk(result.operation)):
        _strip_spaces(operation)
        _rewrite(operation, number, sites)
    _retype_functions(result)
    return FunctionModule(result, kernel, arguments, shared)


def kernel_names(module: ir.Module) -> list[str]:
    """Return the names of a module's kernels in order."""
    return [
        _symbol(operation) for operation in walk(module.operation)
        if operation.name == "gpu.func" and _is_kernel(operation)
    ]  # fmt: skip


def _is_kernel(operation: ir.Operation) -> bool:
    return "kernel" in operation.attributes or "gpu.kernel" in operation.attributes


def _symbol(operation: ir.Operation) -> str:
    return ir.StringAttr(operation.attributes["sym_name"]).value


def _holder(module: ir.Module, kernel: str) -> ir.Operation:
    for operation in walk(module.operation):
        if operation.name == "gpu.func" and _symbol(operation) == kernel:
            assert operation.parent is not None
            return operation.parent.operation
    raise UnsupportedError(
        f"emulation: expected a kernel '{kernel}', found "
        f"{', '.join(kernel_names(module)) or 'none'}; name one of these"
    )


def _function_type(operation: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)


def element_bytes(kind: ir.Type) -> int:
    """Return the size in memory, in bytes, of a value of a scalar, vector or complex type."""
    if isinstance(kind, ir.IndexType):
        return 8
    if isinstance(kind, ir.VectorType):
        count = 1
        for size in kind.shape:
            count *= size
        return count * element_bytes(kind.element_type)
    if isinstance(kind, ir.ComplexType):
        return 2 * element_bytes(kind.element_type)
    if isinstance(kind, (ir.IntegerType, ir.FloatType)):
        return max(1, kind.width // 8)
    return 8


def _buffer_bytes(kind: ir.MemRefType) -> int:
    elements = 1
    for size in kind.shape:
        elements *= size
    return elements * element_bytes(kind.element_type)


def _arguments(kernel: ir.Operation) -> tuple[KernelArgument, ...]:
    arguments: list[KernelArgument] = []
    for number, kind in enumerate(_function_type(kernel).inputs):
        name = f"argument {number}"
        if not isinstance(kind, ir.MemRefType):
            arguments.append(KernelArgument(name, 0, str(kind), element_bytes(kind)))
            continue
        if not kind.has_static_shape:
            raise UnsupportedError(
                f"emulation of '{_symbol(kernel)}', {name}: expected a static shape, found {kind}"
            )
        element = kind.element_type
        size = _buffer_bytes(kind)
        arguments.append(KernelArgument(name, size, str(element), element_bytes(element)))
    return tuple(arguments)


def _count(kernel: ir.Operation, name: str) -> int:
    attributes = kernel.attributes
    return ir.IntegerAttr(attributes[name]).value if name in attributes else 0


def _shared(kernel: ir.Operation) -> tuple[SharedBuffer, ...]:
    begin = len(_function_type(kernel).inputs)
    count = _count(kernel, "workgroup_attributions")
    block = kernel.regions[0].blocks[0]
    buffers: list[SharedBuffer] = []
    offset = 0
    for number in range(begin, begin + count):
        kind = ir.MemRefType(block.arguments[number].type)
        size = _buffer_bytes(kind)
        buffers.append(SharedBuffer(size, element_bytes(kind.element_type), offset))
        # A gap after each buffer belongs to no buffer, so that overruns are found.
        offset += (size // _ALIGNMENT + 2) * _ALIGNMENT
    return tuple(buffers)


def _to_function(operation: ir.Operation) -> None:
    """Replace a ``gpu.func`` by a ``func.func`` that has the workgroup buffers as arguments."""
    kind = _function_type(operation)
    begin = len(kind.inputs) + _count(operation, "workgroup_attributions")
    block = operation.regions[0].blocks[0]
    _allocate_private(block, begin)
    inputs = [argument.type for argument in block.arguments]
    name = _symbol(operation)
    with operation.location:
        function = func.FuncOp(name, ir.FunctionType.get(inputs, kind.results))
    for moved in list(operation.regions[0].blocks):
        moved.append_to(function.operation.regions[0])
    operation.erase()


def _define_pause(operation: ir.Operation) -> None:
    """Give the external function ``PAUSE``, which lanes call between polls, an empty body.

    Raises:
        UnsupportedError: for any other function without a body.
    """
    if _symbol(operation) != PAUSE:
        raise UnsupportedError(
            f"emulation: expected functions with a body, found '{_symbol(operation)}' without one"
        )
    entry = operation.regions[0].blocks.append(*_function_type(operation).inputs)
    with ir.InsertionPoint(entry), operation.location:
        func.ReturnOp([])


def _allocate_private(block: ir.Block, begin: int) -> None:
    for number in reversed(range(begin, len(block.arguments))):
        argument = block.arguments[number]
        with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
            frame = memref.AllocaOp(argument.type, [], [])
        argument.replace_all_uses_with(frame.result)
        block.erase_argument(number)


def _plain(kind: ir.Type) -> ir.Type:
    """Return ``kind`` without memory spaces, if it is a memref, function or pointer type.

    Other types are returned unchanged.
    """
    if isinstance(kind, ir.MemRefType):
        return ir.MemRefType.get(kind.shape, kind.element_type, kind.layout)
    if isinstance(kind, ir.FunctionType):
        return ir.FunctionType.get(
            [_plain(t) for t in kind.inputs], [_plain(t) for t in kind.results]
        )
    return ir.Type.parse("!llvm.ptr") if str(kind).startswith("!llvm.ptr<") else kind


def _strip_spaces(operation: ir.Operation) -> None:
    for result in operation.results:
        result.set_type(_plain(result.type))
    for region in operation.regions:
        for block in region.blocks:
            for argument in block.arguments:
                argument.set_type(_plain(argument.type))
    for name in ("function_type", "type"):
        if name in operation.attributes and isinstance(operation.attributes[name], ir.TypeAttr):
            plain = _plain(ir.TypeAttr(operation.attributes[name]).value)
            operation.attributes[name] = ir.TypeAttr.get(plain)


def _retype_functions(module: ir.Module) -> None:
    for operation in module.body.operations:
        if operation.operation.name == "func.func" and len(operation.regions[0].blocks):
            inputs = [a.type for a in operation.regions[0].blocks[0].arguments]
            results = _function_type(operation.operation).results
            kind = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
            operation.operation.attributes["function_type"] = kind


_LANE_WORDS = {"gpu.thread_id": Lane.LANE, "gpu.block_id": Lane.BLOCK}
_LAUNCH_WORDS = {
    "gpu.block_dim": World.THREADS,
    "gpu.grid_dim": World.NUM_BLOCKS,
    "gpu.subgroup_size": World.SUBGROUP,
}
_BARRIERS = ("gpu.barrier", "nvvm.barrier0", "nvvm.barrier", "rocdl.barrier", "rocdl.s.barrier")
PAUSES = ("nvvm.nanosleep", "rocdl.s.sleep")


def _rewrite(operation: ir.Operation, number: int, sites: Sites) -> None:
    """Replace an operation of a GPU dialect by operations that call the emulator's runtime.

    A cast of memory spaces is replaced by its operand. Operations of other dialects are unchanged.
    ``sites`` assigns a site index to an operation that can fault, for fault messages. ``number`` is
    the argument of ``Sites.add`` that distinguishes operations with the same name and location.

    Raises:
        UnsupportedError: if the operation cannot be emulated.
    """
    name = operation.name
    if (
        not name.startswith(("gpu.", "nvvm.", "nvgpu.", "rocdl."))
        and name != "memref.memory_space_cast"
    ):
        return
    with ir.InsertionPoint(operation), operation.location:
        if name in _LANE_WORDS or name in _LAUNCH_WORDS:
            _replace(operation, [_dimension_word(operation)])
        elif name in ("gpu.lane_id", "gpu.subgroup_id", "gpu.num_subgroups"):
            _replace(operation, [_subgroup_word(name)])
        elif name in _BARRIERS:
            func.CallOp([], "emulator_barrier", [constant_word(sites.add(operation, number))])
            operation.erase()
        elif name == "gpu.shuffle":
            _replace(operation, _shuffle(operation, sites.add(operation, number)))
        elif name == "gpu.subgroup_reduce":
            _replace(operation, [_subgroup_reduce(operation, sites.add(operation, number))])
        elif name in matrix_units.OPERATIONS:
            _replace(operation, [_matrix_operation(operation, sites.add(operation, number))])
        elif name in wave_products.OPERATIONS:
            exchange = _from_lane(sites.add(operation, number), wave_products.LANES)
            _replace(operation, [wave_products.multiply_and_add(operation, exchange)])
        elif name == "memref.memory_space_cast":
            _replace(operation, [operation.operands[0]])
        elif name == "gpu.return":
            func.ReturnOp(list(operation.operands))
            operation.erase()
        elif name in PAUSES:
            operation.erase()
        else:
            raise UnsupportedError(
                f"emulation: expected an operation that a CPU can stand in for, found '{name}'; "
                "compile for a target without it"
            )


def _matrix_operation(operation: ir.Operation, site: int) -> ir.Value:
    if operation.name == matrix_units.TF32:
        return matrix_units.round_to_tf32(operation)
    if operation.name == matrix_units.MMA:
        return matrix_units.mma(operation, _from_lane(site))
    return matrix_units.load_matrices(operation, _from_lane(site), site)


def _replace(operation: ir.Operation, values: list[ir.Value]) -> None:
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def _index_of(function: str, place: int) -> ir.Value:
    value = func.CallOp([i64()], function, [constant_word(place)]).results[0]
    return arith.index_cast(ir.IndexType.get(), value)


def _dimension_word(operation: ir.Operation) -> ir.Value:
    """Emit and return, as an index, the block or thread id or size that a ``gpu`` operation reads.

    Launches have one dimension: for y and z, an id is 0 and a size is 1.
    """
    if "dimension" in operation.attributes and "dim x" not in str(
        operation.attributes["dimension"]
    ):
        is_size = operation.name in ("gpu.block_dim", "gpu.grid_dim")
        return arith.constant(ir.IndexType.get(), int(is_size))
    if operation.name in _LANE_WORDS:
        return _index_of("emulator_lane_word", _LANE_WORDS[operation.name])
    return _index_of("emulator_launch_word", _LAUNCH_WORDS[operation.name])


def _subgroup_word(name: str) -> ir.Value:
    size = _index_of("emulator_launch_word", World.SUBGROUP)
    if name == "gpu.num_subgroups":
        return arith.ceildivui(_index_of("emulator_launch_word", World.THREADS), size)
    lane = _index_of("emulator_lane_word", Lane.LANE)
    return arith.remui(lane, size) if name == "gpu.lane_id" else arith.divui(lane, size)


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type, ir.FloatType)


def _to_word(value: ir.Value) -> ir.Value:
    """Emit a value's bits as an i64, zero-extended, and return it.

    Raises:
        UnsupportedError: if the value has more than 64 bits.
    """
    bits = element_bytes(value.type) * 8
    if bits > 64:
        raise UnsupportedError(
            f"emulation of gpu.shuffle: expected at most 64 bits, found {value.type}"
        )
    integer = value
    if not isinstance(value.type, ir.IntegerType):
        integer = llvm.bitcast(ir.IntegerType.get_signless(bits), value)
    return integer if bits == 64 else arith.extui(i64(), integer)


def _from_word(kind: ir.Type, bits: ir.Value) -> ir.Value:
    width = kind.width if isinstance(kind, ir.IntegerType) else element_bytes(kind) * 8
    integer = bits if width == 64 else arith.trunci(ir.IntegerType.get_signless(width), bits)
    return integer if isinstance(kind, ir.IntegerType) else llvm.bitcast(kind, integer)


def _exchange(
    value: ir.Value, offset: ir.Value, width: ir.Value, mode: Shuffle, site: int
) -> ir.Value:
    bits = func.CallOp(
        [i64()],
        "emulator_shuffle",
        [_to_word(value), offset, width, constant_word(mode), constant_word(site)],
    ).results[0]
    return _from_word(value.type, bits)


def _from_lane(site: int, lanes: int = 32) -> Exchange:
    """Return a function that emits a shuffle by which a lane reads another lane's value.

    The function takes the value that the lane offers to others and the index of the lane to read.
    ``lanes`` is the count of lanes of a warp or wave, and ``site`` the site index for faults.
    """

    def exchange(value: ir.Value, source: ir.Value) -> ir.Value:
        return _exchange(value, source, constant_word(lanes), Shuffle.IDX, site)

    return exchange


def _shuffle(operation: ir.Operation, site: int) -> list[ir.Value]:
    value, offset, width = operation.operands
    text = str(operation.attributes["mode"])
    mode = next(m for m in Shuffle if f"shuffle_mode {m.name.lower()}" in text)
    far, wide = arith.extui(i64(), offset), arith.extui(i64(), width)
    result = _exchange(value, far, wide, mode, site)
    word = func.CallOp([i64()], "emulator_lane_word", [constant_word(Lane.VALID)]).results[0]
    return [result, arith.trunci(ir.IntegerType.get_signless(1), word)]


def _subgroup_reduce(operation: ir.Operation, site: int) -> ir.Value:
    """Emit a reduction over a whole subgroup by shuffles, and return its result.

    Raises:
        UnsupportedError: if the operation reduces over clusters of a subgroup.
    """
    if "cluster_size" in operation.attributes:
        raise UnsupportedError("emulation of gpu.subgroup_reduce: found 'cluster_size'")
    text = str(operation.attributes["op"])
    kind = text.rstrip(">").split()[-1]
    value = operation.operands[0]
    size = func.CallOp([i64()], "emulator_launch_word", [constant_word(World.SUBGROUP)]).results[0]
    for step in (1, 2, 4, 8, 16, 32):
        other = _exchange(value, constant_word(step), size, Shuffle.XOR, site)
        joined = _REDUCTIONS[kind](value, other)
        beyond = arith.cmpi(arith.CmpIPredicate.uge, constant_word(step), size)
        value = arith.select(beyond, value, joined)
    return value
