"""A cost function that knows one rKernel."""

from rammer_mlir.scheduling.cost_functions import register_costs
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel


def slow_kernels(kernel: RKernel, device: Device) -> float | None:
    """Return a microsecond for each vEU if the rKernel is called slow."""
    return device.num_veus * 1e-6 if kernel.name == "slow" else None


register_costs("slow-kernels", slow_kernels)
