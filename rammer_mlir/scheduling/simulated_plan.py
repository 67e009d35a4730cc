"""Makes the plan by which the compiler would execute a graph, for simulations."""

from __future__ import annotations

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import Policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.supersteps import supersteps


def executed_plan(policy: Policy, graph: TaskGraph, device: Device) -> Plan:
    """Return a policy's plan after redundant waits are removed, as the compiler would execute it.

    On a bulk-synchronous device, the plan is also divided into supersteps.

    Raises:
        ScheduleError: if the policy fails, or does not return a plan of this graph and device.
    """
    plan = minimize(ask(policy, graph, device))
    return supersteps(graph, plan, device) if device.is_bulk_synchronous else plan
