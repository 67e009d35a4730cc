"""What the user may ask of the compiler, checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import inf
from numbers import Integral, Real

from rammer_mlir.compiler.pipeline import CompileOptions
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.targets import find_gpu
from rammer_mlir.scheduling.devices.catalog import CPU, device_for, find_device
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.ios import Ios

MEASURED = "measured"
"""Costs of rKernels as measured here; ``measured:DEVICE`` takes the rest from that device."""


_KINDS: Mapping[str, tuple[type, str]] = {
    "target": (str, "a name"),
    "policy": (str, "a name"),
    "num_veus": (Integral, "a whole number"),
    "costs": (str, "a name or a file"),
    "watchdog": (Integral, "a whole number"),
    "merge": (Real, "a number"),
}
"""What each option is, in Python and in words."""

_MAY_BE_NONE = frozenset({"num_veus", "costs", "merge"})


def check_options(
    target: str,
    policy: str,
    num_veus: int | None,
    *,
    costs: str | None = None,
    watchdog: int = 0,
    per_operator: bool = False,
    merge: float | None = None,
    winograd: bool = True,
) -> CompileOptions:
    """Return checked options; ``num_veus`` defaults to the number of cores or multiprocessors.

    ``costs`` names the device whose costs schedules follow, by default one like the target;
    ``measured`` or ``measured:DEVICE`` measures the rKernels on this processor. ``merge`` is how
    much merged convolutions may multiply the arithmetic; by default they may not with the policy
    ``ios``, and with others none are merged (0). ``winograd`` allows 3x3 convolutions on a CPU by
    Winograd's minimal filtering.

    Raises:
        OptionError: if the target, the policy or the number of vEUs is not one that exists, or an
            option does not fit the target.
        TargetError: if the target's chip is unknown or too old.
    """
    _check_kinds(
        target=target, policy=policy, num_veus=num_veus, costs=costs, watchdog=watchdog, merge=merge
    )
    gpu = find_gpu(target)
    get_policy(policy)
    measured, costs = _split_costs(costs, target)
    own = device_for(gpu.name if gpu else CPU)
    described = own if costs is None else find_device(costs)
    cores = len(os.sched_getaffinity(0))
    if num_veus is None:
        num_veus = gpu.num_veus if gpu else cores
        num_veus = described.units if described.is_bulk_synchronous else num_veus
    if described.is_bulk_synchronous:
        _check_supersteps(target, costs, measured=measured)
    else:
        own.device(num_veus)
    num_veus = int(num_veus)
    vdevice = described.device(num_veus)
    _check_launches(target, watchdog, per_operator=per_operator)
    return CompileOptions(
        target=target, policy=policy, num_veus=num_veus, device=costs or described.name,
        tile_bytes=vdevice.max_shared_memory if vdevice.is_bulk_synchronous else 0,
        fold_to=cores if vdevice.is_bulk_synchronous else 0,
        watchdog=watchdog, per_operator=per_operator, measured=measured,
        merge_growth=_check_merge(merge, policy), winograd=winograd,
    )  # fmt: skip


def check_shapes(shapes: object) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs by name, with plain integers; none for None.

    Raises:
        OptionError: if they are not a mapping from names to sequences of whole numbers.
    """
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise OptionError(f"shapes: expected a mapping from names to shapes, found {shapes!r}")
    checked: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        sizes = tuple(shape) if isinstance(shape, Iterable) else ()
        if not isinstance(shape, Iterable) or not all(map(_is_whole, sizes)):
            raise OptionError(
                f"shapes: expected whole numbers for {name!r}, as (1, 3, 224, 224), found {shape!r}"
            )
        checked[name] = tuple(map(int, sizes))
    return checked


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _check_kinds(**options: object) -> None:
    for name, value in options.items():
        kind, words = _KINDS[name]
        if value is None and name in _MAY_BE_NONE:
            continue
        if isinstance(value, bool) or not isinstance(value, kind):
            raise OptionError(f"{name}: expected {words}, found {value!r}")


def _check_supersteps(target: str, costs: str | None, *, measured: bool) -> None:
    """Refuse what does not go with a device that synchronises as a whole."""
    if measured:
        raise OptionError(
            f"costs '{MEASURED}:{costs}': expected a device like this processor, found one that "
            "synchronises as a whole; leave 'measured' out"
        )
    if target != CPU:
        raise OptionError(
            f"costs '{costs}': expected target cpu, which executes supersteps with few threads, "
            f"found '{target}'; choose another device or target"
        )


def _check_launches(target: str, watchdog: int, *, per_operator: bool) -> None:
    """Refuse ways to launch a program that its target does not have, or that exclude each other."""
    if watchdog < 0:
        raise OptionError(f"watchdog: expected a number of looks, at least 0, found {watchdog}")
    if target == CPU and (watchdog or per_operator):
        option = "watchdog" if watchdog else "one launch per operator"
        raise OptionError(f"{option}: expected a GPU as target, found '{target}'; leave it out")
    if watchdog and per_operator:
        raise OptionError(
            "watchdog: expected one launch of the whole program, found one per operator, where "
            "nothing waits; leave one of the options out"
        )


def _check_merge(merge: float | None, policy: str) -> float:
    if merge is None:
        return 1.0 if policy == Ios.name else 0.0
    if merge != 0 and not 1 <= merge < inf:
        raise OptionError(
            f"merge: expected 0 for no merging, or a growth of at least 1, found {merge:g}"
        )
    return merge


def _split_costs(costs: str | None, target: str) -> tuple[bool, str | None]:
    """Return whether rKernels are measured, and the device whose costs the rest follows."""
    first, _, rest = (costs or "").partition(":")
    if first != MEASURED:
        return False, costs
    if target != CPU:
        raise OptionError(
            f"costs '{costs}': expected target {CPU}, on which rKernels can be measured, found "
            f"'{target}'; name a device instead"
        )
    return True, rest or None
