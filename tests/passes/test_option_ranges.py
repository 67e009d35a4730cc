"""Tests that pass options that are out of range, or are no valid names, are refused."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES

ALL = (*PASSES, *LOWERING_PASSES)

NUMBERS = [
    pytest.param(own, field.name, id=f"{own.name}-{field.name}")
    for own in ALL
    for field in fields(own)
    if get_type_hints(own)[field.name] in (int, float)
]


@pytest.mark.parametrize(("own", "field"), NUMBERS)
def test_negative_numbers_are_refused(own: type[Pass], field: str) -> None:
    option = field.replace("_", "-")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("module {}")
        with pytest.raises(OptionError) as caught:
            run_pipeline(module, f"builtin.module({own.name}{{{option}=-1}})", passes=ALL)
    name, found, reason = str(caught.value).split(": ", 2)
    assert name == own.name
    assert option in found.split(", ")
    assert reason.startswith("expected ")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("rtask-tile{num-veus=0}", "rtask-tile: num-veus: expected at least 1, found 0"),
        ("rtask-pipeline{chunks=1}", "rtask-pipeline: chunks: expected at least 2, found 1"),
        (
            "rtask-map-to-threads{threads=16}",
            "rtask-map-to-threads: threads: expected 32 to 1024, found 16",
        ),
        (
            "rtask-map-to-threads{threads=1025}",
            "rtask-map-to-threads: threads: expected 32 to 1024, found 1025",
        ),
        (
            "rtask-check-external{tolerance=nan}",
            "rtask-check-external: tolerance: expected at least 0, found nan",
        ),
        (
            "rtask-lower-to-cpu{symbol=1st}",
            "rtask-lower-to-cpu: symbol: expected letters, digits and '_', not beginning with a "
            "digit, found '1st'",
        ),
        (
            "rtask-lower-to-cpu{symbol=a-b}",
            "rtask-lower-to-cpu: symbol: expected letters, digits and '_', not beginning with a "
            "digit, found 'a-b'",
        ),
    ],
)
def test_options_that_are_refused(step: str, message: str) -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("module {}")
        with pytest.raises(OptionError) as caught:
            run_pipeline(module, f"builtin.module({step})", passes=ALL)
    assert str(caught.value) == message
