"""Defines the interface through which passes form regions for foreign code generators.

A code generator is registered by a program (``register_codegen``) or by an installed package (entry
points of the group ``rammer_mlir.codegens``, imported only on request).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, cast

from rammer_mlir.errors import PassError, TargetError
from rammer_mlir.passes.regions.guarded import guarded
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.support.plugins import (
    Extension,
    Registry,
    check_name,
    check_plain_name,
    refuse,
    refuse_misspelt,
)

T = TypeVar("T")

_METHODS = ("patterns", "supports", "limits", "worth")

_OPTIONAL_METHODS = ("generate", "prepare", "layouts", "missing", "version", "converted_bytes")

_OPTIONAL = (*_OPTIONAL_METHODS, "min_macs", "pads_apart", "options")


@dataclass(frozen=True)
class RegionFacts:
    """The recognized operations and the size of a region.

    Attributes:
        readings: the operations recognized in the region, such as convolutions, in order.
        operations: the number of operations; a composite counts as one.
        macs: the number of multiply-accumulates.
        bytes: bytes of all tensors that the region reads, writes and computes, each counted once.
        transfer_bytes: bytes of the region's input and output tensors.
        values: the number of the region's input and output tensors.
    """

    readings: tuple[Reading, ...]
    operations: int
    macs: int
    bytes: int
    transfer_bytes: int
    values: int


class Codegen(Protocol):
    """The interface that a code generator needs for the formation of regions.

    A code generator may have the following additional members. A member with a similar name is
    refused as misspelled.
    - ``generate(region)`` returns a ``RegionCode``, or None to let the host compile the region;
    - ``prepare(regions)`` is called with all regions before ``generate``;
    - ``layouts(region)`` returns the layouts of the region's inputs and outputs that are supported;
    - ``missing()`` names required software that is missing; None if all is installed;
    - ``version()`` identifies the code generator's version, for cache keys;
    - ``min_macs`` overrides the option ``min-macs`` of `rtask-split-regions`;
    - ``converted_bytes(region)`` returns the bytes of inputs and outputs that each run copies
      between layouts, for reports;
    - ``pads_apart``, if true, makes the host pad the inputs of regions;
    - ``options`` is a sequence of ``ModuleOption``: options for users, with values in
      ``Region.options``.
    """

    name: ClassVar[str]
    """The name by which users choose the code generator.

    Names of its composites begin with this name and a dot.
    """

    def patterns(self) -> Sequence[CompositePattern]:
        """Return the patterns of operations that the code generator supports as one operation."""
        ...

    def supports(self, reading: Reading) -> bool:
        """Whether the code generator can generate code for a recognized operation.

        ``reading`` describes the operation, such as a convolution. This method is called for
        operations that belong to no composite (a match of one of the ``patterns``).
        """
        ...

    def limits(self) -> Limits:
        """Return the limits on the size of a region for this code generator."""
        ...

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Whether the code generator should compute a region, instead of this compiler's rKernels.

        ``device`` describes the costs of these rKernels.
        """
        ...


def _check(name: str, value: object) -> Codegen:
    given: Any = value() if isinstance(value, type) and hasattr(value, "supports") else value
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not all(callable(getattr(given, method, None)) for method in _METHODS):
        refuse(f"a code generator, with a name and functions {', '.join(_METHODS)}", value)
    check_name(name, given.name)
    refuse_misspelt(given, _OPTIONAL)
    check_plain_name(name)
    for method in _OPTIONAL_METHODS:
        if not callable(getattr(given, method, len)):
            refuse(f"a function '{method}'", getattr(given, method))
    options = getattr(given, "options", ())
    if not isinstance(options, Sequence) or not all(isinstance(o, ModuleOption) for o in options):
        refuse("options as a sequence of ModuleOption", options)
    named = [option.name for option in options]
    if len(set(named)) < len(named):
        refuse(f"options of different names for '{name}'", ", ".join(named))
    return cast("Codegen", given)


HOST = "host"
"""The name of the code generator whose regions this compiler compiles itself, for quantization."""

_OWN: dict[str, str] = {
    HOST: "rammer_mlir.codegens.host.codegen:Host",
    "iree": "rammer_mlir.codegens.iree.codegen:Iree",
    "numpy": "rammer_mlir.codegens.graph.codegen:NumPyGraphs",
    "onednn": "rammer_mlir.codegens.onednn.codegen:OneDnn",
    "onnxruntime": "rammer_mlir.codegens.graph.codegen:OnnxRuntimeGraphs",
    "openvino": "rammer_mlir.codegens.graph.codegen:OpenVinoGraphs",
}
"""The built-in code generators by name: ``module:class`` of each, imported on request."""

CODEGENS: Registry[Codegen] = Registry("code generator", {}, _check, "codegens", lazy=_OWN)
"""The code generators by name."""


def register_codegen(codegen: Codegen) -> None:
    """Register a code generator under its name.

    Raises:
        OptionError: if ``codegen`` is not a code generator, or its name is taken.
    """
    CODEGENS.register(getattr(codegen, "name", ""), codegen)


def find_codegen(name: str) -> Codegen:
    """Return the code generator named ``name``.

    Raises:
        OptionError: if there is no code generator with this name.
        TargetError: if software that the code generator needs is missing.
    """
    codegen = CODEGENS.get(name)
    missing: Callable[[], str | None] | None = getattr(codegen, "missing", None)
    found = None if missing is None else ask(codegen, "missing", missing)
    if found is not None:
        words = of_type(codegen, "missing to return None or", found, str)
        raise TargetError(f"code generator '{name}': expected {words or 'all that it needs'}")
    return codegen


def described_codegens() -> Iterator[Extension[Codegen]]:
    """Yield all code generators with their origin and the missing software that they need.

    A code generator reports missing software by a function ``missing()`` that returns text, or
    None.
    """
    own = [n for n in CODEGENS.names() if CODEGENS.is_built_in(n)]
    found = [Extension(name, "rammer-mlir", CODEGENS.get(name)) for name in own]
    for each in sorted([*found, *CODEGENS.extensions()], key=lambda each: each.name):
        missing = getattr(each.value, "missing", None)
        if missing is None or each.value is None:
            yield each
            continue
        try:
            words = ask(each.value, "missing", missing)
        except PassError as error:
            words = str(error)
        yield replace(each, problem=str(words or ""))


def own_version(name: str) -> str | None:
    """Return the version of the built-in code generator ``name``.

    Return None if the code generator states no version, or if it comes from a plug-in.
    """
    version: Callable[[], str] | None = getattr(CODEGENS.get(name), "version", None)
    return version() if version is not None and CODEGENS.is_built_in(name) else None


def codegen_of_composite(name: str) -> str:
    """Return the name of a composite's code generator, the part of ``name`` before the dot."""
    return name.partition(".")[0]


def patterns_of(codegen: Codegen) -> Sequence[CompositePattern]:
    """Return a code generator's patterns of composites.

    Raises:
        PassError: if the method ``patterns`` fails, or the name of a composite does not begin with
            the name of the code generator and a dot.
    """
    table = answer(codegen, "patterns", codegen.patterns, Sequence)
    for each in table:
        pattern = of_type(codegen, "a table of", each, CompositePattern)
        if codegen_of_composite(pattern.name) != codegen.name or "." not in pattern.name:
            raise PassError(
                f"code generator '{codegen.name}': expected composites named "
                f"'{codegen.name}.NAME', found '{pattern.name}'; rename it"
            )
    return table


def answer(codegen: Codegen, method: str, call: Callable[[], object], kind: type[T]) -> T:
    """Call a method of a code generator, and return its result after checking the result's type.

    ``method`` is the name of the method, for errors; ``call`` calls the method with its arguments.

    Raises:
        PassError: if the call fails, or the result is not of type ``kind``; the message names the
            method.
    """
    return of_type(codegen, f"{method} to return", ask(codegen, method, call), kind)


def of_type(codegen: Codegen, what: str, found: object, kind: type[T]) -> T:
    """Return ``found``, a value from a code generator, after checking its type.

    Args:
        codegen: the code generator, which the error names.
        what: the text between "expected" and the type's name in the error message.
        found: the value.
        kind: the expected type.

    Raises:
        PassError: if the value has another type.
    """
    if isinstance(found, kind):
        return found
    raise PassError(
        f"code generator '{codegen.name}': expected {what} {kind.__name__}, found {found!r}; mend "
        "it, or leave the code generator out"
    )


def ask(codegen: Codegen, method: str, call: Callable[[], T]) -> T:
    """Call a method of a code generator, and return its result.

    ``method`` is the name of the method, for errors; ``call`` calls the method with its arguments.
    An exception becomes an error of one line that names the code generator and the method.

    Raises:
        PassError: if the call fails.
    """
    expected = f"code generator '{codegen.name}': expected {method} to succeed"
    return guarded(expected, call, "mend it, or leave the code generator out")
