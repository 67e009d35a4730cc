"""Checks the user's options, and derives values from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Unpack, cast

from rammer_mlir.compiler.backends.registry import find_backend
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.fusion_boundary import check_boundary
from rammer_mlir.compiler.quantization.quantize import quantization_of
from rammer_mlir.compiler.quantization.samples import Samples
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES, REGIONS
from rammer_mlir.errors import FallbackWarning, OptionError, TargetError
from rammer_mlir.options import (
    DEFAULT_TARGET,
    Declared,
    Options,
    as_plain_values,
    declared_options,
    with_defaults,
)
from rammer_mlir.passes.regions.codegen import CODEGENS, HOST, find_codegen
from rammer_mlir.passes.regions.declared_options import check_module_options, check_owners
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.devices.catalog import names as device_names
from rammer_mlir.scheduling.policies import get_policy, name_of
from rammer_mlir.scheduling.policies.ios import Ios
from rammer_mlir.support.plugins import Registry
from rammer_mlir.support.usable_cores import usable_cores
from rammer_mlir.support.user_warnings import warn_user

if TYPE_CHECKING:
    from rammer_mlir.compiler.backends.backend import Backend
    from rammer_mlir.compiler.stage import Stage

MEASURED = "measured"
"""Name of the cost source that measures rKernels.

``measured:DEVICE`` takes all other costs from that device.
"""

_EXPECTED: Mapping[type, tuple[type, str]] = {
    str: (str, "a name"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
    Mapping: (Mapping, "a mapping"),
}
"""Accepted Python types of each option type, and their description in messages."""


@dataclass(frozen=True)
class CheckedOptions(CompileOptions):
    """Checked options of a compilation, with the backend that they were checked for."""

    backend: Backend

    def portable_stages(self) -> tuple[Stage, ...]:
        """Return the stages up to `program`, which several targets share.

        Most of these stages consist of passes only. Exceptions are `regions`, which may choose
        regions, and the stages that keep a memory budget.
        """
        stages = self.backend.checked_stages(self)
        return tuple(stage for stage in stages if stage.name in (REGIONS, *PORTABLE_STAGES))

    def emulated(self, *, checked: bool = False, traced: bool = False) -> CheckedOptions:
        """Return the options for emulating the target on this machine's processor.

        Args:
            checked: whether the emulator checks memory accesses.
            traced: whether launches record memory accesses.

        Raises:
            OptionError: if the target is not a GPU.
        """
        from rammer_mlir.compiler.backends.emulator import EmulatorBackend

        emulator = EmulatorBackend.of_backend(self.backend, checked=checked, traced=traced)
        return replace(self, backend=emulator)

    def without_foreign_code(self) -> CheckedOptions:
        """Return the options for the same program with rKernels of this compiler only."""
        # The fallback must not depend on external packages, so regions run on the host's rKernels.
        own = with_defaults({**self.given, "offload": "", "rkernels": "", "module_options": {}})
        offload = (HOST,) if own["quantize"] else ()
        return replace(self, given=own, offload=offload, rkernels=())

    def key(self) -> dict[str, object]:
        """Return the component of a cache key for the options, as values that JSON can represent.

        The result has all options that affect the compiled program. Its entry ``tools`` identifies
        the external tools of the target.
        """
        samples = None if self.samples is None else self.samples.digest
        decided: dict[str, object] = {
            **vars(self), "backend": repr(self.backend), "samples": samples
        }  # fmt: skip
        return {**decided, "tools": self.backend.tools()}


def check_options(target: str = DEFAULT_TARGET, **given: Unpack[Options]) -> CheckedOptions:
    """Return checked options for a target, with defaults for options not given.

    Raises:
        OptionError: if the target or an option is invalid, or the target does not support an
            option.
        TargetError: if the target's chip is unknown or too old.
    """
    samples, options = _read_samples(with_defaults(given))
    _check_kinds(options)
    options = as_plain_values(options)
    backend = find_backend(_check_target(target))
    get_policy(options["policy"])
    check_boundary(options["boundary"])
    _check_budget(options["memory_budget"])
    asked, costs = _split_costs(options["costs"], target, backend)
    measured = asked == MEASURED
    described = backend.device if costs is None else find_device(costs)
    num_veus = options["num_veus"]
    if num_veus is None:
        supersteps = described.is_bulk_synchronous
        num_veus = described.units if supersteps else backend.default_veus
    if described.is_bulk_synchronous:
        # Called only for its check of the number of vEUs.
        _check_supersteps(target, backend, costs, measured=measured)
    else:
        backend.device.device(num_veus)
    vdevice = described.device(num_veus)
    _check_taken(target, options, backend)
    options["module_options"] = _check_module_options(options)
    checked = CheckedOptions(
        target=target, backend=backend, given=options, num_veus=num_veus,
        device=costs or described.name, measured=measured, costs="" if measured else asked,
        rkernels=_check_names(options["rkernels"], KERNEL_PROVIDERS),
        offload=_check_offload(options), samples=_check_quantize(options, samples),
        merge_growth=_check_merge(options["merge"], options["policy"]),
        tile_bytes=vdevice.max_shared_memory if vdevice.is_bulk_synchronous else 0,
        fold_to=usable_cores() if vdevice.is_bulk_synchronous else 0,
    )  # fmt: skip
    backend.check(checked)
    return checked


def refuse_samples(options: CheckedOptions) -> None:
    """Refuse to quantize a model that runs as a host program.

    A host program is a list of steps in Python; a step may call a compiled part of the model.
    Calibration samples have values of the model's inputs only, not of the inputs of the host
    program's parts.

    Raises:
        OptionError: if ``options`` has calibration samples.
    """
    if options.samples is not None:
        raise OptionError(
            "quantize: expected a model that is one program, found one of several that the host "
            "runs; leave it out"
        )


def check_shapes(shapes: object) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs by name, with plain integers; empty for None.

    Raises:
        OptionError: if ``shapes`` is no mapping from names to sequences of integers.
    """
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise OptionError(f"shapes: expected a mapping from names to shapes, found {shapes!r}")
    checked: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        sizes = tuple(shape) if isinstance(shape, Iterable) else ()
        if not isinstance(shape, Iterable) or not all(map(_is_integer, sizes)):
            raise OptionError(
                f"shapes: expected integers for {name!r}, as (1, 3, 224, 224), found {shape!r}"
            )
        checked[name] = tuple(map(int, sizes))
    return checked


def check_dims(dims: object) -> dict[str, int]:
    """Return sizes of open dimensions by symbol, as plain integers; empty for None.

    Raises:
        OptionError: if ``dims`` is no mapping from names to integers of at least 0.
    """
    if dims is None:
        return {}
    if not isinstance(dims, Mapping):
        raise OptionError(f"dims: expected a mapping from dimensions to sizes, found {dims!r}")
    checked: dict[str, int] = {}
    for symbol, size in dims.items():
        if not _is_integer(size) or size < 0:
            raise OptionError(
                f"dims: expected an integer of at least 0 for {symbol!r}, found {size!r}"
            )
        checked[symbol] = int(size)
    return checked


def check_specializations(number: object) -> None:
    """Check the limit of specializations that a model keeps in memory.

    Raises:
        OptionError: if the limit is not an integer of at least 1.
    """
    if not _is_integer(number) or cast(int, number) < 1:
        raise OptionError(f"specializations: expected an integer of at least 1, found {number!r}")


def _is_integer(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _check_target(target: object) -> str:
    if not isinstance(target, str):
        raise OptionError(f"target: expected a name, found {target!r}")
    return target


def _check_kinds(options: Options) -> None:
    values: Mapping[str, object] = dict(options)
    known = {declared.name: declared for declared in declared_options()}
    for name, value in values.items():
        if name not in known:
            raise OptionError(f"{name}: unknown option, expected one of {', '.join(known)}")
        declared = known[name]
        if (value is not None or not declared.may_be_none) and not _is_of_kind(declared, value):
            expected = declared.option.words or _EXPECTED[declared.kind][1]
            raise OptionError(f"{name}: expected {expected}, found {value!r}")


def _is_of_kind(declared: Declared, value: object) -> bool:
    # Python's bool is an int, but True is not a valid number.
    if isinstance(value, bool) and declared.kind is not bool:
        return False
    return isinstance(value, _EXPECTED[declared.kind][0])


def _check_taken(target: str, options: Options, backend: Backend) -> None:
    """Raise OptionError for a non-default option that the target does not support."""
    values: Mapping[str, object] = dict(options)
    for declared in declared_options():
        wanted = declared.option.only_for
        if not wanted or declared.name in backend.takes:
            continue
        if values[declared.name] != declared.option.default:
            raise OptionError(
                f"{declared.name}: expected {wanted} as target, found '{target}'; leave it out"
            )


def _check_supersteps(target: str, backend: Backend, costs: str | None, *, measured: bool) -> None:
    """Raise OptionError if options exclude the bulk-synchronous device that the user chose.

    Args:
        target: the value of ``--target``.
        backend: the backend of the target, which must support supersteps.
        costs: the name of the device, as the user gives it.
        measured: whether the user asks for measured costs, which such a device cannot have.
    """
    if measured:
        raise OptionError(
            f"costs '{MEASURED}:{costs}': expected a device like this processor, found one that "
            "synchronizes as a whole; leave 'measured' out"
        )
    if not backend.has_supersteps:
        raise OptionError(
            f"costs '{costs}': expected target cpu, which executes supersteps with few threads, "
            f"found '{target}'; choose another device or target"
        )


def _check_budget(budget: int | None) -> None:
    if budget is not None and budget < 0:
        raise OptionError(f"memory_budget: expected at least 0 bytes, found {budget}")


def _check_merge(merge: float | None, policy: str) -> float:
    if merge is None:
        return 1.0 if name_of(policy) == Ios.name else 0.0
    if merge != 0 and not 1 <= merge < inf:
        raise OptionError(
            f"merge: expected 0 for no merging, or a growth of at least 1, found {merge:g}"
        )
    return merge


def _check_names(names: str, registry: Registry[Any]) -> tuple[str, ...]:
    """Return the names in the comma-separated list ``names``.

    Raise OptionError for a name that is not in ``registry``, or that is listed twice.
    """
    found = tuple(name.strip() for name in names.split(",")) if names else ()
    for number, name in enumerate(found):
        registry.get(name)
        if name in found[:number]:
            raise OptionError(f"{registry.noun} '{name}': expected once, found twice; remove one")
    return found


def _read_samples(options: Options) -> tuple[Samples | None, Options]:
    """Return the calibration data, and options with the data replaced by its digest.

    Without calibration data, return None and the options unchanged.

    Raises:
        OptionError: if the data is neither arrays nor the name of a file.
        InputError: if there are no arrays of numbers.
    """
    given = cast("object", options["calibration"])
    if given is None:
        return None, options
    if given == "" or not isinstance(given, str | os.PathLike | Mapping):
        raise OptionError(
            f"calibration: expected the name of an .npz file, or arrays by name, found {given!r}"
        )
    samples = Samples.of(given)
    digested = options.copy()
    digested["calibration"] = samples.digest
    return samples, digested


def _check_quantize(options: Options, samples: Samples | None) -> Samples | None:
    bits = options["quantize"]
    if not bits:
        if samples is not None or options["quantize_dynamic"]:
            raise OptionError("quantize: expected 8 or 16 with calibration data, found 0")
        return None
    quantization_of(options, ()).check()
    if samples is None:
        raise OptionError(
            "calibration: expected samples of the inputs for quantize, found none; give an .npz "
            "file"
        )
    return samples


def _check_offload(options: Options) -> tuple[str, ...]:
    choice, seconds = options["offload_choice"], options["offload_seconds"]
    if choice not in ("cost", "always"):
        raise OptionError(f"offload_choice: expected 'cost' or 'always', found {choice!r}")
    if not seconds >= 0:
        raise OptionError(f"offload_seconds: expected at least 0, found {seconds:g}")
    if options["fallback"] not in ("refuse", "host"):
        raise OptionError(f"fallback: expected 'refuse' or 'host', found {options['fallback']!r}")
    found = _check_names(options["offload"], CODEGENS)
    has_fallback = options["fallback"] == "host"
    there = tuple(name for name in found if _is_there(name, fallback=has_fallback))
    return there or ((HOST,) if options["quantize"] else ())


def _check_module_options(options: Options) -> dict[str, str | int | float | bool]:
    if options["module_options"] and not options["offload"]:
        raise OptionError(
            "module_options: expected code generators in offload, found none; name them, or leave "
            "it out"
        )
    found = check_module_options(options["module_options"])
    check_owners(found, _check_names(options["offload"], CODEGENS))
    return dict(found)


def _is_there(name: str, *, fallback: bool) -> bool:
    """Return whether the requirements of the code generator ``name`` are installed.

    If a requirement is missing, warn and return False if ``fallback`` is True; else raise
    TargetError. Raise OptionError for an unknown name.
    """
    try:
        find_codegen(name)
    except TargetError as problem:
        if not fallback:
            raise
        warn_user(f"{problem}; the host computes what it would", FallbackWarning)
        return False
    return True


def _split_costs(costs: str | None, target: str, backend: Backend) -> tuple[str, str | None]:
    """Split the option ``costs`` into a source of rKernels' costs and a device.

    The option has the form SOURCE, SOURCE:DEVICE or DEVICE, or is None if the user omits it.

    Returns:
        The source: ``measured`` or the name of a cost function; empty if the option has no source.
            The device: the name of the device description with all costs that the source does not
            provide; None if the option has no device.

    Raises:
        OptionError: if costs are to be measured, and ``target``'s ``backend`` cannot measure them.
    """
    if costs is None:
        return "", None
    first, _, rest = costs.partition(":")
    if first != MEASURED:
        # A name with a suffix is a device file, even if a cost function has the same name.
        is_device = "." in first or first.lower() in device_names()
        if is_device or COST_FUNCTIONS.find(first) is None:
            return "", costs
        return first, rest or None
    if not backend.measures:
        raise OptionError(
            f"costs '{costs}': expected target cpu, on which rKernels can be measured, found "
            f"'{target}'; name a device instead"
        )
    return MEASURED, rest or None
