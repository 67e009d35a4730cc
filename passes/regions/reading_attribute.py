"""Describes a composite's recognized operations in an attribute, for code generators to inspect.

A composite is a match of a code generator's pattern; its operations are moved to a function.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.regions.reading import Attribute, Reading


def reading_attribute(readings: Sequence[Reading]) -> ir.DictAttr:
    """Return the attribute that describes a composite by its recognized operations (readings).

    ``readings`` are in order. The main operation has the most multiply-accumulates; on a tie, it is
    the first of them. The result contains the main operation's kind and attributes, and the kinds
    of the operations before and after the main operation, as ``before`` and ``after``.
    """
    main = max(readings, key=lambda reading: reading.macs)
    place = list(readings).index(main)
    entries = {name: _attribute(value) for name, value in main.attributes.items()}
    entries["kind"] = ir.StringAttr.get(main.kind)
    for name, others in (("before", readings[:place]), ("after", readings[place + 1 :])):
        if others:
            entries[name] = ir.ArrayAttr.get([ir.StringAttr.get(each.kind) for each in others])
    return ir.DictAttr.get(entries)


def _attribute(value: Attribute) -> ir.Attribute:
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, float):
        return ir.FloatAttr.get(ir.F64Type.get(), value)
    if isinstance(value, tuple):
        numbers = [each for each in value if isinstance(each, int)]
        if len(numbers) == len(value):
            return ir.DenseI64ArrayAttr.get(numbers)
        lists = [each for each in value if not isinstance(each, int)]
        return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(each)) for each in lists])
    return ir.StringAttr.get(str(value))
