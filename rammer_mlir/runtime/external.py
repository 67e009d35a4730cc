"""External rKernels of a program: their states, and their failures."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from rammer_mlir.engines.prebuilding import prebuilt
from rammer_mlir.engines.table import OpenModules, Weights, weights_of
from rammer_mlir.errors import FallbackWarning, TargetError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.native_interface import STATUS_BITS
from rammer_mlir.programs.records import Slot
from rammer_mlir.support.user_warnings import warn_user


def check_status(word: ctypes.c_int64, image: CpuImage, modules: OpenModules | None) -> None:
    """Raise the error of an external rKernel that failed in a run; reset the status word.

    ``word`` is the status word of the program, 0 if no rKernel failed. ``modules`` are the opened
    stateful functions, from which the libraries' messages are taken; None if there are none.

    Raises:
        TargetError: with the rKernel, the first rOperator that it computes, and its status or the
            library's message.
    """
    if not word.value:
        return
    found, word.value = word.value, 0
    status = ctypes.c_int32(found & ((1 << STATUS_BITS) - 1)).value
    number = found >> STATUS_BITS
    operators = [each.name for each in image.program.operators if each.kernel == number]
    message = modules.explain(number) if modules else ""
    raise TargetError(
        f"external rKernel '{image.program.kernels[number].name}' of rOperator '{operators[0]}': "
        f"expected status 0, found {message or status}; the outputs of this run are not valid"
    )


def open_modules(image: CpuImage, table: int) -> OpenModules:
    """Open the stateful functions of a program; ``table`` is the address of their table.

    Raises:
        RammerError: if a package is missing, or a function cannot be opened.
    """
    return OpenModules(image.modules, image.entries, _weights(image), table, image.num_veus)


def with_prebuilt_modules(image: CpuImage) -> CpuImage:
    """Return the program with external modules that engines have compiled in advance.

    An engine compiles only modules whose options ask for it; other modules are unchanged.

    Raises:
        RammerError: if an engine fails.
    """
    modules = prebuilt(image.modules, image.entries, _weights(image), image.num_veus)
    return replace(image, modules=modules)


def _weights(image: CpuImage) -> list[Weights]:
    """Return, for each stateful function, the addresses of its buffers that are fixed weights.

    A buffer that is no weight, or not the same weight for all rOperators, has None instead.
    """
    kernels = {entry.kernel for entry in image.entries}
    operands: dict[int, list[Weights]] = {kernel: [] for kernel in kernels}
    for operator in image.program.operators:
        if operator.kernel in kernels:
            operands[operator.kernel].append([_weight(image, slot) for slot in operator.slots])
    return weights_of(image.entries, operands)


def _weight(image: CpuImage, slot: Slot) -> int | None:
    """Return the address of a buffer if it is a weight, else None."""
    return image.constants.addresses([slot.offset])[0] if slot.base == "constant" else None


def warn_of_fallback(problem: Exception, modules: int) -> None:
    """Warn the user that the host's rKernels replace ``modules`` external modules, and why."""
    what = "a module" if modules == 1 else f"{modules} modules"
    warn_user(f"the host's rKernels run in place of {what}: {problem}", FallbackWarning)
