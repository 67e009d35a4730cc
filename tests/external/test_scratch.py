"""Scratch memory, which only foreign code reads and writes, is an operand in the arena."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.codegens import Region, RegionCode, register_codegen
from rammer_mlir.errors import PassError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable
from tests.external.states import PackedProducts, check, region_shapes, two_products

SOURCE = """
#include <stdint.h>
int32_t {name}(int64_t row, const float *x, const float *w, float *y, char *scratch) {{
  double *sums = (double *)(scratch + {bytes} * row);
  if ((intptr_t)scratch % 64) return 5;
  for (int j = 0; j < {columns}; j++) sums[j] = 0;
  for (int k = 0; k < {sums}; k++)
    for (int j = 0; j < {columns}; j++) sums[j] += 1.0 * x[row * {sums} + k] * w[k * {columns} + j];
  for (int j = 0; j < {columns}; j++) y[row * {columns} + j] = sums[j];
  return 0;
}}
"""


class SummedApart(PackedProducts):
    """A code generator of products with weights, whose functions sum each row in the scratch."""

    scratch_bytes: int = 8 * 16 - 1  # rounded up to 128

    def generate(self, region: Region) -> RegionCode:
        (rows, sums), (_, columns) = region_shapes(region)
        text = SOURCE.format(name=region.name, sums=sums, columns=columns, bytes=128)
        return RegionCode(
            text,
            region.name,
            num_rtasks=rows,
            reads={0: [("d0", 1), (0, sums)]},
            writes={0: [("d0", 1), (0, columns)]},
            scratch_bytes=self.scratch_bytes,
        )


@pytest.fixture
def summed() -> Iterator[SummedApart]:
    """Yield the code generator, which is registered during the test."""
    codegen = SummedApart()
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister(codegen.name)


def compiled(choice: str, num_veus: int = 1) -> Executable:
    found = rammer_mlir.compile(
        two_products(), offload="packed", offload_choice=choice, cache=False, num_veus=num_veus
    )
    assert isinstance(found, Executable)
    return found


@pytest.mark.parametrize("veus", [1, 2, 3])
def test_each_rtask_has_its_own(veus: int, summed: SummedApart, tmp_path: Path) -> None:
    exe = compiled("always", num_veus=veus)
    assert exe.image.modules
    check(exe)
    assert exe.stats["arena_bytes"] >= 6 * 128
    exe.save(tmp_path / "scratch.rammer")
    verify(tmp_path / "scratch.rammer")
    loaded = rammer_mlir.load(tmp_path / "scratch.rammer")
    assert isinstance(loaded, Executable)
    check(loaded)


def test_the_hosts_candidates_need_none(summed: SummedApart) -> None:
    """If the host's candidates are chosen, no memory is planned for the scratch operands."""
    summed.scratch_bytes = 1 << 20
    exe = compiled("cost", num_veus=2)
    assert exe.image.modules == ()
    check(exe)
    plain = rammer_mlir.compile(two_products(), cache=False, num_veus=2)
    assert isinstance(plain, Executable)
    assert exe.stats["arena_bytes"] - plain.stats["arena_bytes"] < 1 << 20


def test_the_check_leaves_its_content_free(summed: SummedApart) -> None:
    exe = rammer_mlir.compile(two_products(), offload="packed", offload_check=True, cache=False)
    assert isinstance(exe, Executable)
    check(exe)


def test_fewer_than_no_bytes(summed: SummedApart) -> None:
    summed.scratch_bytes = -1
    with pytest.raises(
        PassError, match="expected 0 to 1099511627776 bytes of scratch, found -1; mend"
    ):
        compiled("always")
