"""Compile exported models without giving shapes, run them at several, compare with ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import rammer_mlir
from rammer_mlir.benchmarks.comparison import ABSOLUTE, RELATIVE, Array, compare
from rammer_mlir.benchmarks.exports.result import CaseResult, Result
from rammer_mlir.benchmarks.exports.spec import Case, Spec, load
from rammer_mlir.errors import RammerError


def check(path: Path, cases: int | None = None) -> Result:
    """Compile the ONNX file as it is, and run the first cases, or all, of the file beside it."""
    spec = load(path.with_suffix(".json"))
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has no common class of its errors
        return Result(spec.name, spec.exporter, invalid=str(error).splitlines()[0])
    try:
        model = rammer_mlir.compile(path, specializations=len(spec.cases), cache=False)
    except RammerError as error:
        return Result(spec.name, spec.exporter, refusal=str(error))
    graph = onnx.load(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    declared = {each.name: each for each in graph.input if each.name not in weights}
    foreign = declared.keys() - {each.name for each in spec.inputs}
    if foreign:
        return Result(spec.name, spec.exporter, invalid=f"inputs of no model: {sorted(foreign)}")
    results = (
        _run(model.run, session, _declared(spec.feeds(case), declared), case)
        for case in spec.cases[:cases]
    )
    return Result(spec.name, spec.exporter, tuple(results))


def _declared(
    feeds: Mapping[str, Array], declared: Mapping[str, onnx.ValueInfoProto]
) -> dict[str, Array]:
    """Drop the inputs that the exporter found unused; cast the others to their declared types."""
    found: dict[str, Array] = {}
    for name, info in declared.items():
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        found[name] = feeds[name].astype(dtype)
    return found


def _run(
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    session: onnxruntime.InferenceSession,
    feeds: dict[str, Array],
    case: Case,
) -> CaseResult:
    label = ", ".join(f"{name} {size}" for name, size in case.items())
    names = [each.name for each in session.get_outputs()]
    try:
        found = dict(zip(names, map(np.asarray, session.run(names, feeds)), strict=True))
    except Exception as error:  # ONNX Runtime has no common class of its errors
        return CaseResult(label, not_exported=str(error).splitlines()[0])
    began = time.monotonic()
    try:
        ours = run(feeds)
    except RammerError as error:
        return CaseResult(label, refusal=str(error))
    seconds = time.monotonic() - began
    comparison = compare(found, ours, *_tolerances(found))
    excess = comparison.worst.excess if comparison.worst else 0.0
    wrong = "" if comparison.ok else str(comparison)
    return CaseResult(label, excess, wrong=wrong, seconds=seconds)


def _tolerances(expected: Mapping[str, Array]) -> tuple[float, float]:
    """Return the relative and the absolute tolerance: 16-bit floats are rounded at each node."""
    is_half = any(value.dtype == np.float16 for value in expected.values())
    return (1e-2, 2e-3) if is_half else (RELATIVE, ABSOLUTE)


def spec_of(path: Path) -> Spec:
    """Return the description that the exporter wrote beside an ONNX file."""
    return load(path.with_suffix(".json"))
