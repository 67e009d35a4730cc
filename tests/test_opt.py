"""`rammer-opt` and the pass manager behind it: pipelines, options, inputs, outputs and errors."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx.helper
import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.cli import opt
from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.manager import pipeline_of_flags, run_pipeline
from rammer_mlir.passes.options import create_pass, describe_options
from rammer_mlir.passes.pipeline import parse_pipeline
from rammer_mlir.passes.registry import PASSES, help_line
from rammer_mlir.passes.timing import Timing

ROOT = Path(__file__).resolve().parent.parent

SOURCE = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Sample(Pass):
    """Do nothing, with an option of every type.

    And a second paragraph.
    """

    name: ClassVar[str] = "sample"

    count: int = 1
    ratio: float = 0.5
    fast_math: bool = False
    policy: str = "none"
    sizes: tuple[int, ...] = ()
    names: list[str] | None = None

    def run(self, module: ir.Module) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Refuse(Pass):
    """Refuse the second operation of the first function."""

    name: ClassVar[str] = "refuse"

    def run(self, module: ir.Module) -> None:
        """Raise the error."""
        block = module.body.operations[0].regions[0].blocks[0]
        raise OperationError(block.operations[1], "expected none, got one: leave it out")


@dataclass(frozen=True)
class Break(Pass):
    """Leave IR behind that is not valid."""

    name: ClassVar[str] = "break"

    def run(self, module: ir.Module) -> None:
        """Return nothing where a tensor is wanted."""
        block = module.body.operations[0].regions[0].blocks[0]
        block.operations[1].erase()


def module() -> ir.Module:
    """Return the source as a module in a context of its own."""
    return ir.Module.parse(SOURCE, ir.Context())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a file with the source."""
    path = tmp_path / "in.mlir"
    path.write_text(SOURCE)
    return path


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the tool, which must fail with one line and no output; return the line's text."""
    assert opt.main([str(argument) for argument in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err.removeprefix("error: ").rstrip()


# Pipelines


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module()",
        "builtin.module(canonicalize)",
        "builtin.module(a{x=1 y=2},func.func(b,c{z=d(e),f}),g)",
        "any(cse)",
        "builtin.module(inline{pipeline={a,b} text='} )'})",
    ],
)
def test_pipelines_are_written_as_they_were_read(text: str) -> None:
    assert parse_pipeline(text).text == text


def test_spaces_and_columns() -> None:
    root = parse_pipeline(" builtin.module( a , func.func( b { x=1 } ) )  ")
    assert root.text == "builtin.module(a,func.func(b{x=1}))"
    assert [(leaf.name, leaf.column) for leaf in root.leaves()] == [("a", 18), ("b", 33)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected the name of a pass or operation, found the end"),
        ("canonicalize", "column 1: expected 'builtin.module(...)', found 'canonicalize'"),
        ("func.func(cse)", "column 1: expected 'builtin.module(...)', found 'func.func'"),
        ("builtin.module(cse", "column 15: expected ')' for this '(', found the end"),
        ("builtin.module(cse))", "column 20: expected the end of the pipeline, found ')'"),
        ("builtin.module(cse{a=1)", "column 19: expected '}' for this '{', found the end"),
        ("builtin.module(cse,)", "column 20: expected the name of a pass or operation, found ')'"),
        ("builtin.module(cse inline)", "column 20: expected ',' or ')', found 'i'"),
        ("builtin.module(func.func())", "column 16: expected a pass inside 'func.func(...)'"),
        ("builtin.module(nothing)", "column 16: unknown pass 'nothing': see --list-passes"),
        ("builtin.module(tile)", "column 16: unknown pass 'tile', did you mean 'rtask-tile'?"),
        (
            "builtin.module(cse,rtask-tyle)",
            "column 20: unknown pass 'rtask-tyle', did you mean 'rtask-tile'?",
        ),
        (
            "builtin.module(func.func(cse,rtask-tile))",
            "column 30: expected 'rtask-tile' directly in 'builtin.module', "
            "found it in 'func.func'",
        ),
        (
            "any(rtask-tile)",
            "column 5: expected 'rtask-tile' in 'builtin.module', found it in 'any'",
        ),
        ("builtin.module(rtask-tile(cse))", "column 16: 'rtask-tile' is a pass and cannot hold"),
        ("builtin.module(buffer-hoisting)", "column 16: 'buffer-hoisting' cannot run here: Can't"),
        ("builtin.module(cse{a=1})", "column 16: 'cse': no such option a"),
        (
            "builtin.module(rtask-tile{candidate=1})",
            "column 16: 'rtask-tile': unknown option 'candidate': expected one of candidates, "
            "memory, device, num-veus, work, enough, did you mean 'candidates'?",
        ),
        (
            "builtin.module(rtask-bufferize{a=1})",
            "column 16: 'rtask-bufferize': unknown option 'a': expected none",
        ),
    ],
)
def test_bad_pipelines(text: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(module(), text)
    assert str(caught.value).startswith(f"pass pipeline, {message}")


def test_nothing_runs_before_the_whole_pipeline_is_known_to_be_good() -> None:
    before = module()
    text = str(before)
    with pytest.raises(PassError, match="unknown pass"):
        run_pipeline(before, "builtin.module(rtask-form-operators,nothing)")
    assert str(before) == text


def test_flags_are_nested_where_they_can_run() -> None:
    flags = [("cse", ""), ("buffer-hoisting", ""), ("rtask-tile", "candidates=1")]
    assert pipeline_of_flags(flags) == (
        "builtin.module(cse,func.func(buffer-hoisting),rtask-tile{candidates=1})"
    )


# Options


def test_options_of_every_type() -> None:
    options = "count=-3 ratio=2.5e1 fast-math=true policy='a b' sizes=4,8 names=x"
    expected = Sample(-3, 25.0, True, "a b", (4, 8))
    found = create_pass(Sample, options.removesuffix(" names=x"))
    assert found == expected
    assert create_pass(Sample, "fast_math=1 sizes={2}") == Sample(fast_math=True, sizes=(2,))
    assert create_pass(Sample, "") == Sample()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("count=x", "'sample': option 'count': expected an integer, found 'x'"),
        ("count=1.5", "'sample': option 'count': expected an integer, found '1.5'"),
        ("ratio=much", "'sample': option 'ratio': expected a number, found 'much'"),
        ("fast-math=maybe", "'sample': option 'fast-math': expected true or false, found 'maybe'"),
        ("sizes=1,b", "'sample': option 'sizes': expected an integer, found 'b'"),
        ("count", "'sample': option 'count': expected 'count=value', found no value"),
        ("=1", "'sample': expected options 'key=value', found '=1'"),
        ("count=1 count=2", "'sample': option 'count' is given twice"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        create_pass(Sample, options)
    assert str(caught.value) == message


def test_options_are_described_as_they_are_written() -> None:
    described = "count=1 ratio=0.5 fast-math=false policy=none sizes="
    assert describe_options(Sample).startswith(described)
    assert help_line(Sample) == "Do nothing, with an option of every type."


# Running


def test_the_context_needs_no_preparation() -> None:
    given = module()
    run_pipeline(given, "builtin.module(cse,rtask-form-operators,func.func(canonicalize))")
    assert '"rtask.operator"' in str(given)


def test_every_pass_is_seen_alone_when_watched() -> None:
    seen: list[str] = []
    timing = Timing()
    text = "builtin.module(cse,func.func(canonicalize,cse),rtask-form-operators)"
    run_pipeline(module(), text, print_after_all=lambda name, _: seen.append(name), timing=timing)
    assert seen == [
        "builtin.module(cse)",
        "builtin.module(func.func(canonicalize))",
        "builtin.module(func.func(cse))",
        "rtask-form-operators",
    ]
    assert list(timing.seconds) == seen
    assert timing.report().splitlines()[-1].endswith("100.0%  total")


def test_a_pass_that_breaks_the_module_is_named() -> None:
    with pytest.raises(
        PassError, match="not valid after 'break': block with no terminator"
    ) as caught:
        run_pipeline(module(), "builtin.module(break)", passes=[Break])
    assert "\n" not in str(caught.value)


def test_an_invalid_module_is_not_touched() -> None:
    broken = module()
    broken.body.operations[0].regions[0].blocks[0].operations[1].erase()
    with pytest.raises(PassError, match="not valid before the first pass"):
        run_pipeline(broken, "builtin.module(sample)", passes=[Sample])


def test_a_failure_inside_mlir_gives_its_first_diagnostic() -> None:
    text = """func.func @f(%a: tensor<?xf32>) -> i64 {
      %0 = "test.op"(%a) : (tensor<?xf32>) -> i64
      return %0 : i64
    }"""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    given = ir.Module.parse(text, context)
    with pytest.raises(PassError, match="failed: op was not bufferized") as caught:
        run_pipeline(given, "builtin.module(one-shot-bufferize)")
    assert "\n" not in str(caught.value)


def test_an_error_at_an_operation_names_it_and_its_line(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opt, "ALL_PASSES", (Refuse,))
    assert error_of(capsys, source, "--refuse") == (
        f"{source}:3: 'func.return': expected none, got one: leave it out"
    )
    source.write_text(
        SOURCE.replace("return %0", "// expected-error@+1 {{leave it out}}\n return %0")
    )
    assert opt.main([str(source), "--refuse", "--verify-diagnostics"]) == 0


# The tool


def test_list_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--list-passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for kind in opt.ALL_PASSES:
        assert any(
            line.split()[0] == f"--{kind.name}" and help_line(kind) in line for line in lines
        )
    assert "MLIR" in lines[-1]


@pytest.mark.parametrize("kind", opt.ALL_PASSES, ids=lambda kind: kind.name)
def test_pass_file_and_lit_test_have_the_same_name(kind: type[Pass]) -> None:
    module_name = kind.__module__.rpartition(".")[2]
    assert module_name == kind.name.replace("-", "_")
    assert list((ROOT / "lit_tests").rglob(f"{kind.name}.mlir"))
    assert help_line(kind).endswith((".", ":", ";"))


def test_every_pass_is_in_the_table() -> None:
    files = [*(ROOT / "passes").glob("rtask_*.py"), *(ROOT / "lowering").rglob("rtask_*.py")]
    assert {file.stem for file in files} == {k.name.replace("-", "_") for k in opt.ALL_PASSES}
    assert opt.ALL_PASSES[: len(PASSES)] == PASSES


def test_output_files_are_whole_or_absent(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.mlir"
    assert opt.main([str(source), "--rtask-form-operators", "-o", str(target)]) == 0
    whole = target.read_text()
    assert '"rtask.operator"' in whole
    error_of(capsys, source, "--rtask-plan-memory", "-o", target)
    assert target.read_text() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mlir", "out.mlir"]


def test_bytecode_in_and_out(source: Path, tmp_path: Path) -> None:
    bytecode, text = tmp_path / "a.bc", tmp_path / "a.mlir"
    assert opt.main([str(source), "--emit-bytecode", "-o", str(bytecode)]) == 0
    assert bytecode.read_bytes().startswith(b"ML\xefR")
    assert opt.main([str(bytecode), "-o", str(text)]) == 0
    assert str(ir.Module.parse(text.read_text(), ir.Context())) == str(module())


def test_an_onnx_model_is_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="act")
    shape = value("x", onnx.TensorProto.FLOAT, [2, 3]), value("y", onnx.TensorProto.FLOAT, [2, 3])
    graph = onnx.helper.make_graph([node], "g", [shape[0]], [shape[1]])
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    assert opt.main([str(path), "--mlir-print-debuginfo"]) == 0
    out = capsys.readouterr().out
    assert "tensor<2x3xf32>" in out
    assert 'rtask.name = "x"' in out
    assert 'loc("act")' in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.mlir"], "cannot read 'missing.mlir': No such file or directory"),
        (["IN", "OTHER"], "unexpected argument 'OTHER'"),
        (["IN", "--cse", "--pass-pipeline=any(cse)"], "give '--cse' or --pass-pipeline, not both"),
        (["IN", "-o"], "argument -o: expected one argument; see rammer-opt --help"),
        (["IN", "--nothing"], "pass pipeline, column 16: unknown pass 'nothing'"),
        (["IN", "-o", "no/such/place"], "cannot write 'no/such/place': No such file"),
        (["IN", "--rtask-schedule=num-veus=0"], "number of vEUs: expected at least 1, found 0"),
        (["IN", "--rtask-schedule=policy=best"], "unknown policy 'best'"),
        (["IN", "--rtask-tile=candidates=0"], "candidates: expected at least 1, found 0"),
        (
            ["IN", "--rtask-vectorize-kernels=vector-bits=7"],
            "vector bits: expected 128, 256 or 512, found 7",
        ),
        (["IN", "--emit-bytecode", "--split-input-file"], "--emit-bytecode writes one module"),
    ],
)
def test_bad_arguments(
    arguments: list[str], message: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(source) if word == "IN" else word for word in arguments]
    assert message in error_of(capsys, *given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"func.func @f( {", ":1: expected non-function type"),
        (b"\n\nfunc.func private @f() loc(1)", ":3: expected location"),
        (b"\xff\xfe\x00", ": expected MLIR text, MLIR bytecode or an ONNX model, found neither"),
        (b"ML\xefR", "bytecode"),
        (b"\x08\x07", "ONNX"),
    ],
    ids=["syntax", "line", "binary", "bytecode", "onnx"],
)
def test_bad_inputs(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    assert message.lower() in error_of(capsys, path).lower()


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("// expected-error {{nothing}}", 'expected error "nothing" was not reported'),
        ("// expected-error-re@+1 {{not[0-9]ing}}", "was not reported"),
    ],
)
def test_expected_diagnostics_that_do_not_come(
    comment: str, message: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text(f"{comment}\n{SOURCE}")
    assert message in error_of(capsys, source, "--verify-diagnostics")


def test_diagnostics_that_are_not_expected(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text(f"{SOURCE}// -----\nfunc.func @f( {{")
    found = error_of(capsys, source, "--verify-diagnostics", "--split-input-file")
    assert found == f"{source}:6: unexpected error: expected non-function type"


def test_debug_shows_where_an_error_came_from(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opt.main([str(source), "--rtask-plan-memory", "--debug"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1].startswith("error: ")


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOURCE.encode())))
    assert opt.main(["--cse"]) == 0
    assert "arith.addf" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_crash() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "rammer_mlir.cli.opt", "-"],
            input=SOURCE.encode(),
            stdout=closed,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
    assert (done.returncode, done.stderr) == (1, b"")


LINALG = """
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>)
                     outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
"""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--rtask-schedule"],
            "expected rtask.operators on memrefs, found tensors: run",
        ),
        (["--rtask-form-operators", "--rtask-tile", "--rtask-schedule"], "found tensors: run"),
        (
            ["--rtask-form-operators", "--rtask-tile", "--rtask-bufferize", "--rtask-bufferize"],
            "expected tensors, found memrefs: it has buffers already",
        ),
    ],
)
def test_passes_out_of_order(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule of nothing is no schedule."""
    path = tmp_path / "linalg.mlir"
    path.write_text(LINALG)
    assert message in error_of(capsys, str(path), *flags)
