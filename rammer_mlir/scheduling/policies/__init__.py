"""Scheduling policies: what decides where and when each rTask runs.

A policy is any object with a ``name`` and ``schedule(graph, device) -> Plan``. The mechanism that
policies share is in ``builder`` (append and wait) and ``costs`` (the profiler); every plan, whoever
made it, is checked by ``verifier``.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.auto import Auto
from rammer_mlir.scheduling.policies.ios import Ios
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling
from rammer_mlir.scheduling.policies.optimal import Optimal
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan


class Policy(Protocol):
    """What every scheduling policy offers."""

    name: ClassVar[str]
    """Name by which users choose the policy."""

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a complete schedule of the graph for the device."""
        ...


_BUILT_IN: tuple[Policy, ...] = (
    Wavefront(),
    Sequential(),
    ListScheduling(),
    Ios(),
    Optimal(),
    Auto(),
)

POLICIES: dict[str, Policy] = {policy.name: policy for policy in _BUILT_IN}
"""Policies by name."""


def register_policy(policy: Policy) -> None:
    """Make a policy known by its name.

    Raises:
        OptionError: if it is no policy, or another one has that name.
    """
    given: object = policy
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not callable(getattr(given, "schedule", None)):
        raise OptionError(
            f"expected a policy, with a name and a function schedule(graph, device), found "
            f"{type(given).__name__}"
        )
    if policy.name in POLICIES:
        raise OptionError(f"policy '{policy.name}' exists already: choose another name")
    POLICIES[policy.name] = policy


def get_policy(name: str) -> Policy:
    """Return the policy of that name.

    Raises:
        OptionError: if there is none, listing the known ones.
    """
    if name not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise OptionError(f"unknown policy '{name}': expected one of {known}")
    return POLICIES[name]
