"""Defines the interface of scheduling policies."""

from __future__ import annotations

from typing import ClassVar, Protocol

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan


class Policy(Protocol):
    """Interface of a scheduling policy.

    A policy may have two more attributes. If ``joins_auto`` is true, the policy `auto` also tries
    this policy. If ``keeps_homes`` is true, the policy runs all rTasks of an operator with a
    ``home`` on the vEU ``home``.
    """

    name: ClassVar[str]
    """The name by which users choose the policy."""

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the rPrograms for all rTasks of the graph, and the chosen rKernels."""
        ...


def keeps_homes(policy: Policy) -> bool:
    """Whether a policy runs all rTasks of an operator with a ``home`` on the vEU ``home``."""
    return bool(getattr(policy, "keeps_homes", False))
