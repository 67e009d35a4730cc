"""Check tests of ONNX's backend suite with our compiler and with ONNX Runtime.

Our compiler is called through ONNX's backend API.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import onnx
from onnx.backend.test.runner import Runner

from rammer_mlir import backend
from rammer_mlir.benchmarks.onnx_suite import onnx_runtime
from rammer_mlir.benchmarks.onnx_suite.cases import Case, suite
from rammer_mlir.benchmarks.onnx_suite.onnx_runtime import Run
from rammer_mlir.benchmarks.test_workers import Check
from rammer_mlir.errors import RammerError

_REFUSED, _WRONG, _FAULT = "refused: ", "wrong: ", "fault: "
"""Prefixes of the reasons of failures; reasons of crashes and time-outs have no prefix."""


@dataclass(frozen=True)
class Engine:
    """A compiler or runtime under test.

    Attributes:
        prepare: compiles a model, and returns a function that runs it.
        refusals: class of the errors that ``prepare`` or a run raises to reject a model.
    """

    prepare: Callable[[onnx.ModelProto], Run]
    refusals: type[Exception]


def _prepare_ours(model: onnx.ModelProto) -> Run:
    return backend.prepare(model, "CPU", num_veus=1, cache=False).run


ENGINES = {
    "ours": Engine(_prepare_ours, RammerError),
    "onnxruntime": Engine(onnx_runtime.prepare, Exception),
}


def make_our_check() -> Check:
    """Return a function that checks one test with our compiler.

    The function takes the name of the test, and returns the reason of its failure, or None if the
    test passes.
    """
    return _make_check("ours")


def make_runtime_check() -> Check:
    """Return a function that checks one test with ONNX Runtime.

    The function takes the name of the test, and returns the reason of its failure, or None if the
    test passes.
    """
    return _make_check("onnxruntime")


def _make_check(engine: str) -> Check:
    cases = {case.name: case for case in suite()}
    return lambda name: check(cases[name], ENGINES[engine])


def check(case: Case, engine: Engine) -> str | None:
    """Return in one line why a test fails with ``engine``, or None if it passes.

    A test passes if the outputs for each data set are as expected, within the test's tolerances.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = engine.prepare(case.model)
            for inputs, expected in case.data_sets():
                outputs = list(run(inputs))
                try:
                    Runner.assert_similar_outputs(expected, outputs, case.relative, case.absolute)
                except Exception as error:  # AssertionError, or types that cannot be compared
                    return _WRONG + _line(error)
        except engine.refusals as error:
            return _REFUSED + _line(error)
        except Exception as error:  # a fault: reported with the others
            return f"{_FAULT}{type(error).__name__}: {_line(error)}"
    return None


def outcome(reason: str | None) -> str:
    """Return the kind of a test's result, given the failure's reason from ``check``.

    The kind is "passed" (no reason), "refused" (model rejected), "wrong" (outputs differ), or
    "fault" (any other error).
    """
    if reason is None:
        return "passed"
    return next((p[:-2] for p in (_REFUSED, _WRONG) if reason.startswith(p)), "fault")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
