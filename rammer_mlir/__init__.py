"""rammer-mlir: neural networks compiled into a few persistent device programs.

``compile`` needs the compiler's packages; ``load`` and running need NumPy alone, so both import
what they need when they are called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, overload

from rammer_mlir.errors import OptionError, RammerError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rammer_mlir.emulation.device.executable import EmulatedExecutable
    from rammer_mlir.frontends.onnx.load import Source
    from rammer_mlir.runtime.executable import Executable
    from rammer_mlir.runtime.gpu.executable import GpuExecutable

__all__ = ["RammerError", "__version__", "compile", "load"]

__version__ = "0.1.0"


@overload
def compile(
    model: Source | bytearray | memoryview,
    *,
    target: Literal["cpu"] = "cpu",
    policy: str = "wavefront",
    num_veus: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    costs: str | None = None,
    merge: float | None = None,
    winograd: bool = True,
    executor: Executor | None = None,
    emulate: Literal[False] = False,
    cache: bool = True,
) -> Executable: ...


@overload
def compile(
    model: Source | bytearray | memoryview,
    *,
    target: str,
    policy: str = "wavefront",
    num_veus: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    costs: str | None = None,
    merge: float | None = None,
    winograd: bool = True,
    emulate: Literal[True],
    check: bool = False,
    watchdog: int = 0,
    per_operator: bool = False,
) -> EmulatedExecutable: ...


@overload
def compile(
    model: Source | bytearray | memoryview,
    *,
    target: str,
    policy: str = "wavefront",
    num_veus: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    costs: str | None = None,
    merge: float | None = None,
    winograd: bool = True,
    emulate: Literal[False] = False,
    watchdog: int = 0,
    per_operator: bool = False,
    device: int = 0,
    cache: bool = True,
) -> Executable | GpuExecutable: ...


def compile(
    model: Source | bytearray | memoryview,
    *,
    target: str = "cpu",
    policy: str = "wavefront",
    num_veus: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    costs: str | None = None,
    merge: float | None = None,
    winograd: bool = True,
    executor: Executor | None = None,
    emulate: bool = False,
    check: bool = False,
    watchdog: int = 0,
    per_operator: bool = False,
    device: int = 0,
    cache: bool = True,
) -> Executable | GpuExecutable:
    """Compile an ONNX model.

    Args:
        model: a path, the bytes of a model, or an ``onnx.ModelProto``.
        target: ``cpu``, this machine's processor, or a GPU's: ``nvvm:sm_90``, ``rocdl:gfx90a``.
        policy: how rTasks are scheduled: ``wavefront`` or ``sequential``, or a registered policy.
        num_veus: virtual execution units, threads on a CPU; the number of cores if None.
        shapes: static shapes of inputs whose dimensions the model leaves open, by name.
        costs: the device whose costs the schedule follows, a name (``a100``) or a file that ends
            with ``.toml``; by default one like the target. ``measured`` measures the rKernels on
            this processor, once: times are kept; ``measured:DEVICE`` takes what is not
            measured from that device.
        merge: merge convolutions or products of one input where that multiplies the arithmetic by
            no more (at least 1), with the policy ``ios`` only where it makes a stage faster; 0 for
            none; by default 1 with the policy ``ios``, else 0.
        winograd: on a CPU, compute 3x3 convolutions with fewer multiplications where that is
            faster; rounding errors are some ten times as large.
        executor: with ``measured``, where rKernels are measured; here, one by one, if None.
        emulate: execute the GPU's kernel on this machine's processor.
        check: let emulation find what a GPU would not forgive: accesses out of bounds, reads of
            memory never written, and data races, at many times the run time.
        watchdog: on a GPU, looks at another vEU's progress after which a waiting vEU stops the
            program, so that a run ends with an error instead of never; 0 for no watchdog.
        per_operator: on a GPU, launch the kernel once for each operator, to compare with.
        device: number of the GPU that runs the model.
        cache: take the program from the user's cache if nothing has changed since it was compiled,
            and keep it there (``RAMMER_CACHE_DIR``); what is emulated is compiled each time.

    Returns:
        The compiled model, ready to run.

    Raises:
        RammerError: with one line that says what is wrong and what to do.
    """
    from rammer_mlir.compiler.options import check_options, check_shapes

    options = check_options(
        target,
        policy,
        num_veus,
        costs=costs,
        watchdog=watchdog,
        per_operator=per_operator,
        merge=merge,
        winograd=winograd,
    )
    shapes = check_shapes(shapes)
    if isinstance(model, bytearray | memoryview):
        model = bytes(model)
    if executor is not None and not options.measured:
        raise OptionError("executor: expected measured costs, found none; ask for them as well")
    if emulate:
        from rammer_mlir.compiler.compilation import emulate_model

        return emulate_model(model, options, shapes, check=check)
    if check:
        raise OptionError("check: expected emulation, found none; emulate as well")
    if cache:
        from rammer_mlir.compiler.cache import compile_or_find

        return compile_or_find(model, options, shapes, device, executor)
    from rammer_mlir.compiler.compilation import compile_model

    return compile_model(model, options, shapes, device, executor)


def load(path: str | os.PathLike[str], device: int = 0) -> Executable | GpuExecutable:
    """Load a model that ``Executable.save`` or ``rammer-compile`` wrote.

    Args:
        path: the artifact.
        device: number of the GPU that runs a model compiled for one; it is opened with the first
            run.

    Raises:
        ArtifactError: if the file is missing, foreign, corrupt, or made for another machine.
    """
    from rammer_mlir.runtime.loader import load as load_artifact

    return load_artifact(path, device)
