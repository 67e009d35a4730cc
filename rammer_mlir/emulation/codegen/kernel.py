"""Compiles a kernel of a ``gpu.module`` to native code that the emulator runs."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen.async_copies import emit_async_copies
from rammer_mlir.emulation.codegen.checks import emit_checks
from rammer_mlir.emulation.codegen.fibers import FiberCode, fiber_code
from rammer_mlir.emulation.codegen.gpu_to_func import FunctionModule, element_bytes, to_functions
from rammer_mlir.emulation.codegen.instrument import granule_of, instrument
from rammer_mlir.emulation.codegen.scheduler import (
    LANE,
    WORLD,
    emit_scheduler,
    emit_unchecked,
)
from rammer_mlir.emulation.codegen.sites import Sites
from rammer_mlir.emulation.codegen.traces import emit_trace, trace_accesses
from rammer_mlir.emulation.records import (
    EmulatedKernel,
    KernelArgument,
    Lane,
    SharedBuffer,
    Site,
    TracedAccess,
    World,
)
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.lowering.llvm.steps import Step, llvm_steps
from rammer_mlir.lowering.llvm.translation import to_llvm_ir

_PREFIX = "kernel."
"""Prefix of the symbols of a kernel's functions, so that none collides with the C library's."""

_CALL_BYTES, _PAGE, _ALIGNMENT = 48 << 10, 4096, 64
"""Bytes of stack for calls and spills, unit of stack sizes, and alignment of stack allocations."""


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel as LLVM IR.

    Attributes:
        text: the LLVM IR of the kernel and the emulator's runtime.
        granule: bytes of memory that a shadow cell of the race checks describes.
        stack_bytes: bytes of a lane's stack.
        traced: the accesses that launches record, by access index.
    """

    text: str
    granule: int
    stack_bytes: int
    traced: tuple[TracedAccess, ...]


@dataclass(frozen=True)
class KernelCode:
    """A kernel and the emulator's runtime as LLVM IR for this machine, before it is compiled.

    ``text`` is the LLVM IR. ``EmulatedKernel`` describes the other fields.
    """

    name: str
    text: str
    arguments: tuple[KernelArgument, ...]
    shared: tuple[SharedBuffer, ...]
    sites: tuple[Site, ...]
    granule: int
    stack_bytes: int
    checked: bool
    traced: tuple[TracedAccess, ...]


def compile_kernel(
    module: ir.Module,
    name: str,
    *,
    checked: bool,
    traced: bool = False,
    shared_limit: int | None = None,
) -> EmulatedKernel:
    """Compile the kernel ``name`` of a ``gpu.module`` in ``module``, and load it into this process.

    The other arguments are those of ``lower_gpu_kernel``.
    """
    code = lower_gpu_kernel(module, name, checked=checked, traced=traced, shared_limit=shared_limit)
    return load_kernel(code, emit_object(code.text, host_machine()))


def load_kernel(code: KernelCode, object_file: bytes) -> EmulatedKernel:
    """Load native code into this process, and return the kernel that runs it.

    ``object_file`` is the object file that was compiled from ``code.text``.
    """
    library = load_object(object_file)
    return EmulatedKernel(
        name=code.name,
        launch=library.address("emulator_launch"),
        arguments=code.arguments,
        shared=code.shared,
        sites=code.sites,
        granule=code.granule,
        stack_bytes=code.stack_bytes,
        checked=code.checked,
        owner=library,
        traced=code.traced,
    )


def lower_gpu_kernel(
    module: ir.Module,
    name: str,
    *,
    checked: bool,
    traced: bool = False,
    shared_limit: int | None = None,
) -> KernelCode:
    """Return a kernel and the emulator's runtime, lowered to LLVM IR.

    Args:
        module: contains a ``gpu.module``; it is not modified.
        name: the kernel, a ``gpu.func``.
        checked: whether accesses are checked, which makes a launch about twenty times slower.
        traced: whether launches record accesses (``rammer_mlir.emulation.device.traces``).
        shared_limit: most bytes of shared memory that the emulated GPU gives to a kernel; None for
            no limit.

    Raises:
        UnsupportedError: if the kernel uses an operation that cannot be emulated, or more shared
            memory than the limit.
        TargetError: if the emulator does not support this machine's processor.
    """
    machine = host_machine()
    sites = Sites()
    with module.context, ir.Location.unknown():
        functions = to_functions(module, name, sites, checked=checked)
        _check_shared(functions, shared_limit)
        lowered = lower_kernel(functions, sites, machine, checked=checked, traced=traced)
    return KernelCode(
        name=name,
        text=lowered.text,
        arguments=functions.arguments,
        shared=functions.shared,
        sites=sites.all(),
        granule=lowered.granule,
        stack_bytes=lowered.stack_bytes,
        checked=checked,
        traced=lowered.traced,
    )


def _check_shared(functions: FunctionModule, limit: int | None) -> None:
    found = sum(buffer.num_bytes for buffer in functions.shared)
    if limit is not None and found > limit:
        raise UnsupportedError(
            f"kernel '{functions.kernel}': expected at most {limit} bytes of shared memory, which "
            f"the GPU has for a kernel, found {found}; use smaller workgroup buffers"
        )


def lower_kernel(
    functions: FunctionModule,
    sites: Sites,
    machine: Machine,
    *,
    checked: bool,
    traced: bool = False,
) -> LoweredKernel:
    """Return a kernel, together with the emulator's runtime, as LLVM IR.

    Args:
        functions: the kernel and its callees, which are lowered in place.
        sites: the operations that faults can name; memory accesses are added to it.
        machine: the processor that runs the code.
        checked: whether accesses are checked.
        traced: whether launches record accesses.
    """
    module = functions.module
    _prefix_functions(module)
    fibers = fiber_code(machine.triple)
    with ir.InsertionPoint(module.body):
        emit_scheduler(fibers)
        if checked:
            emit_checks()
        else:
            emit_unchecked()
        emit_async_copies(checked=checked)
        if traced:
            emit_trace()
    for step in _steps(machine):
        step.apply(module)
    granule = granule_of(module)
    accesses = trace_accesses(module) if traced else ()
    instrument(module, sites, checked=checked)
    _define_entry(module, functions)
    module.operation.verify()
    return LoweredKernel(
        f"{to_llvm_ir(module)}\n{_assembly(fibers)}", granule, _stack_bytes(module), accesses
    )


def _steps(machine: Machine) -> list[Step]:
    """Return the passes that lower functions on memrefs to the LLVM dialect."""
    views = "affine-expand-index-ops,expand-strided-metadata,lower-affine"
    return [
        Step("loops", "convert-linalg-to-loops"),
        Step("transfers", "func.func(convert-vector-to-scf)"),
        Step("views", views),
        *llvm_steps(machine),
    ]


def _stack_bytes(module: ir.Module) -> int:
    """Return the bytes of stack that a lane needs for its allocations, calls and spills."""
    total = _CALL_BYTES
    for operation in walk(module.operation):
        if operation.name == "llvm.alloca":
            total += _alloca_bytes(operation)
    return -(-total // _PAGE) * _PAGE


def _alloca_bytes(operation: ir.Operation) -> int:
    size = ir.OpResult(operation.operands[0]).owner.operation
    if size.name != "llvm.mlir.constant":
        raise UnsupportedError(
            "emulation: expected private memory of a constant size, found one that depends on the "
            "run; allocate the largest"
        )
    count = ir.IntegerAttr(size.attributes["value"]).value
    return count * element_bytes(ir.TypeAttr(operation.attributes["elem_type"]).value) + _ALIGNMENT


def _prefix_functions(module: ir.Module) -> None:
    for operation in module.body.operations:
        if operation.operation.name == "func.func":
            attributes = operation.operation.attributes
            name = ir.StringAttr(attributes["sym_name"]).value
            attributes["sym_name"] = ir.StringAttr.get(_PREFIX + name)
    for operation in walk(module.operation):
        if operation.name == "func.call":
            callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
            if not callee.startswith("emulator_"):
                operation.attributes["callee"] = ir.FlatSymbolRefAttr.get(_PREFIX + callee)


def _define_entry(module: ir.Module, functions: FunctionModule) -> None:
    """Emit the function ``emulator_kernel(lane)``, which calls the kernel for one lane.

    The function loads the kernel's arguments from the launch's record. ``functions`` has the
    kernel's name and workgroup buffers.
    """
    symbol = _PREFIX + functions.kernel
    for operation in list(module.body.operations):
        if ir.StringAttr(operation.operation.attributes["sym_name"]).value == "emulator_kernel":
            operation.operation.erase()
    kernel = next(
        operation for operation in module.body.operations
        if ir.StringAttr(operation.operation.attributes["sym_name"]).value == symbol
    )  # fmt: skip
    kind = str(ir.TypeAttr(kernel.operation.attributes["function_type"]).value)
    inputs = kind[kind.index("(") + 1 : kind.rindex(")")]
    kinds = [part.strip() for part in inputs.split(",") if part.strip()]
    kinds = [f"!llvm.{part}" if part.startswith("ptr") else part for part in kinds]
    text = _entry_text(symbol, kinds, functions.shared)
    addition = ir.Module.parse(text)
    for operation in list(addition.body.operations):
        name = ir.StringAttr(operation.operation.attributes["sym_name"]).value
        if name == "emulator_kernel":
            operation.operation.detach_from_parent()
            module.body.append(operation)


def _entry_text(symbol: str, kinds: list[str], shared: tuple[SharedBuffer, ...]) -> str:
    begin = len(kinds) - len(shared)
    lines: list[str] = []
    for number, kind in enumerate(kinds):
        if number >= begin:
            offset = shared[number - begin].offset
            lines.append(
                f"  %a{number} = llvm.getelementptr %shared[{offset}] : "
                "(!llvm.ptr) -> !llvm.ptr, i8"
            )
        else:
            lines.append(
                f"  %p{number} = llvm.getelementptr %arguments[{number}] : "
                "(!llvm.ptr) -> !llvm.ptr, i64"
            )
            lines.append(f"  %a{number} = llvm.load %p{number} : !llvm.ptr -> {kind}")
    values = ", ".join(f"%a{number}" for number in range(len(kinds)))
    body = "\n".join(lines)
    return f"""
llvm.func @{symbol}({", ".join(kinds)})
llvm.mlir.global internal @{WORLD}(0 : i64) : i64
llvm.mlir.global internal @{LANE}(0 : i64) : i64
llvm.func @emulator_kernel(%lane_address: i64) {{
  %lane = llvm.inttoptr %lane_address : i64 to !llvm.ptr
  %world_at = llvm.mlir.addressof @{WORLD} : !llvm.ptr
  %world = llvm.load %world_at : !llvm.ptr -> !llvm.ptr
  %shared_at = llvm.getelementptr %lane[{int(Lane.SHARED)}] : (!llvm.ptr) -> !llvm.ptr, i64
  %shared = llvm.load %shared_at : !llvm.ptr -> !llvm.ptr
  %arguments_at = llvm.getelementptr %world[{int(World.ARGUMENTS)}] : (!llvm.ptr) -> !llvm.ptr, i64
  %arguments = llvm.load %arguments_at : !llvm.ptr -> !llvm.ptr
{body}
  llvm.call @{symbol}({values}) : ({", ".join(kinds)}) -> ()
  llvm.return
}}
"""


def _assembly(fibers: FiberCode) -> str:
    lines = [line for line in fibers.assembly.splitlines() if line.strip()]
    return "".join(f'module asm "{line}"\n' for line in lines)
