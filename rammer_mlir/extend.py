"""What other packages and programs add to the compiler; see ``docs/extending.md``.

Each ``register_*`` function makes an object known in this process. ``--plugin MODULE|FILE.py`` has
a tool import what calls them; a package offers the same objects by entry points instead. Objects
are chosen by name, and nothing that is built in can be replaced.
"""

from __future__ import annotations

from rammer_mlir.compiler.backends.backend import Backend, Code
from rammer_mlir.compiler.backends.registry import register_target
from rammer_mlir.compiler.options import CompileOptions
from rammer_mlir.compiler.stage import Stage, Work
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.ir.boxes_text import Box
from rammer_mlir.passes.regions.codegen import Codegen, RegionFacts, register_codegen
from rammer_mlir.passes.regions.cuts import Limits
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.patterns import (
    CompositePattern,
    alternatives,
    constant,
    op,
    wildcard,
)
from rammer_mlir.passes.regions.reading import Operand, Reading
from rammer_mlir.passes.regions.region import Region, RegionCode, RegionOperation
from rammer_mlir.passes.registry import register_pass
from rammer_mlir.passes.tiling.external_offer import external_rkernel
from rammer_mlir.passes.tiling.providers import (
    KernelProvider,
    OfferedOperator,
    register_rkernels,
)
from rammer_mlir.scheduling.cost_functions import CostFunction, register_costs
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import find_device, register_device
from rammer_mlir.scheduling.devices.description import DeviceDescription
from rammer_mlir.scheduling.graph import RKernel, TaskGraph
from rammer_mlir.scheduling.policies import Policy, get_policy, register_policy
from rammer_mlir.scheduling.program import Plan

__all__ = [
    "Backend",
    "Box",
    "Code",
    "Codegen",
    "CompileOptions",
    "CompositePattern",
    "CostFunction",
    "Device",
    "DeviceDescription",
    "KernelProvider",
    "Limits",
    "Match",
    "OfferedOperator",
    "Operand",
    "OperationError",
    "Pass",
    "Plan",
    "Policy",
    "RKernel",
    "Reading",
    "Region",
    "RegionCode",
    "RegionFacts",
    "RegionOperation",
    "Stage",
    "TaskGraph",
    "Work",
    "alternatives",
    "constant",
    "external_rkernel",
    "find_device",
    "get_policy",
    "op",
    "register_codegen",
    "register_costs",
    "register_device",
    "register_pass",
    "register_policy",
    "register_rkernels",
    "register_target",
    "wildcard",
]
