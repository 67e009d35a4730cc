"""`rtask-lower-to-cpu`: lowers scheduled rPrograms to functions of the LLVM dialect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.lowering.cpu.callable_program import define_callable
from rammer_mlir.lowering.cpu.dispatch import STRAIGHT_LINE_LIMIT
from rammer_mlir.lowering.cpu.native_image import lower_program
from rammer_mlir.lowering.external.calls import external_kernels
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.lowering.llvm.named_machines import named_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.lowering.program.records import ArgumentResolver, program_of
from rammer_mlir.passes.base import Pass, check_least
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function, symbol_name
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.rtask_plan_memory import ARENA
from rammer_mlir.programs.cpu_table import encode_for_cpu
from rammer_mlir.programs.native_interface import CACHE_LINE

LAUNCH, MACHINE = "rtask.launch", "rtask.machine"
"""Attributes of the lowered module: how to call its function, and the target processor's name."""

_PREFIX = "rammer_"

_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True)
class LowerToCpu(Pass):
    """Lower rKernels and the schedule to one C function, which each vEU's thread calls.

    The function is ``void SYMBOL(int64_t veu, int64_t run, void *counters, void **arguments)``:
    ``run`` counts from 1, ``counters`` has 64 bytes for each vEU, aligned and zeroed before the
    first run, and ``arguments`` are those of the entry function, including weights and the arena. A
    run has ended when all vEUs have returned. The module's attribute ``rtask.launch`` has the
    function's name, the names and sizes in bytes of the arguments, the bytes of ``counters``, and
    the count of vEUs.

    ``machine`` is a processor's name, such as NAME in a target ``cpu:NAME``, by default this
    machine's processor. ``symbol`` is the function's name, by default ``rammer_`` and the entry
    function's name. A program of at most ``straight_line_limit`` records becomes straight-line
    code, a longer program a loop over the task table.
    """

    name: ClassVar[str] = "rtask-lower-to-cpu"

    machine: str = ""
    symbol: str = ""
    straight_line_limit: int = STRAIGHT_LINE_LIMIT

    def check_options(self) -> None:
        """Raise an OptionError if an option is invalid.

        ``symbol`` must be empty or a C identifier, ``straight_line_limit`` must not be negative.
        """
        check_least(self, 0, "straight_line_limit")
        if self.symbol and not _IDENTIFIER.fullmatch(self.symbol):
            raise OptionError(
                f"{self.name}: symbol: expected letters, digits and '_', not beginning with a "
                f"digit, found {self.symbol!r}"
            )

    def run(self, module: ir.Module) -> None:
        """Replace the module's content by functions of the LLVM dialect.

        Raises:
            PassError: if the module calls an external rKernel.
        """
        machine = machine_of(self.machine)
        external = external_kernels(module)
        if external:
            raise PassError(
                f"'{self.name}': expected rKernels of this compiler, found the external "
                f"'{external[0].name}': compile it with rammer-compile, which links its code"
            )
        scheduled = read_plan(module)
        num_veus = max((len(program.veus) for program in scheduled.plan.programs), default=1)
        program = program_of(scheduled, ArgumentResolver(scheduled), num_veus)
        entry = entry_function(module)
        symbol = self.symbol or _PREFIX + symbol_name(entry)
        with module.context, ir.Location.unknown():
            launch = _launch(entry, symbol, num_veus)
            lower_program(module, program, machine, self.straight_line_limit)
            if symbol in ir.SymbolTable(module.operation):
                raise OptionError(
                    f"{self.name}: symbol: expected a name that the generated code leaves free, "
                    f"found '{symbol}'"
                )
            with ir.InsertionPoint(module.body):
                define_callable(module, symbol, encode_for_cpu(program))
            module.operation.attributes[LAUNCH] = launch
            module.operation.attributes[MACHINE] = ir.StringAttr.get(self.machine)


def machine_of(name: str) -> Machine:
    """Return the processor that a target ``cpu:NAME`` names.

    An empty name stands for the processor that this process runs on.

    Raises:
        OptionError: if there is no processor of this name.
    """
    return named_machine(name).machine() if name else host_machine()


def object_of(module: ir.Module) -> bytes:
    """Compile a module in the LLVM dialect, and return the object file.

    The target is the processor for which ``rtask-lower-to-cpu`` lowered the module. If this pass
    did not produce the module, the target is this machine's processor.

    Raises:
        TargetError: if an operation is not in the LLVM dialect.
    """
    attributes = module.operation.attributes
    name = ir.StringAttr(attributes[MACHINE]).value if MACHINE in attributes else ""
    return emit_object(to_llvm_ir(module), machine_of(name))


def _launch(entry: ir.OpView, symbol: str, num_veus: int) -> ir.DictAttr:
    """Return the ``rtask.launch`` attribute, which tells users of the IR how to call the function.

    The attribute has the symbol, the names and sizes in bytes of the entry function's arguments,
    the size in bytes of the step counters, and the count of vEUs.
    """
    i64 = ir.IntegerType.get_signless(64)
    kinds = [ir.MemRefType(value.type) for value in entry.operation.regions[0].blocks[0].arguments]
    marks = argument_attributes(entry)
    sizes = [element_bytes(kind) * _elements(kind) for kind in kinds]
    names = [_argument_name(number, each) for number, each in enumerate(marks)]
    return ir.DictAttr.get(
        {
            "symbol": ir.StringAttr.get(symbol),
            "arguments": ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names]),
            "bytes": ir.DenseI64ArrayAttr.get(sizes),
            "counter_bytes": ir.IntegerAttr.get(i64, CACHE_LINE * num_veus),
            "veus": ir.IntegerAttr.get(i64, num_veus),
        }
    )


def _elements(kind: ir.MemRefType) -> int:
    count = 1
    for size in kind.shape:
        count *= size
    return count


def _argument_name(number: int, marks: dict[str, ir.Attribute]) -> str:
    if ARENA in marks:
        return "arena"
    named = marks.get(CONSTANT, marks.get("rtask.name"))
    return named.value if isinstance(named, ir.StringAttr) else f"argument{number}"
