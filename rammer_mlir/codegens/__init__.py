"""Defines the interface of foreign code generators; has a folder for each built-in code generator.

A code generator is a class that implements ``Codegen``, registered by ``register_codegen`` or by an
entry point of the group ``rammer_mlir.codegens``; see ``docs/code-generators.md``. A folder is
imported when its code generator is used for the first time.
"""

from __future__ import annotations

from rammer_mlir.engines.call_list import Bound, Call, CallList, Word
from rammer_mlir.engines.engine import Engine, register_engine
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.engines.python_entry import python_entry
from rammer_mlir.passes.ir.boxes_text import Box
from rammer_mlir.passes.regions.codegen import Codegen, RegionFacts, register_codegen
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.match import Match
from rammer_mlir.passes.regions.patterns import (
    CompositePattern,
    alternatives,
    constant,
    op,
    wildcard,
)
from rammer_mlir.passes.regions.reading import Operand, Reading
from rammer_mlir.passes.regions.region import Layouts, Region, RegionCode, RegionOperation
from rammer_mlir.programs.module_options import ModuleOption
from rammer_mlir.programs.modules import Requirement
from rammer_mlir.scheduling.device_costs import Device

__all__ = [
    "Bound",
    "Box",
    "Call",
    "CallList",
    "Codegen",
    "CompositePattern",
    "Device",
    "Engine",
    "EntryHost",
    "Layouts",
    "Limits",
    "Match",
    "ModuleOption",
    "OpenEntry",
    "Operand",
    "Reading",
    "Region",
    "RegionCode",
    "RegionFacts",
    "RegionOperation",
    "Requirement",
    "Word",
    "alternatives",
    "constant",
    "op",
    "python_entry",
    "register_codegen",
    "register_engine",
    "wildcard",
]
