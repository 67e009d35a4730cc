"""`rtask-profile-kernels`: annotates each `rtask.kernel` with the measured times of an rTask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.lowering.profiling.profiles import ProfileStore, default_path
from rammer_mlir.passes.base import Form, Pass, check_least


@dataclass(frozen=True)
class ProfileKernels(Pass):
    """Measure the time of every rKernel on this processor, or read the time from a cache.

    The option ``cache`` names the cache's file; its default is the file that the environment
    variable ``RAMMER_PROFILES`` names, or else a file in the user's cache folder. An exclusive
    rKernel may use ``num-veus`` threads.
    """

    name: ClassVar[str] = "rtask-profile-kernels"
    takes: ClassVar[Form | None] = Form.BUFFERS

    cache: str = ""
    num_veus: int = 1

    def check_options(self) -> None:
        """Raise an OptionError if ``num_veus`` is below 1."""
        check_least(self, 1, "num_veus")

    def run(self, module: ir.Module) -> None:
        """Annotate each ``rtask.kernel`` of a module at the `buffers` stage with measured times."""
        store = ProfileStore(Path(self.cache) if self.cache else default_path())
        profile_kernels(module, store, num_veus=self.num_veus)
