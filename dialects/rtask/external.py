"""Reads and checks the attribute ``external`` of ``rtask.kernel``: a foreign implementation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute, module_of
from rammer_mlir.dialects.rtask.module_op import LINKED

EXTERNAL, STATE = "external", "state"

_ALIGNMENT, _GRAIN = "alignment", "grain"

Grain = Literal["region", "device"]
"""The resources that run an rTask: one vEU's thread (region), or the whole device (device).

With ``device``, the foreign library runs the rTask on the library's own threads, and no other rTask
runs at the same time.
"""

GRAINS: tuple[Grain, ...] = get_args(Grain)

_REQUIRED = {"module", "symbol"}

ALIGNMENTS = (1, 2, 4, 8, 16, 32, 64)
"""Supported alignments of buffers, in bytes."""

_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*", re.ASCII)


@dataclass(frozen=True)
class External:
    """A foreign function that implements an rKernel.

    ``module`` is the name of the ``rtask.module`` that defines the function ``symbol``.

    The function is called as ``int32_t symbol(int64_t rtask, void *argument0, ...)`` with a pointer
    to each input and output. It returns 0 if it succeeds. Inputs and outputs are dense and
    row-major, and begin at multiples of ``alignment`` bytes. With the ``grain`` ``region``, one vEU
    runs an rTask, as with the compiler's own rKernels. With the ``grain`` ``device``, the rKernel
    has a single rTask, which runs alone on the device, on threads of the foreign library.

    If ``has_state``, the foreign code creates a state once, before the first run. The function is
    then called as ``int32_t (void *state, int64_t rtask, void **arguments)``.

    On a GPU, all threads of the block that runs the rTask call ``void symbol(int64_t rtask, int32_t
    thread, int32_t threads, void *argument0, ...)``.
    """

    module: str
    symbol: str
    has_state: bool = False
    alignment: int = 1
    grain: Grain = "region"

    @property
    def is_exclusive(self) -> bool:
        """Whether an rTask of the function runs alone on the device."""
        return self.grain == "device"

    def as_attribute(self) -> ir.DictAttr:
        """Return this object as the value of the attribute ``external``, a dictionary.

        Entries with default values are omitted.
        """
        entries: dict[str, ir.Attribute] = {
            "module": ir.FlatSymbolRefAttr.get(self.module),
            "symbol": ir.StringAttr.get(self.symbol),
        }
        if self.has_state:
            entries[STATE] = ir.UnitAttr.get()
        if self.alignment > 1:
            i64 = ir.IntegerType.get_signless(64)
            entries[_ALIGNMENT] = ir.IntegerAttr.get(i64, self.alignment)
        if self.is_exclusive:
            entries[_GRAIN] = ir.StringAttr.get(self.grain)
        return ir.DictAttr.get(entries)


def read_external(op: ir.Operation) -> External | None:
    """Return the attribute ``external`` of an ``rtask.kernel``; None without this attribute.

    Raises:
        Broken: if the attribute is malformed.
    """
    if EXTERNAL not in op.attributes:
        return None
    return external_of(op, attribute(op, EXTERNAL, ir.DictAttr))


def external_of(op: ir.Operation, dictionary: ir.DictAttr) -> External:
    """Return the external function that a dictionary attribute of an operation describes.

    Raises:
        Broken: if an entry is missing, unknown or malformed.
    """
    entries = {entry.name: entry.attr for entry in dictionary}
    module, symbol = entries.get("module"), entries.get("symbol")
    has_state = isinstance(entries.get(STATE), ir.UnitAttr)
    if (
        not _REQUIRED <= entries.keys() <= _REQUIRED | {STATE, _ALIGNMENT, _GRAIN}
        or has_state != (STATE in entries)
        or not isinstance(module, ir.FlatSymbolRefAttr)
        or not isinstance(symbol, ir.StringAttr)
        or not _SYMBOL.fullmatch(symbol.value)
    ):
        names = ", ".join(entries) or "nothing"
        rule = "a function of another module is the rKernel"
        raise Broken(op, "a symbol module and the name of a function in external", names, rule)
    alignment = _alignment(op, entries.get(_ALIGNMENT))
    grain = _grain(op, entries.get(_GRAIN))
    return External(module.value, symbol.value, has_state, alignment, grain)


def _alignment(op: ir.Operation, given: ir.Attribute | None) -> int:
    if given is None:
        return 1
    found = given.value if isinstance(given, ir.IntegerAttr) else 0
    if found not in ALIGNMENTS:
        expected = f"an alignment of {', '.join(map(str, ALIGNMENTS))} bytes in external"
        raise Broken(op, expected, str(given), "buffers begin on cache lines at most")
    return found


def _grain(op: ir.Operation, given: ir.Attribute | None) -> Grain:
    if given is None:
        return "region"
    for grain in GRAINS:
        if isinstance(given, ir.StringAttr) and given.value == grain:
            return grain
    rule = "code computes on a vEU, or on the whole device"
    raise Broken(op, f"a grain of {', '.join(GRAINS)} in external", str(given), rule)


def check_external(op: ir.Operation, function: ir.Operation) -> None:
    """Check that an rKernel has either a body or a valid attribute ``external``.

    ``op`` is the ``rtask.kernel``, ``function`` the ``func.func`` that it describes.

    Raises:
        Broken: if the rKernel has both or neither; if ``external`` names no ``rtask.module``, or
            has no state although an engine runs the module's code; or if an rKernel with the grain
            ``device`` has several rTasks.
    """
    external, has_body = read_external(op), bool(len(function.regions[0].blocks))
    name = ir.StringAttr(function.attributes["sym_name"]).value
    if external is None:
        if not has_body:
            rule = "code from elsewhere is named by the attribute external"
            raise Broken(op, f"a body of @{name}", "a declaration", rule)
        return
    if has_body:
        raise Broken(op, f"a declaration @{name}", "a body", "external code is the rKernel")
    table = ir.SymbolTable(module_of(op))
    module = table[external.module].operation if external.module in table else None
    if module is None or module.name != "rtask.module":
        found = "no such symbol" if module is None else module.name
        raise Broken(op, f"an rtask.module @{external.module}", found, "it defines the function")
    form = attribute(module, "form", ir.StringAttr).value
    if form not in LINKED and not external.has_state:
        raise Broken(op, "state in external", "none", f"what runs the form {form} is opened once")
    if external.is_exclusive:
        count = ir.IntegerAttr(op.attributes["num_rtasks"]).value
        if count != 1:
            rule = "it has the device to itself"
            raise Broken(op, "one rTask of the grain device", count, rule)
