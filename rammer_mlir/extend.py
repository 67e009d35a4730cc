"""What other packages and programs add to the compiler; see ``docs/extending.md``.

Each ``register_*`` function makes an object known in this process. ``--plugin MODULE|FILE.py`` has
a tool import what calls them; a package offers the same objects by entry points instead. Objects
are chosen by name, and nothing that is built in can be replaced.
"""

from __future__ import annotations

from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.registry import register_pass
from rammer_mlir.passes.tiling.providers import (
    KernelProvider,
    OfferedOperator,
    register_rkernels,
)
from rammer_mlir.scheduling.cost_functions import CostFunction, register_costs
from rammer_mlir.scheduling.devices.catalog import register_device
from rammer_mlir.scheduling.devices.description import DeviceDescription
from rammer_mlir.scheduling.policies import Policy, register_policy

__all__ = [
    "CostFunction",
    "DeviceDescription",
    "KernelProvider",
    "OfferedOperator",
    "Pass",
    "Policy",
    "register_costs",
    "register_device",
    "register_pass",
    "register_policy",
    "register_rkernels",
]
