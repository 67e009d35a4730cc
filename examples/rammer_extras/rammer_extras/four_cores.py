"""The device `four-cores`: a description of a desktop processor for the cost model."""

from __future__ import annotations

from dataclasses import replace

from rammer_mlir.extend import find_device

FOUR_CORES = replace(
    find_device("cpu"),
    name="four-cores",
    title="a desktop processor of four cores",
    targets=(),  # selected only by name; with targets, it would apply to every program of a target
    units=4,
    veus_per_unit=1,
    cache_bytes=8 << 20,
    bytes_per_second=2.5e10,
    flops_per_second={"f32": 4e11},
)
"""The built-in processor with fewer cores, less cache and bandwidth."""
