"""Opens the foreign code of a program, and reports failures of external rKernels."""

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
    """Raise an error if an external rKernel failed in a run, and reset the status word.

    Args:
        word: the program's status word; 0 if no rKernel failed.
        image: the program's data.
        modules: the opened stateful functions, which provide the libraries' error messages; None
            if there are none.

    Raises:
        TargetError: if an rKernel failed; names the rKernel, the first rOperator that it computes,
            and its status or the library's message.
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
    """Open the stateful functions of a program, so that compiled code can call them.

    ``table`` is the address, in the program's loaded code, of the table ``rammer_modules``, from
    which compiled code reads the address and the state of each stateful function. This function
    fills the table.

    Raises:
        RammerError: if a package is missing, or a function cannot be opened.
    """
    return OpenModules(image.modules, image.entries, _weights(image), table, image.num_veus)


def with_prebuilt_modules(image: CpuImage) -> CpuImage:
    """Return the program with its external modules compiled in advance by their engines.

    An engine compiles only modules whose options ask for it; other modules are unchanged.

    Raises:
        RammerError: if an engine fails.
    """
    modules = prebuilt(image.modules, image.entries, _weights(image), image.num_veus)
    return replace(image, modules=modules)


def _weights(image: CpuImage) -> list[Weights]:
    """Return, for each stateful function, the addresses of those of its buffers that are weights.

    A function's list has an entry for each of its buffers. The entry is None if the buffer is not a
    weight, or if different rOperators call the function with different weights.
    """
    kernels = {entry.kernel for entry in image.entries}
    operands: dict[int, list[Weights]] = {kernel: [] for kernel in kernels}
    for operator in image.program.operators:
        if operator.kernel in kernels:
            operands[operator.kernel].append([_weight(image, slot) for slot in operator.slots])
    return weights_of(image.entries, operands)


def _weight(image: CpuImage, slot: Slot) -> int | None:
    """Return the host address of the memory that ``slot`` names if it is a weight, else None."""
    return image.constants.addresses([slot.offset])[0] if slot.base == "constant" else None


def warn_of_fallback(problem: Exception, modules: int) -> None:
    """Warn that the host's rKernels replace external modules because of ``problem``.

    ``modules`` is the number of replaced modules.
    """
    what = "a module" if modules == 1 else f"{modules} modules"
    warn_user(f"the host's rKernels run in place of {what}: {problem}", FallbackWarning)
