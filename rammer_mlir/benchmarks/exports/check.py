"""Compile exported models with open (dynamic) dimensions, and run them at several sizes.

The outputs, and the latencies if requested, are compared with those of ONNX Runtime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

_ERRORS = 3
"""ONNX Runtime's log level that shows errors but no warnings."""

_REPEATS = 7
"""Number of timed runs; the shortest counts, since other work only slows runs down."""

_OF_HALF = (1e-2, 2e-3)
"""Relative and absolute tolerance of models with float16 outputs: each node rounds to 16 bits."""

_OF_QUANTIZED = (5e-2, 2e-2)
"""Relative and absolute tolerance of models with quantized activations.

A difference in the last bit can move an element to the neighboring 8-bit step, which changes
everything computed from it.
"""


def check(path: Path, cases: int | None = None, threads: int | None = None) -> Result:
    """Compile the ONNX file ``path``, compare its outputs with ONNX Runtime's; return the result.

    The inputs and the cases are read from the file of the same name with the suffix ``.json``. A
    case has a size for each open dimension.

    Args:
        path: the ONNX file.
        cases: number of cases to run, from the first on; None for all.
        threads: number of threads of ONNX Runtime and of vEUs of the compiled program, to time
            both; None for the default numbers of threads and vEUs, and no timing.
    """
    spec = load(path.with_suffix(".json"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads or 0, _ERRORS
    try:
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has no common class of its errors
        return Result(spec.name, spec.exporter, invalid=str(error).splitlines()[0])
    try:
        model = rammer_mlir.compile(
            path, specializations=len(spec.cases), cache=False, num_veus=threads
        )
    except RammerError as error:
        return Result(spec.name, spec.exporter, refusal=str(error))
    graph = onnx.load(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    declared = {each.name: each for each in graph.input if each.name not in weights}
    foreign = declared.keys() - {each.name for each in spec.inputs}
    if foreign:
        return Result(spec.name, spec.exporter, invalid=f"inputs of no model: {sorted(foreign)}")
    run = _Run(model.run, session, _is_quantized(graph), threads is not None)
    results = (run.case(_declared(spec.feeds(case), declared), case) for case in spec.cases[:cases])
    return Result(spec.name, spec.exporter, tuple(results))


def _declared(
    feeds: Mapping[str, Array], declared: Mapping[str, onnx.ValueInfoProto]
) -> dict[str, Array]:
    """Return the arrays of the inputs in ``declared``, cast to their declared element types.

    ``feeds`` may have additional arrays, because exporters remove inputs that a model does not use.
    """
    found: dict[str, Array] = {}
    for name, info in declared.items():
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        found[name] = feeds[name].astype(dtype)
    return found


@dataclass(frozen=True)
class _Run:
    """A compiled model and ONNX Runtime's session of the same file, run on the same inputs.

    Attributes:
        ours: runs the compiled model on inputs by name, and returns the outputs by name.
        session: ONNX Runtime's session.
        is_quantized: whether activations are quantized, which increases the tolerance.
        is_timed: whether the compiled model and ONNX Runtime are also timed.
    """

    ours: Callable[[Mapping[str, Array]], Mapping[str, Array]]
    session: onnxruntime.InferenceSession
    is_quantized: bool
    is_timed: bool

    def case(self, feeds: dict[str, Array], case: Case) -> CaseResult:
        """Run the compiled model and ONNX Runtime at the sizes in ``case``; compare the outputs.

        ``feeds`` are the inputs by name; ``case`` has the size of each open dimension. If this
        compiler or ONNX Runtime fails, the result has the error message instead of a comparison.
        """
        label = ", ".join(f"{name} {size}" for name, size in case.items()) or "as declared"
        try:
            found = self.theirs(feeds)
        except Exception as error:  # ONNX Runtime has no common class of its errors
            return CaseResult(label, not_exported=str(error).splitlines()[0])
        began = time.monotonic()
        try:
            ours = self.ours(feeds)
        except RammerError as error:
            return CaseResult(label, refusal=str(error))
        seconds = time.monotonic() - began
        comparison = compare(found, ours, *_tolerances(found, is_quantized=self.is_quantized))
        excess = comparison.worst.excess if comparison.worst else 0.0
        wrong = "" if comparison.ok else str(comparison)
        timed = self.timed(feeds) if self.is_timed else (0.0, 0.0)
        return CaseResult(label, excess, wrong=wrong, seconds=seconds, timed=timed)

    def theirs(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return ONNX Runtime's outputs for ``feeds``, by name."""
        names = [each.name for each in self.session.get_outputs()]
        values = self.session.run(names, feeds)
        return dict(zip(names, map(np.asarray, values), strict=True))

    def timed(self, feeds: dict[str, Array]) -> tuple[float, float]:
        """Run the compiled model and ONNX Runtime in turns; return the seconds of the fastest runs.

        The first number is that of the compiled model, the second that of ONNX Runtime.
        """
        shortest = [float("inf")] * 2
        for _ in range(_REPEATS):
            for number, work in enumerate((self.ours, self.theirs)):
                began = time.perf_counter()
                work(feeds)
                shortest[number] = min(shortest[number], time.perf_counter() - began)
        return shortest[0], shortest[1]


def _tolerances(expected: Mapping[str, Array], *, is_quantized: bool) -> tuple[float, float]:
    """Return the tolerances by which a model's outputs may differ from ONNX Runtime's ``expected``.

    The first number is the relative tolerance, the second the absolute. Both are larger for a
    quantized model, and for a model with a float16 output.
    """
    if is_quantized:
        return _OF_QUANTIZED
    is_half = any(value.dtype == np.float16 for value in expected.values())
    return _OF_HALF if is_half else (RELATIVE, ABSOLUTE)


def _is_quantized(graph: onnx.GraphProto) -> bool:
    return any("QuantizeL" in node.op_type for node in graph.node)


def spec_of(path: Path) -> Spec:
    """Return the description of inputs and cases of the exported ONNX file ``path``."""
    return load(path.with_suffix(".json"))
