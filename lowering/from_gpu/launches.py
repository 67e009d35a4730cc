"""Reads the kernel launches in a host function: kernel, grid, block and arguments.

Sizes of grid and block, and scalar arguments, must be constants; memref arguments must be static.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NoReturn, Protocol, cast

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.lowering.from_gpu.index_range import Dim3
from rammer_mlir.lowering.from_gpu.index_ranges import IndexRanges
from rammer_mlir.lowering.from_gpu.memory_operations import is_memref
from rammer_mlir.lowering.gpu.kernels import MOST_THREADS
from rammer_mlir.lowering.ir_walk import producer, walk
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.program.task_graph import root_of

_LAUNCH = "gpu.launch_func"
_ALLOCATIONS = ("memref.alloc", "memref.alloca", "gpu.alloc")
_DROPPED = ("memref.dealloc", "gpu.dealloc", "gpu.host_register", "gpu.host_unregister")
_HOST_VIEWS = (
    "memref.subview", "memref.cast", "memref.collapse_shape", "memref.expand_shape",
    "memref.reinterpret_cast",
)  # fmt: skip
_HOST_PURE = ("arith.", "affine.", "index.")


class _LaunchView(Protocol):
    """The properties of a ``gpu.launch_func`` as MLIR's Python bindings name them."""

    gridSizeX: ir.Value
    gridSizeY: ir.Value
    gridSizeZ: ir.Value
    blockSizeX: ir.Value
    blockSizeY: ir.Value
    blockSizeZ: ir.Value
    kernelOperands: ir.OpOperandList
    asyncDependencies: ir.OpOperandList
    asyncObject: ir.Value | None
    clusterSizeX: ir.Value | None
    dynamicSharedMemorySize: ir.Value | None


@dataclass(frozen=True)
class Launch:
    """A ``gpu.launch_func`` with static sizes and constant scalars.

    Attributes:
        operation: the launch.
        kernel: the ``gpu.func`` that is launched.
        grid: counts of blocks along x, y and z.
        block: counts of a block's threads along x, y and z.
        scalars: the constant value of each scalar argument, by argument index.
        memrefs: the value of each memref argument, by argument index.
    """

    operation: ir.Operation
    kernel: ir.Operation
    grid: Dim3
    block: Dim3
    scalars: Mapping[int, ir.Attribute]
    memrefs: Mapping[int, ir.Value]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return ir.StringAttr(self.kernel.attributes["sym_name"]).value

    @property
    def holder(self) -> ir.Operation:
        """The ``gpu.module`` that contains the kernel."""
        assert self.kernel.parent is not None
        return self.kernel.parent.operation

    @property
    def aliases(self) -> tuple[int, ...]:
        """For each memref argument, the position of the first one in the same buffer.

        Positions count the memref arguments only, from 0.
        """
        roots = [root_of(value) for value in self.memrefs.values()]
        return tuple(roots.index(root) for root in roots)

    @property
    def num_blocks(self) -> int:
        """The number of blocks of the grid."""
        return prod(self.grid)

    @property
    def num_threads(self) -> int:
        """The number of threads of a block."""
        return prod(self.block)

    def refuse(self, message: str) -> NoReturn:
        """Raise an OperationError that names the launch, with ``message`` as the reason."""
        refuse_launch(self.operation, message)


def refuse_launch(operation: ir.Operation, message: str) -> NoReturn:
    """Raise an OperationError for a launch: the name of its kernel, then ``message``."""
    kernel = operation.attributes["kernel"]
    raise OperationError(operation, f"launch of {kernel}: {message}")


def host_function(module: ir.Module, name: str = "") -> ir.OpView:
    """Return the function called ``name``, which must launch kernels.

    An empty ``name`` selects the only function that launches kernels.

    Raises:
        PassError: if no function called ``name`` launches kernels, or if ``name`` is empty and not
            exactly one function launches kernels.
    """
    hosts = {symbol_name(f): f for f in functions(module) if _launches_kernels(f)}
    names = ", ".join(f"@{host}" for host in hosts) or "none"
    if name:
        if name not in hosts:
            raise PassError(
                f"function: expected a function with gpu.launch_func, found '{name}' "
                f"(there are {names}); name one of these"
            )
        return hosts[name]
    if len(hosts) != 1:
        raise PassError(
            f"expected one function with gpu.launch_func, found {len(hosts)} ({names}): outline "
            "launches by gpu-kernel-outlining, and name one of several, "
            "rtask-from-gpu{function=NAME}"
        )
    return next(iter(hosts.values()))


def erase_other_hosts(module: ir.Module, host: ir.OpView) -> None:
    """Erase all functions with launches except ``host``, and the modules that only they use.

    These modules are ``gpu.module``s. A ``gpu.module`` stays, with all its kernels, if ``host``
    launches one of its kernels or if no function does.
    """
    others = [f for f in functions(module) if f != host and _launches_kernels(f)]
    unused = set[str]().union(*map(_holders, others)) - _holders(host)
    holders = [op for op in module.body.operations if op.operation.name == "gpu.module"]
    for operation in (*others, *(op for op in holders if symbol_name(op) in unused)):
        operation.operation.erase()


def _holders(function: ir.OpView) -> set[str]:
    """Return the names of the ``gpu.module`` operations with kernels that a function launches."""
    launches = (op for op in walk(function.operation) if op.name == _LAUNCH)
    return {ir.SymbolRefAttr(op.attributes["kernel"]).value[0] for op in launches}


def _launches_kernels(function: ir.OpView) -> bool:
    names = (operation.name for operation in walk(function.operation))
    return any(name in (_LAUNCH, "gpu.launch") for name in names)


def read_launches(module: ir.Module, host: ir.OpView) -> list[Launch]:
    """Return the kernel launches of a host function in program order.

    Raises:
        OperationError: if the function has control flow, results, an unsupported launch, or an
            operation with an unknown effect on memory; the message names the operation.
    """
    reader = _Reader(module)
    blocks = list(host.operation.regions[0].blocks)
    if len(blocks) != 1:
        raise OperationError(
            host, f"expected straight-line code, found {len(blocks)} blocks; unroll loops and "
            "resolve branches"
        )  # fmt: skip
    for operation in blocks[0].operations:
        reader.read(operation.operation)
    return reader.launches


class _Reader:
    def __init__(self, module: ir.Module) -> None:
        self._module = module
        # The host has no block or thread ids, so its ranges are those of constants.
        self._constants = IndexRanges((1, 1, 1), (1, 1, 1), {})
        self.launches: list[Launch] = []

    def read(self, operation: ir.Operation) -> None:
        name = operation.name
        if name == _LAUNCH:
            self.launches.append(self._launch(operation))
        elif name == "gpu.launch":
            raise OperationError(operation, "expected outlined kernels; run gpu-kernel-outlining")
        elif name == "func.return":
            if len(operation.operands):
                raise OperationError(
                    operation, f"expected no results, found {len(operation.operands)}; write "
                    "them to arguments (buffer-results-to-out-params{modify-public-functions=true})"
                )  # fmt: skip
        elif name in _ALLOCATIONS or name in _DROPPED:
            self._check_allocation(operation)
        elif not name.startswith(_HOST_PURE) and name not in _HOST_VIEWS:
            raise OperationError(
                operation, "expected launches, allocations, views and constants between them, "
                "found what else may touch memory; move it into a kernel or out of the function"
            )  # fmt: skip

    def _check_allocation(self, operation: ir.Operation) -> None:
        if operation.name in _DROPPED and operation.name.startswith("memref"):
            return
        results = [result.type for result in operation.results]
        if any(not isinstance(kind, ir.MemRefType) for kind in results) or (
            len(operation.operands) and operation.name in ("gpu.alloc",)
        ):
            raise OperationError(
                operation, "expected no asynchronous token and a static size; run the operation "
                "synchronously"
            )  # fmt: skip

    def _launch(self, operation: ir.Operation) -> Launch:
        view = cast(_LaunchView, operation.opview)
        self._refuse_extras(operation, view)
        kernel = self._find(operation)
        grid = self._sizes(operation, (view.gridSizeX, view.gridSizeY, view.gridSizeZ), "grid")
        block = self._sizes(operation, (view.blockSizeX, view.blockSizeY, view.blockSizeZ), "block")
        if prod(block) > MOST_THREADS:
            refuse_launch(
                operation, f"expected at most {MOST_THREADS} threads in a block, found "
                f"{' x '.join(map(str, block))}; use smaller blocks"
            )  # fmt: skip
        scalars: dict[int, ir.Attribute] = {}
        memrefs: dict[int, ir.Value] = {}
        for number, operand in enumerate(view.kernelOperands):
            if is_memref(operand):
                memrefs[number] = _static(operation, operand, number)
            else:
                scalars[number] = self._scalar(operation, operand, number)
        return Launch(operation, kernel, grid, block, scalars, memrefs)

    def _refuse_extras(self, operation: ir.Operation, view: _LaunchView) -> None:
        if len(view.asyncDependencies) or view.asyncObject is not None or len(operation.results):
            refuse_launch(
                operation, "expected a synchronous launch, found asynchronous tokens; launch in "
                "order, dependencies are found from memory"
            )  # fmt: skip
        if view.dynamicSharedMemorySize is not None:
            refuse_launch(
                operation, "expected static shared memory, found a dynamic size; use workgroup "
                "attributions"
            )  # fmt: skip
        if view.clusterSizeX is not None or "cooperative" in operation.attributes:
            refuse_launch(operation, "expected independent blocks, found a cluster or cooperation")

    def _find(self, operation: ir.Operation) -> ir.Operation:
        found = self._module.operation
        for name in ir.SymbolRefAttr(operation.attributes["kernel"]).value:
            inner = found.regions[0].blocks[0].operations
            named = [o.operation for o in inner if _symbol(o.operation) == name]
            if not named:
                refuse_launch(operation, f"expected a gpu.func, found no symbol '{name}'")
            found = named[0]
        if found.name != "gpu.func":
            refuse_launch(operation, f"expected a gpu.func, found '{found.name}'")
        return found

    def _sizes(self, operation: ir.Operation, values: Sequence[ir.Value], what: str) -> Dim3:
        sizes: list[int] = []
        for axis, value in zip("xyz", values, strict=True):
            found = self._constants.of(value)
            size = found.constant if found is not None else None
            if size is None:
                refuse_launch(
                    operation, f"expected a static {what} size in {axis}, found one that depends "
                    "on the run; give shapes statically"
                )  # fmt: skip
            if size < 1:
                refuse_launch(operation, f"expected a {what} size of 1 or more, found {size}")
            sizes.append(size)
        return sizes[0], sizes[1], sizes[2]

    def _scalar(self, operation: ir.Operation, value: ir.Value, number: int) -> ir.Attribute:
        if producer(value) == "arith.constant":
            return ir.OpResult(value).owner.attributes["value"]
        found = self._constants.of(value)
        if found is None or found.constant is None:
            refuse_launch(
                operation, f"expected a constant as argument {number}, found a {value.type} that "
                "depends on the run; pass it in a memref"
            )  # fmt: skip
        return ir.IntegerAttr.get(value.type, found.constant)


def _symbol(operation: ir.Operation) -> str:
    attributes = operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else ""


def _static(operation: ir.Operation, value: ir.Value, number: int) -> ir.Value:
    """Return ``value``, argument ``number`` of a launch, after checking that it is a static memref.

    Raises:
        OperationError: if the memref has a dynamic shape or layout or elements of less than a byte,
            or if its buffer is neither an allocation nor an argument of the host function.
    """
    kind = value.type
    if not isinstance(kind, ir.MemRefType) or not kind.has_static_shape:
        refuse_launch(
            operation, f"expected a static shape as argument {number}, found {kind}; give shapes "
            "statically"
        )  # fmt: skip
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides, offset = kind.get_strides_and_offset()
    if offset == dynamic or dynamic in strides:
        refuse_launch(
            operation, f"expected static strides and offset as argument {number}, found {kind}; "
            "fold offsets by canonicalize"
        )  # fmt: skip
    if isinstance(kind.element_type, ir.IntegerType) and kind.element_type.width < 8:
        refuse_launch(
            operation, f"expected elements of whole bytes as argument {number}, found {kind}; "
            "store them as i8"
        )  # fmt: skip
    root = root_of(value)
    if not isinstance(root.owner, ir.Block) and root.owner.operation.name not in _ALLOCATIONS:
        refuse_launch(
            operation, f"expected argument {number} in an argument or allocation of the function, "
            f"found it from '{root.owner.operation.name}', which may alias any other; allocate it, "
            "or pass it as an argument"
        )  # fmt: skip
    return value
