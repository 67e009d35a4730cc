"""Lists the passes of the folder ``lowering``, in the order in which the compiler runs them."""

from __future__ import annotations

from rammer_mlir.lowering.cpu.rtask_lower_kernels import LowerKernels
from rammer_mlir.lowering.cpu.rtask_lower_to_cpu import LowerToCpu
from rammer_mlir.lowering.cpu.rtask_vectorize_kernels import VectorizeKernels
from rammer_mlir.lowering.from_gpu.rtask_from_gpu import FromGpu
from rammer_mlir.lowering.gpu.rtask_map_to_threads import MapToThreads
from rammer_mlir.lowering.llvm.rtask_expand_math import ExpandMath
from rammer_mlir.lowering.nvvm.rtask_gpu_to_nvvm import GpuToNvvm
from rammer_mlir.lowering.profiling.rtask_check_external import CheckExternal
from rammer_mlir.lowering.profiling.rtask_profile_kernels import ProfileKernels
from rammer_mlir.lowering.rocdl.rtask_gpu_to_rocdl import GpuToRocdl
from rammer_mlir.lowering.rtask_lower_to_gpu import LowerToGpu
from rammer_mlir.passes.base import Pass

LOWERING_PASSES: tuple[type[Pass], ...] = (
    FromGpu,
    CheckExternal,
    ProfileKernels,
    VectorizeKernels,
    LowerKernels,
    LowerToCpu,
    MapToThreads,
    LowerToGpu,
    GpuToNvvm,
    GpuToRocdl,
    ExpandMath,
)
