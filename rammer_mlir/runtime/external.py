"""What external rKernels leave behind when they do not succeed."""

from __future__ import annotations

import ctypes

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.native_interface import STATUS_BITS


def check_status(word: ctypes.c_int64, image: CpuImage) -> None:
    """Refuse the outputs of a run in which an external rKernel did not succeed; reset the word.

    Raises:
        TargetError: naming the rKernel, the first rOperator that it computes, and its status.
    """
    if not word.value:
        return
    found, word.value = word.value, 0
    status = ctypes.c_int32(found & ((1 << STATUS_BITS) - 1)).value
    number = found >> STATUS_BITS
    operators = [each.name for each in image.program.operators if each.kernel == number]
    raise TargetError(
        f"external rKernel '{image.program.kernels[number].name}' of rOperator '{operators[0]}': "
        f"expected status 0, found {status}; the outputs of this run are not valid"
    )
