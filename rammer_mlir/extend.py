"""Registers extensions from other packages and programs; see ``docs/extending.md``.

Each ``register_*`` function registers an object in this process. The command-line option
``--plugin`` imports a module or a Python file that calls these functions. An installed package can
declare the same objects as entry points instead. Objects are selected by name, and built-in objects
cannot be replaced. ``rammer_mlir.codegens`` has the classes and functions for writing a code
generator.
"""

from __future__ import annotations

from rammer_mlir.compiler.backends.backend import Backend, Code
from rammer_mlir.compiler.backends.registry import register_target
from rammer_mlir.compiler.options import CompileOptions
from rammer_mlir.compiler.stage import Stage, Work
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.ir.boxes_text import Box
from rammer_mlir.passes.regions.codegen import register_codegen
from rammer_mlir.passes.registry import register_pass
from rammer_mlir.passes.tiling.external_offer import external_rkernel
from rammer_mlir.passes.tiling.providers import (
    KernelProvider,
    OfferedOperator,
    register_rkernels,
)
from rammer_mlir.scheduling.cost_functions import CostFunction, register_costs
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device, register_device
from rammer_mlir.scheduling.devices.description import DeviceDescription
from rammer_mlir.scheduling.graph import RKernel, TaskGraph
from rammer_mlir.scheduling.policies import Policy, get_policy, register_policy
from rammer_mlir.scheduling.program import Plan

__all__ = [
    "Backend",
    "Box",
    "Code",
    "CompileOptions",
    "CostFunction",
    "Device",
    "DeviceDescription",
    "KernelProvider",
    "OfferedOperator",
    "OperationError",
    "Pass",
    "Plan",
    "Policy",
    "RKernel",
    "Stage",
    "TaskGraph",
    "Work",
    "external_rkernel",
    "find_device",
    "get_policy",
    "register_codegen",
    "register_costs",
    "register_device",
    "register_pass",
    "register_policy",
    "register_rkernels",
    "register_target",
]
