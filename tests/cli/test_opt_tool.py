"""Tests that `rammer-opt` reads and writes text and bytecode, runs passes, and reports errors."""

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
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.registry import PASSES, help_line
from tests.passes.small_module import SOURCE, module

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Refuse(Pass):
    """Refuse the second operation of the first function."""

    name: ClassVar[str] = "refuse"

    def run(self, module: ir.Module) -> None:
        """Raise an ``OperationError`` for the second operation of the first function."""
        block = module.body.operations[0].regions[0].blocks[0]
        raise OperationError(block.operations[1], "expected none, got one: leave it out")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return an MLIR file that contains ``SOURCE``."""
    path = tmp_path / "in.mlir"
    path.write_text(SOURCE)
    return path


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run ``rammer-opt``; return the first line of its error.

    The tool must fail, and print nothing on standard output.
    """
    assert opt.main([str(argument) for argument in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    first = err.splitlines()[0]
    assert "error: " in first
    return first.removeprefix("error: ")


def test_an_error_at_an_operation_names_it_and_its_line(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opt, "ALL_PASSES", (Refuse,))
    assert opt.main([str(source), "--refuse"]) == 1
    place, line, caret = capsys.readouterr().err.splitlines()
    assert place == f"{source}:3:3: error: 'func.return': expected none, got one: leave it out"
    assert (line, caret) == (SOURCE.splitlines()[2], "  ^")
    source.write_text(
        SOURCE.replace("return %0", "// expected-error@+1 {{leave it out}}\n return %0")
    )
    assert opt.main([str(source), "--refuse", "--verify-diagnostics"]) == 0


@pytest.mark.parametrize("flags", [[], ["--split-input-file"], ["--verify-diagnostics"]])
def test_an_error_in_the_readable_form_names_its_place(
    flags: list[str], source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text("func.func private @f()\n// -----\n\nrtask.kernel k\n")
    what = "unexpected error: " if "--verify-diagnostics" in flags else ""
    assert opt.main([str(source), *flags]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{source}:4:14: error: {what}expected the symbol of an rKernel, found 'k'",
        "rtask.kernel k",
        "             ^",
    ]


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
    rooms = (ROOT / name for name in ("passes", "lowering", "rammer_mlir/compiler"))
    files = [file for room in rooms for file in room.rglob("rtask_*.py")]
    assert {file.stem for file in files} == {k.name.replace("-", "_") for k in opt.ALL_PASSES}
    assert opt.ALL_PASSES[: len(PASSES)] == PASSES


def test_output_files_are_whole_or_absent(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.mlir"
    assert opt.main([str(source), "--rtask-form-operators", "-o", str(target)]) == 0
    whole = target.read_text()
    assert "= rtask.operator @" in whole
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
        (["IN", "--nothing"], "unknown option or pass '--nothing': see --help and --list-passes"),
        (["IN", "--emit-bytecode-version=3"], "expected --emit-bytecode too"),
        (["IN", "--run-reproducer", "--cse"], "give --run-reproducer or passes, not both"),
        (["IN", "--load", "no_such_module"], "plug-in 'no_such_module': expected it to load"),
        (["IN", "-o", "no/such/place"], "cannot write 'no/such/place': No such file"),
        (
            ["IN", "--rtask-schedule=num-veus=0"],
            "rtask-schedule: num-veus: expected at least 1, found 0",
        ),
        (["IN", "--rtask-schedule=policy=best"], "unknown policy 'best'"),
        (["IN", "--rtask-tile=candidates=0"], "candidates: expected at least 1, found 0"),
        (
            ["IN", "--rtask-vectorize-kernels=vector-bits=7"],
            "rtask-vectorize-kernels: vector-bits: expected 128, 256 or 512, found 7",
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
        (b"func.func @f( {", ":1:14: error: expected non-function type"),
        (b"\n\nfunc.func private @f() loc(1)", ":3:28: error: expected location"),
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
        ("// expected-error {{nothing}}", 'expected error "nothing" was not produced'),
        ("// expected-error-re@+1 {{not{{[0-9]}}ing}}", 'error "not{{[0-9]}}ing" was not produced'),
        ("// expected-error-re {{not{{[}}}}", "expected a regular expression in {{...}}"),
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
    assert found == f"{source}:6:14: error: unexpected error: expected non-function type"


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
            "expected static memrefs, found tensor<4x4xf32>: run rtask-bufferize first",
        ),
        (
            ["--rtask-form-operators", "--rtask-tile", "--rtask-schedule"],
            "expected static memrefs, found tensor<4x4xf32>: run rtask-bufferize first",
        ),
        (
            ["--rtask-form-operators", "--rtask-tile", "--rtask-bufferize", "--rtask-bufferize"],
            "expected static tensors, found memref<4x4xf32>: it has buffers already",
        ),
    ],
)
def test_passes_out_of_order(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pass whose input is of another stage refuses it, and names the reason."""
    path = tmp_path / "linalg.mlir"
    path.write_text(LINALG)
    assert message in error_of(capsys, str(path), *flags)


def test_a_closed_standard_input_or_error_is_no_internal_error(source: Path) -> None:
    tool = f"'{sys.executable}' -m rammer_mlir opt"
    done = subprocess.run(f"{tool} <&-", shell=True, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cannot read standard input: it is closed; name a file\n"
    refused = subprocess.run(f"{tool} none.mlir 2>&-", shell=True, cwd=ROOT, capture_output=True)
    assert (refused.returncode, refused.stdout) == (1, b"")


def test_passes_around_which_the_ir_is_printed_are_known(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = error_of(capsys, source, "--cse", "--mlir-print-ir-before=csee")
    assert said == "--mlir-print-ir-before: unknown pass 'csee': did you mean 'cse'?"
    assert "--mlir-print-ir-after: unknown pass" in error_of(
        capsys, source, "--mlir-print-ir-after=cse,nothing-alike-at-all"
    )


def test_malformed_bytecode_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.mlirbc"
    path.write_bytes(b"ML\xefR")
    assert error_of(capsys, path).startswith(f"{path}:0:0: error: attempting to parse a byte")


def test_all_mismatches_are_reported_beside_a_malformed_expression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.mlir"
    malformed = "// expected-error-re@+2 {{a {{[}} b}}\n"
    path.write_text(f"{malformed}// expected-error@+1 {{{{never}}}}\n{SOURCE}")
    assert opt.main([str(path), "--verify-diagnostics"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert f"{path}:1:4: error: expected a regular expression in " in lines[0]
    assert f'{path}:2:4: error: expected error "never" was not produced' in lines[3]


_DEEP = {
    "module {" * 5000 + "}" * 5000: "nested brackets",
    "(" * 5000: "nested brackets",
    f"func.func @f(%x: {'tuple<' * 20000}i1{'>' * 20000}) {{ return }}": "nested brackets",
    f"#m = affine_map<(d0) -> ({'-' * 60000}d0)>": "signs in a row",
}


@pytest.mark.parametrize(("text", "levels"), _DEEP.items())
def test_text_that_is_nested_too_deeply_is_refused(
    text: str, levels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.mlir"
    path.write_text("\n" + text)
    expected = f"{path}:2: error: expected at most 1000 {levels}, found more: nest it less"
    assert error_of(capsys, path) == expected


@pytest.mark.parametrize(
    ("first", "next_", "line", "message"),
    [
        ("#a0 = 1", "#a{} = [#a{}]", 1002, "1000 nested brackets in aliases, found more"),
        ("!a0 = i1", "!a{} = tuple<!a{}>", 1002, "1000 nested brackets in aliases, found more"),
        ("!a0 = i1", "!a{0} = tuple<!a{1}, !a{1}>", 17, "1048576 characters of a type or attribut"),
    ],
)
def test_aliases_with_too_many_levels_are_refused(
    first: str, next_: str, line: int, message: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "in.mlir"
    path.write_text("\n".join([first, *(next_.format(n, n - 1) for n in range(1, 3000))]))
    assert error_of(capsys, path).startswith(f"{path}:{line}: error: expected at most {message}")


def test_text_with_many_brackets_on_one_level_is_accepted(tmp_path: Path) -> None:
    rows = ", ".join("[1, 2]" for _ in range(1500))
    names = ", ".join(['"->a<b"'] * 1500)
    path = tmp_path / "in.mlir"
    path.write_text(
        f"// {'-' * 3000}\n#rows = dense<[{rows}]> : tensor<1500x2xi32>\n#both = [#rows, [#rows]]\n"
        f"func.func @f() attributes {{x = [{names}], y = #both}} {{ return }}\n"
    )
    assert opt.main([str(path), "-o", str(tmp_path / "out.mlir")]) == 0
