"""Collects the options that code generators and engines declare, and checks the users' values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.programs.module_options import ModuleOption, text_of


def declared_by(owner: object) -> tuple[ModuleOption, ...]:
    """Return the options that a code generator or an engine declares in its member ``options``.

    The result is empty if ``owner`` has no such member.
    """
    return tuple(getattr(owner, "options", ()))


def options_of(owner: str) -> dict[str, ModuleOption]:
    """Return the options that the code generator and the engine named ``owner`` declare.

    The keys are the full names of the options, ``owner.option``.
    """
    found = (registry.find(owner) for registry in (CODEGENS, ENGINES))
    return {f"{owner}.{each.name}": each for one in found for each in declared_by(one)}


def all_options() -> dict[str, ModuleOption]:
    """Return the options of all loadable code generators and engines, by ``owner.option``."""
    found: dict[str, ModuleOption] = {}
    for owner in sorted({*CODEGENS.names(), *ENGINES.names()}):
        try:
            found |= options_of(owner)
        except OptionError:  # a broken entry point
            continue
    return found


def check_module_options(given: Mapping[str, object]) -> dict[str, str]:
    """Check values of options; return them as text, sorted by the options' full names.

    ``given`` maps full names of options, ``owner.option``, to values.

    Raises:
        OptionError: if a name is not a string, an option is unknown, or its value is invalid.
    """
    _check_text(given)
    return {name: _checked(name, value) for name, value in sorted(given.items())}


def _check_text(names: Iterable[object]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise OptionError(
                "module_options: expected names as text, such as 'openvino.threads', found "
                f"{name!r}"
            )


def check_owners(names: Iterable[str], codegens: Sequence[str]) -> None:
    """Check that each of the options ``names`` is for one of the code generators ``codegens``.

    ``codegens`` are the code generators that the compilation uses. If one of them is not built in,
    nothing is checked: this code generator may use any engine, and the options may be for that
    engine.

    Raises:
        OptionError: if one of ``names`` does not begin with a name in ``codegens``.
    """
    if not all(map(CODEGENS.is_built_in, codegens)):
        return
    for name in names:
        owner = name.partition(".")[0]
        if owner not in codegens:
            raise OptionError(
                f"module_options: '{name}': expected '{owner}' in offload, found "
                f"{', '.join(codegens)}; add it, or leave the option out"
            )


def _checked(name: str, value: object) -> str:
    option = options_of(name.partition(".")[0]).get(name)
    if option is None:
        known = ", ".join(all_options()) or "none"
        raise OptionError(f"module_options: unknown option '{name}', expected one of {known}")
    try:
        return text_of(option.read(value))
    except ValueError as error:
        raise OptionError(
            f"module_options: '{name}': expected {option.expected}, found {value!r}"
        ) from error
