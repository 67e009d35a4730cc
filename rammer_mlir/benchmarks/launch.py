"""Measure the cost of a launch: ``python -m rammer_mlir.benchmarks.launch [--veus N ...]``.

A program without rTasks is launched in two ways: through ctypes alone, and through
``Executable.run``, which also checks the arrays, passes their addresses to the program, and
allocates the output.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.native_image import build_image, lower_program
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.execution_context import Context
from rammer_mlir.runtime.pool import NativeCode, ThreadPool, native_code

SAMPLES = 200
BATCH = 50
"""Number of launches that are timed together; a sample is the mean time of these launches."""


@dataclass(frozen=True)
class LaunchTime:
    """Median time of a launch of an empty program, in microseconds.

    With one vEU, which is the caller's thread, the times are processor time, which does not advance
    while other processes have the core.

    Attributes:
        num_veus: number of vEUs of the program.
        native: time of a launch through ctypes.
        run: time of a call of ``Executable.run``.
    """

    num_veus: int
    native: float
    run: float

    def __str__(self) -> str:
        """Return the times of a launch through ctypes and by ``Executable.run`` as text."""
        return (
            f"{self.num_veus} vEUs: native launch {self.native:.2f} us, "
            f"Executable.run {self.run:.2f} us"
        )


def empty_program(num_veus: int) -> tuple[CpuImage, NativeCode, bytes]:
    """Compile a program without rTasks for ``num_veus`` vEUs.

    Returns:
        The program's data (schedule and signature), its native functions, and the content of its
        object file.
    """
    buffer = "memref<1xf32>"
    veus = "".join(
        f'"rtask.veu"() ({{ ^bb0: }}) {{id = {n} : i64}} : () -> ()' for n in range(num_veus)
    )
    text = f"""func.func @main(%x: {buffer} {{rtask.name = "x"}},
        %y: {buffer} {{rtask.name = "y", rtask.output}}, %arena: memref<64xi8> {{rtask.arena}}) {{
      "rtask.program"() ({{ {veus} }}) {{device = "cpu", num_veus = {num_veus} : i64}} : () -> ()
      return
    }}"""
    spec = (1,), np.dtype(np.float32)
    signature = Signature((TensorSpec("x", *spec),), (TensorSpec("y", *spec),))
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        image = build_image(module, {}, signature, num_veus)
        lower_program(module, image.program, host_machine())
        object_file = emit_object(to_llvm_ir(module), host_machine())
    library = load_object(object_file)
    return image, native_code(library.address, library), object_file


def measure_launch(num_veus: int, samples: int = SAMPLES) -> LaunchTime:
    """Return two launch times of an empty program: through ctypes, and through ``Executable.run``.

    Args:
        num_veus: number of vEUs; each vEU has a thread and no rTasks.
        samples: number of samples of each of the two times.
    """
    image, code, object_file = empty_program(num_veus)
    inputs, outputs = ([np.zeros(1, np.float32)] for _ in range(2))
    feeds = {"x": inputs[0]}
    pool = ThreadPool(code, num_veus)
    pool.need_threads(num_veus)
    job = pool.take_job(num_veus)
    context = Context(image, job)
    context.bind(inputs, outputs)
    clock = time.thread_time if num_veus == 1 else time.perf_counter
    native = _median(lambda: code.launch(job.address, code.entry), samples, clock)
    pool.close()
    with Executable(image, code, lambda: link_shared(object_file)) as executable:
        run = _median(lambda: executable.run(feeds), samples, clock)
    return LaunchTime(num_veus, native, run)


def _median(launch: Callable[[], object], samples: int, clock: Callable[[], float]) -> float:
    """Return the median time in microseconds of a call of ``launch``.

    ``clock`` returns the current time in seconds. Each of the ``samples`` samples is the mean of
    ``BATCH`` calls.
    """
    for _ in range(BATCH):
        launch()
    times: list[float] = []
    for _ in range(samples):
        begin = clock()
        for _ in range(BATCH):
            launch()
        times.append((clock() - begin) / BATCH)
    return statistics.median(times) * 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the median time of a launch for each number of vEUs; return 0."""
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.launch")
    parser.add_argument("--veus", type=int, nargs="+", default=[1, 2], metavar="N")
    for num_veus in parser.parse_args(arguments).veus:
        print(measure_launch(num_veus))
    return 0


if __name__ == "__main__":
    sys.exit(main())
