"""Contains the scheduling policies, which choose the vEU and the order of the rTasks.

A policy is any object with a ``name`` and ``schedule(graph, device) -> Plan``. Policies share the
modules ``builder``, which appends rTasks and their waits to a program, and ``costs``, which
predicts times. The ``verifier`` checks every plan, whichever policy made it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, cast, get_origin, get_type_hints

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.policies.auto import Auto
from rammer_mlir.scheduling.policies.ios import Ios
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling
from rammer_mlir.scheduling.policies.optimal import Optimal
from rammer_mlir.scheduling.policies.policy import Policy
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.support.plugins import Registry, check_name, check_plain_name, refuse
from rammer_mlir.support.text_options import values_of_text

__all__ = ["POLICIES", "Policy", "get_policy", "is_own_policy", "name_of", "register_policy"]


def _for_auto() -> tuple[Policy, ...]:
    """Return the registered policies that the policy `auto` tries in addition to its own.

    They are the policies that can be imported and whose attribute ``joins_auto`` is true.
    """
    policies = (extension.value for extension in POLICIES.extensions())
    return tuple(p for p in policies if p is not None and getattr(p, "joins_auto", False))


def _check(name: str, value: object) -> Policy:
    given: Any = value() if isinstance(value, type) and hasattr(value, "schedule") else value
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not callable(getattr(given, "schedule", None)):
        refuse("a policy, with a name and a function schedule(graph, device)", value)
    check_name(name, given.name)
    check_plain_name(name)
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
"""All policies by name, built in and registered by other packages."""


def register_policy(policy: Policy) -> None:
    """Register a policy under its name.

    Example::

        class OnTwo:
            name = "on-two"
            def schedule(self, graph: TaskGraph, device: Device) -> Plan:
                return get_policy("list").schedule(graph, replace(device, num_veus=2))
        register_policy(OnTwo())

    Raises:
        OptionError: if ``policy`` is not a policy, or its name is already registered.
    """
    POLICIES.register(getattr(policy, "name", ""), policy)


def get_policy(text: str) -> Policy:
    """Return the policy named in ``text``, with options in braces if given: ``ios{num-groups=4}``.

    A policy has options if it is a dataclass: an option sets a field of the dataclass.

    Raises:
        OptionError: if no policy has this name (the message lists the known names), the entry point
            of the policy cannot be loaded, or an option is unknown or malformed.
    """
    name, brace, options = text.partition("{")
    policy = POLICIES.get(name)
    if not brace:
        return policy
    if not options.endswith("}"):
        raise OptionError(f"policy '{text}': expected a brace at the end")
    kinds: dict[str, object] = {}
    if dataclasses.is_dataclass(policy):
        hints = get_type_hints(type(policy))
        kinds = {f.name: hints[f.name] for f in dataclasses.fields(policy) if _is_option(hints, f)}
    values = values_of_text(name, options[:-1], kinds, OptionError)
    return cast("Policy", dataclasses.replace(cast("Any", policy), **values))


def name_of(text: str) -> str:
    """Return the policy's name in a text with or without options: ``ios{num-groups=4} -> ios``."""
    return text.partition("{")[0]


def _is_option(hints: Mapping[str, object], field: dataclasses.Field[Any]) -> bool:
    kind: Any = hints[field.name]
    return kind in (bool, int, float, str) or get_origin(kind) is Literal


def is_own_policy(text: str) -> bool:
    """Whether the policy named in ``text`` uses only code of this project.

    Only built-in policies do. The policy `auto` also tries registered policies that have a true
    attribute ``joins_auto``; if such a policy is registered, the result for `auto` is False.
    ``text`` may have options in braces, as for ``get_policy``.
    """
    name = name_of(text)
    return POLICIES.is_built_in(name) and not (name == Auto.name and _for_auto())
