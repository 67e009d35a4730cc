"""Tests that other tools can load the dialect as IRDL, and verify modules with it.

They do so without this project's verifiers.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import PACKAGE, ir, irdl
from rammer_mlir.cli import opt

SOURCE = """
rtask.kernel @k rtasks(1) operations(8) bytes(64) {
  reads 0[0 +: 4]
  writes 1[0 +: 4]
}
func.func private @k(%id: index, %a: memref<4xf32>, %b: memref<4xf32>) {
  return
}
func.func @main(%a: memref<4xf32>, %b: memref<4xf32>) {
  %c = memref.alloc() : memref<4xf32>
  rtask.operator 0 @k(%a, %c) : (memref<4xf32>, memref<4xf32>) -> ()
  rtask.operator 1 @k(%c, %b) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
"""


def written(folder: Path) -> tuple[Path, Path]:
    """Write the dialect's IRDL and a module in portable form to ``folder``; return both paths."""
    source, definition, program = (folder / name for name in ("in.mlir", "rtask.irdl", "out.mlir"))
    source.write_text(SOURCE)
    definition.write_text(dialects.irdl_text())
    assert opt.main([str(source), "--print-rtask-segments", "-o", str(program)]) == 0
    return definition, program


def test_a_context_that_has_irdl_alone_verifies_a_module(tmp_path: Path) -> None:
    definition, program = written(tmp_path)
    context = ir.Context()
    with context:
        irdl.load_dialects(ir.Module.parse(definition.read_text()))
        assert ir.Module.parse(program.read_text()).operation.verify()
        broken = program.read_text().replace(", threads = 1 : i64", "")
        with pytest.raises(ir.MLIRError, match='attribute "threads" is expected'):
            ir.Module.parse(broken)


def test_what_is_written_for_others_is_read_back() -> None:
    context = ir.Context()
    dialects.register(context)
    module = dialects.parse(SOURCE, context)
    again = dialects.parse(dialects.portable_asm(module), context)
    assert dialects.get_asm(again) == dialects.get_asm(module)


def test_the_tool_prints_the_definition(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--print-irdl"]) == 0
    assert capsys.readouterr().out.strip() == dialects.irdl_text().strip()


def native_tools() -> list[str]:
    """Return paths of installed tools that contain another build of MLIR, such as ``iree-opt``."""
    found = importlib.util.find_spec(PACKAGE)
    folders = [] if found is None else list(found.submodule_search_locations or ())
    beside = [str(path) for f in folders for path in Path(f).glob("_mlir_libs/*-opt")]
    return [*beside, *filter(None, [shutil.which("iree-opt")])]


@pytest.mark.parametrize("tool", native_tools(), ids=lambda tool: Path(tool).name)
def test_a_native_tool_verifies_a_module(tool: str, tmp_path: Path) -> None:
    definition, program = written(tmp_path)
    command = [tool, f"--irdl-file={definition}"]
    done = subprocess.run([*command, program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"rtask.operator"') == 2
    program.write_text(program.read_text().replace("kernels = [@k], ", "", 1))
    refused = subprocess.run([*command, program], capture_output=True, text=True)
    assert refused.returncode == 1
    assert 'attribute "kernels" is expected' in refused.stderr
