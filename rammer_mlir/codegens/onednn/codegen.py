"""The code generator: which operations it takes, and the code of regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Limits,
    Match,
    ModuleOption,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    alternatives,
    constant,
    op,
    wildcard,
)
from rammer_mlir.codegens.onednn import library
from rammer_mlir.codegens.onednn.chains import (
    ACTIVATIONS,
    CONVOLUTIONS,
    PRODUCTS,
    chain_of,
    is_plain,
)
from rammer_mlir.codegens.onednn.nodes import BINARIES, table_of
from rammer_mlir.codegens.onednn.table import Dims
from rammer_mlir.passes.regions.patterns import Pattern


class OneDnn:
    """Convolutions and products of f32 with what follows on them, by oneDNN 3.2.

    A region is one rTask, which runs on its vEU's thread, alone unless users ask for more threads.
    Between its primitives, values keep the layouts that the library asks for. Weights are packed
    when the region is opened.
    """

    name: ClassVar[str] = "onednn"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption("threads", 1, "threads that compute a region, by OpenMP", least=1),
        ModuleOption(
            "math",
            "strict",
            "how products of f32 may be rounded, where the processor is faster with that",
            choices=tuple(library.MATH),
        ),
    )

    def patterns(self) -> Sequence[CompositePattern]:
        """Return convolutions, products with weights and without, and averages."""
        weighted = {
            "onednn.convolution": op(CONVOLUTIONS, wildcard("x"), constant("w")),
            "onednn.layer": op(PRODUCTS, wildcard("x"), constant("w")),
            "onednn.product": op(PRODUCTS, wildcard("x"), wildcard("w")),
        }
        chains = [
            CompositePattern(name, _with_steps(main), _is_chain, priority=name != "onednn.product")
            for name, main in weighted.items()
        ]
        average = op("average_pool", wildcard("x"))
        return [*chains, CompositePattern("onednn.average_pool", average, _is_float)]

    def supports(self, reading: Reading) -> bool:
        """Take functions of elements, sums, maxima of windows and softmax beside them."""
        if not _are_floats(reading):
            return False
        if reading.kind in ACTIVATIONS or reading.kind in BINARIES:
            return is_plain(reading)
        if reading.kind == "max_pool":
            return set(cast("Dims", reading.attributes["dilations"])) == {1}
        return reading.kind == "softmax"

    def limits(self) -> Limits:
        """Return the most operations of a region, for which the C code has room."""
        return Limits(operations=16)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Take all regions; the policy chooses by cost."""
        return True

    def missing(self) -> str | None:
        """Return what is expected and what is found, None if all is installed."""
        return library.missing()

    def version(self) -> str:
        """Return the library's version."""
        return library.NEED.version

    def generate(self, region: Region) -> RegionCode | None:
        """Return C that calls the library, None for what it does not compute well."""
        table, settings = table_of(region), library.settings_of(region.options)
        scratch = None if table is None else library.scratch_bytes(table.words(0), settings)
        if table is None or scratch is None:
            return None
        return RegionCode(
            library.source_of(region.name, table.words(scratch), settings),
            region.name,
            has_state=True,
            holds_weights=table.is_packed,
            scratch_bytes=scratch,
            needs=(library.NEED,),
        )


def _with_steps(main: Pattern) -> Pattern:
    """Match a bias, an activation and a tensor that is added, in both orders, where they follow."""

    def added(value: Pattern) -> Pattern:
        return op("add", value, wildcard("r"))

    def activated(value: Pattern) -> Pattern:
        return op(tuple(ACTIVATIONS), value)

    biased = main.optional(lambda value: op("add", value, wildcard("b")))
    one = biased.optional(added).optional(activated)
    return alternatives(one, biased.optional(activated).optional(added))


def _is_chain(match: Match) -> bool:
    return chain_of(match.readings) is not None


def _is_float(match: Match) -> bool:
    return _are_floats(match.root)


def _are_floats(reading: Reading) -> bool:
    return all(each.element_type == "f32" for each in (*reading.inputs, reading.output))
