"""Tests of the tool that runs ONNX's backend test suite.

It finds the cases of the suite, checks each in a child process, and writes tables of results.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from rammer_mlir.benchmarks.onnx_suite import __main__ as command
from rammer_mlir.benchmarks.onnx_suite.cases import KINDS, Case, suite
from rammer_mlir.benchmarks.onnx_suite.engines import ENGINES, Engine, check, outcome
from rammer_mlir.benchmarks.onnx_suite.exclusions import exclusion
from rammer_mlir.benchmarks.onnx_suite.report import collect, counts, text
from rammer_mlir.benchmarks.test_workers import Check, MakeCheck, check_all
from rammer_mlir.errors import UnsupportedError

SOME = {
    "node": "test_abs",
    "simple": "test_sequence_model8",
    "pytorch-converted": "test_Conv1d",
    "pytorch-operator": "test_operator_exp",
    "light": "test_light_squeezenet",
}


def case(kind: str, name: str) -> Case:
    return next(case for case in suite(name, [kind]) if case.name == name)


@pytest.mark.parametrize("kind", KINDS)
def test_cases_have_models_inputs_and_outputs(kind: str) -> None:
    found = case(kind, SOME[kind])
    for inputs, outputs in found.data_sets():
        weights = {tensor.name for tensor in found.model.graph.initializer}
        assert len(inputs) == sum(v.name not in weights for v in found.model.graph.input)
        assert len(outputs) == len(found.model.graph.output)
        assert all(isinstance(value, np.ndarray) for value in (*inputs, *outputs))
    assert exclusion(found) is None


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("name", ["test_abs", "test_identity"])
def test_inputs_are_given_at_run_time(engine: Engine, name: str) -> None:
    assert check(case("node", name), engine) is None


def engine_that(answer: object) -> Engine:
    """Return an engine that ignores models and inputs.

    Each run returns ``answer`` as the only output, or raises it if it is an exception.
    """

    def run(inputs: Sequence[object]) -> Sequence[object]:
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def prepare(model: onnx.ModelProto) -> object:
        return run

    return Engine(prepare, UnsupportedError)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        (np.zeros((3, 4, 5), np.float32), "wrong", "Not equal to tolerance"),
        (np.zeros((3, 4), np.float32), "wrong", "incorrect shape"),
        (UnsupportedError("one line"), "refused", "one line"),
        (ValueError("no news"), "fault", "ValueError: no news"),
    ],
)
def test_failures_are_told_apart(answer: object, expected: str, reason: str) -> None:
    found = check(case("node", "test_abs"), engine_that(answer))
    assert found is not None and reason in found and "\n" not in found
    assert outcome(found) == expected
    assert outcome("not done in 60 s") == "fault"
    assert outcome(None) == "passed"


def test_definitions_count_for_their_operator() -> None:
    names: Sequence[str] = ("test_relu", "test_relu_expanded_ver18", "test_bernoulli", "test_adam")
    cases = [case("node", name) for name in names]
    reasons = [None, "refused: why", "refused: random", "fault: no"]
    ours: dict[str, str | None] = dict(zip(names, reasons, strict=True))
    results = collect(cases, ours, dict.fromkeys(names))
    assert [result.operator for result in results[:2]] == ["Relu", "Relu"]
    assert "random" in (results[2].excluded or "")
    assert "training" in (results[3].excluded or "")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in counts(results).split("\n")
    ]
    assert rows[-1] == ["all", "4", "1", "2", "0", "1", "4"]
    assert "- `test_relu_expanded_ver18`: refused: why" in text(results)
    assert "test_bernoulli" not in text(results)


def test_suite_writes_reasons_and_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_process(
        make_check: MakeCheck, names: Sequence[str], processes: int, seconds: float
    ) -> dict[str, str | None]:
        run = make_check()
        return {name: run(name) for name in names}

    monkeypatch.setattr(command, "check_all", in_process)
    arguments = ["--filter", "test_bernoulli_seed", "--kinds", "node", "--output", str(tmp_path)]
    assert command.main(arguments) == 0
    reasons = json.loads((tmp_path / "failing.json").read_text())
    assert reasons["test_bernoulli_seed"].startswith("refused: ")
    assert "| Bernoulli" in (tmp_path / "onnx-suite.md").read_text()


def check_of_three() -> Check:
    """Return a stub of a check, whose verdict depends only on the name of the case.

    The case "fails" fails, "dies" ends its process, and any other case passes. The function belongs
    to the module, because child processes import it.
    """

    def run(name: str) -> str | None:
        if name == "dies":
            os._exit(3)
        return "refused: why" if name == "fails" else None

    return run


def test_tests_that_end_their_process_are_reasons() -> None:
    found = check_all(check_of_three, ["passes", "dies", "fails"], 1)
    assert found == {"passes": None, "dies": "ends the process", "fails": "refused: why"}


ONCE_REFUSED = (
    ("node", "test_ai_onnx_ml_array_feature_extractor"),
    ("node", "test_ai_onnx_ml_tree_ensemble_set_membership"),
    ("node", "test_ai_onnx_ml_tree_ensemble_single_tree"),
    ("node", "test_batchnorm_epsilon_training_mode"),
    ("node", "test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN"),
    ("node", "test_dequantizelinear_float4e2m1"),
    ("node", "test_dequantizelinear_int2"),
    ("node", "test_flexattention_score_mod"),
    ("node", "test_quantizelinear_e5m2"),
    ("node", "test_quantizelinear_uint4"),
    ("pytorch-converted", "test_PReLU_2d_multiparam"),
)


@pytest.mark.parametrize(("kind", "name"), ONCE_REFUSED)
def test_that_was_refused_once_passes(kind: str, name: str) -> None:
    assert check(case(kind, name), ENGINES["ours"]) is None
