"""Scheduling policies: what decides where and when each rTask runs.

A policy is any object with a ``name`` and ``schedule(graph, device) -> Plan``. The mechanism that
policies share is in ``builder`` (append and wait) and ``costs`` (the profiler); every plan, whoever
made it, is checked by ``verifier``.
"""

from __future__ import annotations

from typing import Any, cast

from rammer_mlir.scheduling.policies.auto import Auto
from rammer_mlir.scheduling.policies.ios import Ios
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling
from rammer_mlir.scheduling.policies.optimal import Optimal
from rammer_mlir.scheduling.policies.policy import Policy
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.support.plugins import Registry, check_name, refuse

__all__ = ["POLICIES", "Policy", "get_policy", "is_own_policy", "register_policy"]


def _for_auto() -> tuple[Policy, ...]:
    """Return the policies from outside that `auto` tries too; broken ones are left out."""
    policies = (extension.value for extension in POLICIES.extensions())
    return tuple(p for p in policies if p is not None and getattr(p, "joins_auto", False))


def _check(name: str, value: object) -> Policy:
    given: Any = value() if isinstance(value, type) and hasattr(value, "schedule") else value
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not callable(getattr(given, "schedule", None)):
        refuse("a policy, with a name and a function schedule(graph, device)", value)
    check_name(name, given.name)
    return cast("Policy", given)


_BUILT_IN: tuple[Policy, ...] = (
    Wavefront(),
    Sequential(),
    ListScheduling(),
    Ios(),
    Optimal(),
    Auto(further=_for_auto),
)

POLICIES = Registry("policy", {policy.name: policy for policy in _BUILT_IN}, _check, "policies")
"""Policies by name."""


def register_policy(policy: Policy) -> None:
    """Make a policy known by its name.

    Example::

        class OnTwo:
            name = "on-two"
            def schedule(self, graph: TaskGraph, device: Device) -> Plan:
                return get_policy("list").schedule(graph, replace(device, num_veus=2))
        register_policy(OnTwo())

    Raises:
        OptionError: if it is no policy, or another one has that name.
    """
    POLICIES.register(getattr(policy, "name", ""), policy)


def get_policy(name: str) -> Policy:
    """Return the policy of that name.

    Raises:
        OptionError: if there is none, listing the known ones, or its entry point is broken.
    """
    return POLICIES.get(name)


def is_own_policy(name: str) -> bool:
    """Whether a policy, and all that it asks, is part of this project, whose source is known."""
    return POLICIES.is_built_in(name) and not (name == Auto.name and _for_auto())
