"""The device `four-cores`: a desktop processor, as far as schedules depend on it."""

from __future__ import annotations

from dataclasses import replace

from rammer_mlir.extend import find_device

FOUR_CORES = replace(
    find_device("cpu"),
    name="four-cores",
    title="a desktop processor of four cores",
    targets=(),  # it is chosen by name; else it would stand for every program of a target
    units=4,
    veus_per_unit=1,
    cache_bytes=8 << 20,
    bytes_per_second=2.5e10,
    flops_per_second={"f32": 4e11},
)
"""The built-in processor with fewer cores, less cache and bandwidth."""
