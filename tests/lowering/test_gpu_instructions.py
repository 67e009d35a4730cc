"""Tests of the tool that finds loops in PTX and counts their loads and stores.

Programs that compute matrix products have the expected loops, loads and stores.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.benchmarks.gpu.instructions import count, main
from rammer_mlir.benchmarks.gpu.ptx_loops import loading_loop, main_loop
from rammer_mlir.lowering.nvvm.ptxas import find_ptxas

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")

PTX = """
.visible .entry k(
)
{
$L__BB0_1:
	ld.global.v4.b32 	{%r1, %r2, %r3, %r4}, [%rd1];
$L__BB0_2:
	@%p3 cp.async.cg.shared.global [%r9], [%rd2], 16, %r1;
	cp.async.cg.shared.global [%r9], [%rd2], 16;
$L__BB0_3:
	ld.shared.v4.b32 	{%r5, %r6, %r7, %r8}, [%r20];
	fma.rn.f32 	%f1, %f2, %f3, %f1;
	fma.rn.f32 	%f1, %f2, %f3, %f1;
	@%p1 bra 	$L__BB0_3;
	@%p2 bra 	$L__BB0_2;
	ld.global.b16 	%rs1, [%rd3];
	bra.uni 	$L__BB0_1;
}
"""


def test_the_main_loop_and_the_loop_that_loads() -> None:
    inner = main_loop(PTX)
    assert (inner.products, len(inner.instructions), inner.loaded_bytes) == (2, 4, 0)
    assert inner.count("ld.shared") == 1
    staging = loading_loop(PTX)
    assert staging.count("cp.async") == 2
    assert staging.loaded_bytes == 32
    assert staging.contains(inner)
    assert not inner.contains(staging)


@needs_ptxas
@pytest.mark.parametrize("precision", ["f16", "f32"])
def test_a_matrix_times_a_vector(precision: str) -> None:
    """A matrix-vector product saturates the memory of an H100.

    It has at least 128 rTasks, 2 MiB of loads in flight, and 16 wide loads in each loop iteration.
    """
    found = count(f"1x4096x4096-{precision}", "sm_90")
    assert not found.error
    assert found.rtasks >= 128
    assert found.in_flight * found.veus >= 2 << 20
    assert found.loop.count("ld.global.v4") >= 16
    assert (found.stored, found.loaded, found.spill_bytes) == (1.0, 0.0, 0)
    assert found.floor < found.predicted < 2 * found.floor


@needs_ptxas
@pytest.mark.parametrize("name", ["256x256x256-f32", "256x256x256-tf32", "256x256x256-f16", "mlp"])
def test_results_are_stored_once(name: str) -> None:
    found = count(name, "sm_80")
    assert not found.error
    assert (found.stored, found.loaded, found.spill_bytes) == (1.0, 0.0, 0)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "instructions.md"
    assert main(["1x2-f32", "no_such_model", "--output", str(output)]) == 1
    text = output.read_text(encoding="utf-8")
    assert "expected ROWSxINNERxCOLUMNS-f32, -tf32 or -f16" in text
    assert "no_such_model" in text
    assert capsys.readouterr().out.strip() == text.strip()
