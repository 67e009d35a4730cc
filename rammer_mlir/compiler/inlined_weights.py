"""Puts the values of all weights into the IR, so that the IR is usable without another file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.constants import CONSTANT, PARTS, VALUE, argument_attributes
from rammer_mlir.passes.ir.dense_values import dense_attribute
from rammer_mlir.passes.ir.element_types import element_of
from rammer_mlir.passes.ir.entry import entry_function

Values = Mapping[str, NDArray[np.generic]]


def with_values(module: ir.Module, values: Values) -> ir.Module:
    """Return a copy of a module that contains the values of its weights.

    ``values`` has the arrays by the weights' names. Each weight is an argument of the entry
    function; the array becomes the argument's attribute ``rtask.value``.
    """
    with module.context, ir.Location.unknown():
        copy = copy_module(module)
        main = entry_function(copy)
        arguments = main.operation.regions[0].blocks[0].arguments
        entries = [
            _completed(marks, values, element_of(argument.type))
            for marks, argument in zip(argument_attributes(main), arguments, strict=True)
        ]
        if entries:
            main.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)
        return copy


def _completed(marks: Mapping[str, ir.Attribute], values: Values, element: ir.Type) -> ir.DictAttr:
    found = dict(marks)
    if PARTS in marks:
        parts = (
            {item.name: item.attr for item in ir.DictAttr(part)}
            for part in ir.ArrayAttr(marks[PARTS])
        )
        found[PARTS] = ir.ArrayAttr.get([_completed(part, values, element) for part in parts])
    elif CONSTANT in marks and VALUE not in marks:
        name = ir.StringAttr(marks[CONSTANT]).value
        found[VALUE] = dense_attribute(values[name], element)
    return ir.DictAttr.get(found)
