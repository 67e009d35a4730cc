"""`rtask-apply-costs`: stores an rTask's predicted time in seconds in each `rtask.kernel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.ir.kernels import annotate_seconds, described_kernels
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.scheduling.cost_functions import seconds_by
from rammer_mlir.scheduling.devices.catalog import find_device


@dataclass(frozen=True)
class ApplyCosts(Pass):
    """Annotate each `rtask.kernel` with the seconds predicted by the cost function ``costs``.

    ``costs`` is the name of a registered function. The function predicts an rTask's time on a
    device with ``num-veus`` vEUs; ``device`` is the device's name or the file of its description.
    If the function returns None for an rKernel, the rKernel gets no seconds, and the device's cost
    model predicts its time.
    """

    name: ClassVar[str] = "rtask-apply-costs"
    takes: ClassVar[Form | None] = Form.BUFFERS

    costs: str = ""
    device: str = "cpu"
    num_veus: int = 1

    def check_options(self) -> None:
        """Raise an OptionError if ``num_veus`` is below 1."""
        check_least(self, 1, "num_veus")

    def run(self, module: ir.Module) -> None:
        """Set the attribute ``seconds`` of each ``rtask.kernel``: the predicted time of an rTask.

        The module is at the `buffers` stage. If the cost function returns None for an rKernel, its
        ``rtask.kernel`` stays unchanged.
        """
        device = find_device(self.device).device(self.num_veus)
        builder = graph_of_operators(module)
        for name, description in described_kernels(module).items():
            seconds = seconds_by(self.costs, builder.kernel(name), device)
            if seconds is not None:
                annotate_seconds(description, (seconds, seconds, seconds))
