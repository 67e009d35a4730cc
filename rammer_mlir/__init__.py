"""Compiles neural networks into a few persistent device programs, and runs them.

``load`` and the loaded model need only NumPy; ``compile`` also needs the compiler's packages. Each
function imports the packages that it needs when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Unpack, overload

from rammer_mlir.errors import (
    ArtifactError,
    AssemblyError,
    CacheWarning,
    EmulationError,
    FallbackWarning,
    InputError,
    MissingPackageError,
    ModelError,
    ModelWarning,
    OffloadWarning,
    OptionError,
    PassError,
    RammerError,
    RammerWarning,
    ScheduleError,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from rammer_mlir.options import (
    DEFAULT_SPECIALIZATIONS,
    DEFAULT_TARGET,
    Options,
    described_options,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rammer_mlir.emulation.device.executable import EmulatedExecutable
    from rammer_mlir.frontends.jax.package import LoweredFunction
    from rammer_mlir.frontends.mlir.sources import GivenConstants, GivenModule
    from rammer_mlir.frontends.onnx.sources import GivenModel
    from rammer_mlir.frontends.pytorch.package import TorchModule
    from rammer_mlir.hosted_models.loading import LoadedModel
    from rammer_mlir.hosted_models.model import HostedModel
    from rammer_mlir.open_models.entries import EntriesModel
    from rammer_mlir.open_models.model import OpenModel
    from rammer_mlir.runtime.compiled import CompiledModel
    from rammer_mlir.runtime.executable import Executable
    from rammer_mlir.runtime.gpu.executable import GpuExecutable
    from rammer_mlir.runtime.shared_pool import use_threads
    from rammer_mlir.runtime.signatures import PemKey

__all__ = [
    "ArtifactError",
    "AssemblyError",
    "CacheWarning",
    "EmulatedExecutable",
    "EmulationError",
    "EntriesModel",
    "Executable",
    "FallbackWarning",
    "GpuExecutable",
    "HostedModel",
    "InputError",
    "MissingPackageError",
    "ModelError",
    "ModelWarning",
    "OffloadWarning",
    "OpenModel",
    "OptionError",
    "Options",
    "PassError",
    "RammerError",
    "RammerWarning",
    "ScheduleError",
    "ShapeError",
    "TargetError",
    "UnsupportedError",
    "__version__",
    "compile",
    "load",
    "use_threads",
]

__version__: str

_UNKNOWN_VERSION = "0+unknown"
"""Version of a package that is not installed but imported from its source."""

_LAZY = {
    "EmulatedExecutable": "rammer_mlir.emulation.device.executable",
    "EntriesModel": "rammer_mlir.open_models.entries",
    "Executable": "rammer_mlir.runtime.executable",
    "GpuExecutable": "rammer_mlir.runtime.gpu.executable",
    "HostedModel": "rammer_mlir.hosted_models.model",
    "OpenModel": "rammer_mlir.open_models.model",
    "use_threads": "rammer_mlir.runtime.shared_pool",
}
"""Module that defines each public name that is imported at first use."""


def __getattr__(name: str) -> object:
    """Return the public class or function ``name``, or the version for ``__version__``.

    Python calls this function for a name that is not an attribute of the module yet. The result is
    stored as an attribute, so that the module of a name is imported at the first use of the name.

    Raises:
        AttributeError: if ``name`` is neither ``__version__`` nor a public name.
    """
    found: object
    if name == "__version__":
        found = _installed_version()
    elif name in _LAZY:
        found = getattr(import_module(_LAZY[name]), name)
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = found
    return found


def _installed_version() -> str:
    """Return the version of the installed package; ``0+unknown`` if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rammer-mlir")
    except PackageNotFoundError:
        return _UNKNOWN_VERSION


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@overload
def compile(
    model: GivenModel,
    *,
    target: Literal["cpu"] = "cpu",
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    external_data: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    cache: bool = True,
    emulate: Literal[False] = False,
    **options: Unpack[Options],
) -> Executable: ...


@overload
def compile(
    model: GivenModel,
    *,
    target: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    external_data: str | os.PathLike[str] | None = None,
    emulate: Literal[True],
    check: bool = False,
    **options: Unpack[Options],
) -> EmulatedExecutable: ...


@overload
def compile(
    model: GivenModel,
    *,
    target: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    external_data: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    device: int = 0,
    cache: bool = True,
    emulate: Literal[False] = False,
    **options: Unpack[Options],
) -> Executable | GpuExecutable: ...


@overload
def compile(
    model: GivenModel,
    *,
    target: str = DEFAULT_TARGET,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    external_data: str | os.PathLike[str] | None = None,
    specializations: int,
    executor: Executor | None = None,
    emulate: bool = False,
    check: bool = False,
    device: int = 0,
    cache: bool = True,
    **options: Unpack[Options],
) -> CompiledModel | OpenModel | HostedModel: ...


@overload
def compile(
    model: TorchModule,
    *,
    target: str = DEFAULT_TARGET,
    inputs: object = None,
    dynamic_shapes: object = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    specializations: int = DEFAULT_SPECIALIZATIONS,
    executor: Executor | None = None,
    emulate: bool = False,
    check: bool = False,
    device: int = 0,
    cache: bool = True,
    **options: Unpack[Options],
) -> CompiledModel | OpenModel | HostedModel: ...


@overload
def compile(
    model: GivenModule | LoweredFunction,
    *,
    target: str = DEFAULT_TARGET,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    entry: str | None = None,
    constants: GivenConstants | None = None,
    specializations: int = DEFAULT_SPECIALIZATIONS,
    executor: Executor | None = None,
    emulate: bool = False,
    check: bool = False,
    device: int = 0,
    cache: bool = True,
    **options: Unpack[Options],
) -> CompiledModel | OpenModel | EntriesModel: ...


def compile(
    model: GivenModel | GivenModule | LoweredFunction | TorchModule,
    *,
    target: str = DEFAULT_TARGET,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    external_data: str | os.PathLike[str] | None = None,
    entry: str | None = None,
    constants: GivenConstants | None = None,
    inputs: object = None,
    dynamic_shapes: object = None,
    specializations: int = DEFAULT_SPECIALIZATIONS,
    executor: Executor | None = None,
    emulate: bool = False,
    check: bool = False,
    device: int = 0,
    cache: bool = True,
    **options: Unpack[Options],
) -> CompiledModel | OpenModel | HostedModel | EntriesModel:
    """Compile a model of ONNX, PyTorch or JAX, or the public functions of an MLIR module.

    The class of the result depends on the model:

    - An ``OpenModel`` if inputs have open dimensions. The sizes of a run's arrays are the sizes of
      the open dimensions; a program for these sizes is compiled at their first use, with these
      options. Type checkers infer ``OpenModel`` only if ``specializations`` is given.
    - A ``HostedModel`` if control flow or sizes depend on data: the host runs several programs.
    - An ``EntriesModel`` for an MLIR module of several public functions, with a model for each
      function in ``entries``.
    - Otherwise an executable of one program.

    Args:
        model: for ONNX, a path, the bytes of a model, a binary file object, an ``onnx.ModelProto``,
            an ``ONNXProgram`` of ``torch.onnx.export``, or an ``onnx_ir.Model``. For MLIR, a path
            that ends in ``.mlir`` or ``.mlirbc``, text, bytecode, or an ``ir.Module``, with linalg
            on tensors, TOSA or StableHLO, or any stage that ``rammer-compile --emit`` printed. For
            PyTorch, a ``torch.nn.Module`` in evaluation mode or a ``torch.export.ExportedProgram``;
            ``rammer_mlir.pytorch`` has a callable on tensors. For JAX, the result of
            ``jax.jit(f).lower(...)``; ``rammer_mlir.jax`` has a callable for JAX functions.
        target: ``cpu`` for this machine's processor; another processor, such as ``cpu:x86-64-v3``;
            or a GPU, such as ``nvvm:sm_90`` or ``rocdl:gfx90a``.
        shapes: static shapes of inputs with open dimensions, by input name.
        dims: sizes of open dimensions, by the dimension's name in the model. A size applies to all
            dimensions with this name.
        external_data: a folder with external data, in addition to the model's folder. Symbolic
            links in one of the two folders may lead to the other folder; files elsewhere are not
            read.
        entry: the function of an MLIR module to compile; None for all public functions.
        constants: values of an MLIR module's arguments marked ``rtask.constant``, by name, or an
            ``.npz`` file with these values.
        inputs: example inputs of a PyTorch module: a tuple of positional arguments, or a dict of
            named arguments.
        dynamic_shapes: the open dimensions of a PyTorch module, as in ``torch.export.export``.
        specializations: for a model with open dimensions, the largest number of programs in memory;
            each combination of sizes of the open dimensions has a program.
        executor: if the option ``costs`` asks for measurements, runs them in other processes or on
            other machines; None to measure sequentially in this process.
        emulate: execute the GPU kernel on this machine's processor.
        check: let the emulation detect errors that are undefined behavior on a GPU: accesses out of
            bounds, reads of uninitialized memory, and data races. This multiplies the run time.
        device: index of the GPU that runs the model.
        cache: take the program from the user's cache (``RAMMER_CACHE_DIR``) if the model, the
            options and the compiler are unchanged, and store new programs there. Emulated programs
            are always compiled again.
        options: the options that ``Options`` declares, see below.

    Returns:
        The compiled model, ready to run.

    Raises:
        RammerError: with one line that names the problem and its remedy.

    Options:
    """
    from rammer_mlir.support.garbage import paused_collector
    from rammer_mlir.support.packages import told_if_missing

    with told_if_missing():
        with paused_collector():
            from rammer_mlir.compiler.models import Request, compile_any
            from rammer_mlir.compiler.options import (
                check_dims,
                check_options,
                check_shapes,
                check_specializations,
            )
            from rammer_mlir.compiler.requests import given_source

        checked = check_options(target, **options)
        shapes, dims = check_shapes(shapes), check_dims(dims)
        check_specializations(specializations)
        if executor is not None and not checked.measured:
            raise OptionError("executor: expected measured costs, found none; ask for them as well")
        if check and not emulate:
            raise OptionError("check: expected emulation, found none; emulate as well")
        if emulate:
            checked = checked.emulated(checked=check)
        source = given_source(
            model, external_data, entry, constants, inputs=inputs, dynamic_shapes=dynamic_shapes
        )
        request = Request(source, checked, shapes, dims, device, executor, cached=cache)
        return compile_any(request, specializations)


compile.__doc__ = f"{compile.__doc__ or ''}    {described_options().lstrip()}\n    "


def load(
    path: str | os.PathLike[str],
    device: int = 0,
    *,
    mapped: bool = True,
    verify: PemKey | None = None,
) -> LoadedModel:
    """Load a model that ``Executable.save`` or ``rammer-compile`` wrote.

    A file with several specializations gives an ``OpenModel``, which runs only these
    specializations. A loaded model can be pickled: the pickle contains the path of the file, which
    must exist unchanged when the pickle is loaded.

    Args:
        path: the artifact.
        device: index of the GPU that runs a model compiled for a GPU; the first run opens the GPU.
        mapped: memory-map large constants from the file, so that processes share them. Pass False
            to read the constants if the file may be changed in place while the model is in use.
        verify: an Ed25519 public key, as PEM text or the path of a PEM file. A file without a valid
            signature by the matching private key is refused, and constants are read, not mapped.

    Raises:
        ArtifactError: if the file is missing, not an artifact, corrupt, compiled for another
            machine, or lacks the expected signature.
    """
    from rammer_mlir.support.packages import told_if_missing

    with told_if_missing():
        from rammer_mlir.hosted_models.loading import load as load_artifact

        return load_artifact(path, device, mapped=mapped, verify=verify)
