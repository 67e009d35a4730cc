"""Foreign code generators, as far as the passes that form regions ask them; found by their names.

A code generator comes from a program (``register_codegen``) or from an installed package (entry
points of the group ``rammer_mlir.codegens``, imported only when their names are asked for).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, cast

from rammer_mlir.errors import PassError, TargetError
from rammer_mlir.passes.regions.cuts import Limits
from rammer_mlir.passes.regions.guarded import guarded
from rammer_mlir.passes.regions.patterns import CompositePattern
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.scheduling.device import Device
from rammer_mlir.support.plugins import Extension, Registry, check_name, refuse, refuse_misspelt

T = TypeVar("T")

_METHODS = ("patterns", "supports", "limits", "worth")

_OPTIONAL = (
    "generate", "prepare", "layouts", "missing", "version", "min_macs", "converted_bytes",
    "pads_apart", "options",
)  # fmt: skip


@dataclass(frozen=True)
class RegionFacts:
    """The operations and tensors of a region, in numbers.

    Attributes:
        readings: of its operations, in their order.
        operations: how many; a composite counts as one.
        macs: multiplications that are added up.
        bytes: of all tensors that it reads, writes and holds in between, each counted once.
        transfer_bytes: of the tensors that it reads from and writes to the outside.
        values: how many of these there are.
    """

    readings: tuple[Reading, ...]
    operations: int
    macs: int
    bytes: int
    transfer_bytes: int
    values: int


class Codegen(Protocol):
    """A code generator, as far as regions are formed for it.

    It may have more, which is asked for if it is there; a name close to one of these is refused as
    misspelt:

    - ``generate(region)`` makes a ``RegionCode``, or None for the host's;
    - ``prepare(regions)`` is told of all regions before that;
    - ``layouts(region)`` says in which layouts it takes what a region reads and writes;
    - ``missing()`` says what is expected and not installed, None if all is there;
    - ``version()`` says what decides its code besides this project;
    - ``min_macs`` stands for that option of `rtask-split-regions`;
    - ``converted_bytes(region)`` says how many bytes of inputs and outputs a run copies between
      layouts, for reports;
    - with ``pads_apart``, the host pads what regions read;
    - ``options``, a sequence of ``ModuleOption``, are what users decide: ``Region.options``.
    """

    name: ClassVar[str]
    """Name by which users choose it; its composites' names begin with it and a dot."""

    def patterns(self) -> Sequence[CompositePattern]:
        """Return the table of patterns that it takes as one operation each."""
        ...

    def supports(self, reading: Reading) -> bool:
        """Whether it can generate code for a single operation."""
        ...

    def limits(self) -> Limits:
        """Return the limits of one of its regions."""
        ...

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Whether a region is better computed by it than by the device."""
        ...


def _check(name: str, value: object) -> Codegen:
    given: Any = value() if isinstance(value, type) and hasattr(value, "supports") else value
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not all(callable(getattr(given, method, None)) for method in _METHODS):
        refuse(f"a code generator, with a name and functions {', '.join(_METHODS)}", value)
    check_name(name, given.name)
    refuse_misspelt(given, _OPTIONAL)
    if not name or "." in name:
        refuse("a name without a dot", repr(name))
    options = getattr(given, "options", ())
    if not isinstance(options, Sequence) or not all(isinstance(o, ModuleOption) for o in options):
        refuse("options as a sequence of ModuleOption", options)
    named = [option.name for option in options]
    if len(set(named)) < len(named):
        refuse("options of different names", named)
    return cast("Codegen", given)


HOST = "host"
"""The code generator whose regions have no code: they are changed, and the host's again."""

_OWN: dict[str, str] = {
    HOST: "rammer_mlir.codegens.host.codegen:Host",
    "iree": "rammer_mlir.codegens.iree.codegen:Iree",
    "numpy": "rammer_mlir.codegens.graph.codegen:NumPyGraphs",
    "onednn": "rammer_mlir.codegens.onednn.codegen:OneDnn",
    "onnxruntime": "rammer_mlir.codegens.graph.codegen:OnnxRuntimeGraphs",
    "openvino": "rammer_mlir.codegens.graph.codegen:OpenVinoGraphs",
}
"""Code generators of this project: their modules and classes, imported when a name is asked for."""

CODEGENS: Registry[Codegen] = Registry("code generator", {}, _check, "codegens", lazy=_OWN)
"""Code generators by name."""


def register_codegen(codegen: Codegen) -> None:
    """Make a code generator known by its name.

    Raises:
        OptionError: if it is none, or another one has that name.
    """
    CODEGENS.register(getattr(codegen, "name", ""), codegen)


def find_codegen(name: str) -> Codegen:
    """Return the code generator of a name, with all that it needs.

    Raises:
        OptionError: if there is none of this name.
        TargetError: if something that it needs is not installed.
    """
    codegen = CODEGENS.get(name)
    missing: Callable[[], str | None] | None = getattr(codegen, "missing", None)
    found = None if missing is None else ask(codegen, "missing", missing)
    if found is not None:
        words = of_type(codegen, "missing to return None or", found, str)
        raise TargetError(f"code generator '{name}': expected {words}")
    return codegen


def described_codegens() -> Iterator[Extension[Codegen]]:
    """Yield all code generators with their origin, and what is missing to use each, if anything.

    A code generator says so by a function ``missing()`` that returns words, or None.
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
    """Return the version of one of this project's code generators; None for others."""
    version: Callable[[], str] | None = getattr(CODEGENS.get(name), "version", None)
    return version() if version is not None and CODEGENS.is_built_in(name) else None


def codegen_of_composite(name: str) -> str:
    """Return the name of the code generator that a composite is for."""
    return name.partition(".")[0]


def patterns_of(codegen: Codegen) -> Sequence[CompositePattern]:
    """Return a code generator's table.

    Raises:
        PassError: if asking fails, or a composite's name is not the code generator's.
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
    """Call a code generator whose answer has to be of a type.

    Raises:
        PassError: if the call fails, or the answer is of another type.
    """
    return of_type(codegen, f"{method} to return", ask(codegen, method, call), kind)


def of_type(codegen: Codegen, what: str, found: object, kind: type[T]) -> T:
    """Return an answer of a code generator, if it is of the expected type.

    Args:
        codegen: names it in the error.
        what: the words between "expected" and the type's name.
        found: what it gave.
        kind: of which it has to be.

    Raises:
        PassError: if it is of another type.
    """
    if isinstance(found, kind):
        return found
    raise PassError(
        f"code generator '{codegen.name}': expected {what} {kind.__name__}, found {found!r}; mend "
        "it, or leave the code generator out"
    )


def ask(codegen: Codegen, method: str, call: Callable[[], T]) -> T:
    """Call a code generator; an exception becomes an error of one line.

    Raises:
        PassError: if the call fails.
    """
    expected = f"code generator '{codegen.name}': expected {method} to succeed"
    return guarded(expected, call, "mend it, or leave the code generator out")
