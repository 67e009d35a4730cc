"""Tests that the fuzzer finds nothing new, and tests of the fuzzer itself.

The compiler handles all cases that once showed a fault, and a sample of new random cases. The
fuzzer finds wrong results, shrinks cases, and survives a crash of a child process.
"""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import onnx
import onnx.parser
import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.arrays import feeds_of
from tests.fuzz.case import Case, Problem, cases_in, read_case, write_case
from tests.fuzz.kinds import KINDS
from tests.fuzz.models import different
from tests.fuzz.oracle import Rejected, run_reference
from tests.fuzz.pool import Child, try_case
from tests.fuzz.rewrites import REWRITES, rewritten
from tests.fuzz.shrink import shrink

CORPUS = Path(__file__).parent / "corpus"

SAMPLE = {"model": 6, "file": 12, "artifact": 12, "equivalent": 3}
"""Number of cases of each kind; all of them take some twenty seconds."""


@pytest.mark.parametrize("case", list(cases_in([CORPUS])), ids=lambda case: case.name)
def test_faults_that_were_mended(case: Case) -> None:
    assert try_case(KINDS, case).problem is None


@pytest.mark.parametrize("kind", SAMPLE)
@pytest.mark.filterwarnings("ignore::rammer_mlir.errors.ModelWarning")
def test_a_sample(kind: str) -> None:
    for seed in range(SAMPLE[kind]):
        outcome = try_case(KINDS, (kind, seed))
        assert outcome.problem is None or outcome.problem.refused, (seed, outcome.problem)


PLAIN = """<ir_version: 9, opset_import: ["": 21]> g (float[3,4] x, float[4,5] w) => (float[3,5] y)
{ a = Relu(x) b = MatMul(a, w) c = Neg(b) d = Add(c, b) e = Sub(d, c) y = Tanh(e) }"""


def plain() -> Case:
    """Return a case with a model of six operators."""
    return Case("model", 3, onnx.parser.parse_model(PLAIN).SerializeToString())


def operators(case: Case) -> list[str]:
    return [node.op_type for node in onnx.ModelProto.FromString(case.model).graph.node]


def test_wrong_numbers_are_found() -> None:
    """Results computed with Sin instead of Tanh are a problem; rounding errors are no problem."""
    model = onnx.ModelProto.FromString(plain().model)
    feeds = feeds_of(model, 3)
    expected = run_reference(model, feeds)
    other = onnx.parser.parse_model(PLAIN.replace("Tanh", "Sin"))
    found = different(model, feeds, expected, run_reference(other, feeds), 3)
    assert found is not None and found.sort == "wrong numbers"
    rounded = {name: value * (1 + 1e-7) for name, value in expected.items()}
    rounded = {name: value.astype("float32") for name, value in rounded.items()}
    assert different(model, feeds, expected, rounded, 3) is None


def test_cases_shrink_to_what_matters() -> None:
    """A case that fails because of its MatMul shrinks to a model of that node alone."""
    found = shrink(plain(), lambda case: "MatMul" in operators(case))
    assert operators(found) == ["MatMul"]


def test_cases_are_written_and_read(tmp_path: Path) -> None:
    case = Case("equivalent", 5, plain().model, {"rewrites": [["commute", 1]]})
    assert read_case(write_case(tmp_path, case, Problem("wrong numbers", "all"))) == case


@pytest.mark.parametrize("name", REWRITES)
def test_rewritten_models_are_equal(name: str) -> None:
    """Each rewriting applies to some random models, and keeps ONNX Runtime's results."""
    tried = 0
    for seed in range(200):
        if tried == 3:
            break
        with contextlib.suppress(Rejected):
            model = onnx.ModelProto.FromString(KINDS["model"].make(seed).model)
            feeds = dict(feeds_of(model, seed))
            weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
            other = rewritten(model, [[name, seed]], feeds | weights)
            inputs = {value.name for value in other.graph.input}
            more = feeds | {n: w for n, w in weights.items() if n in inputs}
            found = run_reference(other, more)
            assert different(model, feeds, run_reference(model, feeds), found, seed) is None
            tried += other != model
    assert tried


def test_seeds_give_the_same_cases() -> None:
    for kind, known in KINDS.items():
        for seed in range(20):
            with contextlib.suppress(Rejected):
                assert known.make(seed) == known.make(seed), (kind, seed)


def test_a_crash_ends_the_child_alone() -> None:
    child = Child("tests.fuzz.crashing_kinds")
    outcome = child.attempt(("crash", signal.SIGSEGV))
    assert outcome.problem is not None and outcome.problem.sort == f"status {-signal.SIGSEGV}"
    assert child.attempt(("fine", 1)).problem is None
    child.stop()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fuzzer's command tries the case of a given file, and prints a summary.

    If the case has no problem, the command returns 0 and writes no findings.
    """
    path = write_case(tmp_path, plain())
    assert main([str(path), "--processes", "1", "--out", str(tmp_path / "out")]) == 0
    assert "fuzz: 1 models" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
