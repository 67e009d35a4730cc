"""Build programs of tiny dependent rTasks, to measure the cost of a launch and of a barrier.

A program is a chain of rTasks, distributed over the vEUs round-robin. Each rTask adds 1 to the
number that the previous rTask wrote. If there are several vEUs, each rTask therefore waits for
another vEU. For the input 0, the output is the number of rTasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.backends.backend import Code
from rammer_mlir.compiler.options import CheckedOptions, check_options
from rammer_mlir.compiler.stage import Work
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.lowering.cpu.native_image import build_image, lower_program
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.pool import native_code

_ONE = "memref<1xf32>"
_BYTES = 64
"""Distance in bytes between the values of consecutive steps: a cache line, no false sharing."""

_KERNEL = f"""
func.func private @step(%id: index, %x: {_ONE}, %y: {_ONE}) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %before = memref.load %x[%zero] : {_ONE}
  %after = arith.addf %before, %one : f32
  memref.store %after, %y[%zero] : {_ONE}
  return
}}
"rtask.kernel"() {{function = @step, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 1 : i64, bytes = 8 : i64,
  reads = [{{argument = 0 : i64, offsets = affine_map<(d0) -> (d0)>, sizes = array<i64: 1>}}],
  writes = [{{argument = 1 : i64, offsets = affine_map<(d0) -> (d0)>, sizes = array<i64: 1>}}]}}
  : () -> ()"""


@dataclass(frozen=True)
class Relay:
    """A program of ``steps`` dependent rTasks, distributed over ``num_veus`` vEUs round-robin."""

    num_veus: int
    steps: int

    @property
    def signature(self) -> Signature:
        """The signature of the program: an input and an output of one f32 element."""
        spec = (1,), np.dtype(np.float32)
        return Signature((TensorSpec("x", *spec),), (TensorSpec("y", *spec),))

    def text(self) -> str:
        """Return the program as MLIR text of a module at the `program` stage."""
        size = _BYTES * max(self.steps, 1)
        views = "".join(
            f"  %at{n} = arith.constant {n * _BYTES} : index\n"
            f"  %b{n} = memref.view %arena[%at{n}][] : memref<{size}xi8> to {_ONE}\n"
            for n in range(self.steps - 1)
        )
        veus = "\n".join(self._veu(veu) for veu in range(self.num_veus))
        return f"""{_KERNEL if self.steps else ""}
func.func @main(%x: {_ONE} {{rtask.name = "x"}}, %y: {_ONE} {{rtask.name = "y", rtask.output}},
                %arena: memref<{size}xi8> {{rtask.arena}}) {{
{views}  "rtask.program"() ({{ {veus} }}) {{device = "cpu", num_veus = {self.num_veus} : i64}}
    : () -> ()
  return
}}"""

    def _veu(self, veu: int) -> str:
        items: list[str] = []
        for step in range(veu, self.steps, self.num_veus):
            if step and self.num_veus > 1:
                waits = f"{(step - 1) % self.num_veus}, {(step - 1) // self.num_veus}"
                items.append(f'"rtask.barrier"() {{waits = array<i64: {waits}>}} : () -> ()')
            source = "%x" if step == 0 else f"%b{step - 1}"
            target = "%y" if step == self.steps - 1 else f"%b{step}"
            items.append(
                f'"rtask.run"({source}, {target}) {{kernel = @step, operator_id = {step} : i64, '
                f"first = 0 : i64, count = 1 : i64}} : ({_ONE}, {_ONE}) -> ()"
            )
        return f'"rtask.veu"() ({{ ^bb0: {" ".join(items)} }}) {{id = {veu} : i64}} : () -> ()'

    def code(self, options: CheckedOptions) -> Code:
        """Return the program's code for the target in ``options``, a GPU or its emulator."""
        with _context(), ir.Location.unknown():
            module = ir.Module.parse(self.text())
            work = Work(module, self.signature, {}, options, reached=[*PORTABLE_STAGES])
        return options.backend.compile(work)

    def _compiled(self, options: CheckedOptions, device: int = 0) -> CompiledModel:
        return options.backend.load(self.code(options), device)

    def compile(self, target: str, device: int = 0) -> GpuExecutable:
        """Return the program compiled for ``target``, to run on the GPU of index ``device``."""
        executable = self._compiled(check_options(target, num_veus=self.num_veus), device)
        assert isinstance(executable, GpuExecutable)
        return executable

    def for_cpu(self) -> Executable:
        """Return the program compiled for this CPU."""
        with _context(), ir.Location.unknown():
            module = ir.Module.parse(self.text())
            image = build_image(module, {}, self.signature, self.num_veus)
            lower_program(module, image.program, host_machine(), 0)
            object_file = emit_object(to_llvm_ir(module), host_machine())
        library = load_object(object_file)
        code = native_code(library.address, library)
        return Executable(image, code, lambda: link_shared(object_file))

    def emulate(self, target: str) -> EmulatedExecutable:
        """Return the program compiled for ``target``'s emulator, with all the emulator's checks."""
        options = check_options(target, num_veus=self.num_veus).emulated(checked=True)
        executable = self._compiled(options)
        assert isinstance(executable, EmulatedExecutable)
        return executable


def _context() -> ir.Context:
    context = ir.Context()
    dialects.register(context)
    return context
