"""Defines the interface of scheduling policies."""

from __future__ import annotations

from typing import ClassVar, Protocol

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan


class Policy(Protocol):
    """Interface of a scheduling policy.

    The policy `auto` also tries policies whose attribute ``joins_auto`` is true. A policy that runs
    the rTasks of operators with a ``home`` there has the attribute ``keeps_homes``, which is true.
    """

    name: ClassVar[str]
    """The name by which users choose the policy."""

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the rPrograms for all rTasks of the graph, and the chosen rKernels."""
        ...


def keeps_homes(policy: Policy) -> bool:
    """Whether a policy runs all rTasks of an operator with a ``home`` on that vEU."""
    return bool(getattr(policy, "keeps_homes", False))
