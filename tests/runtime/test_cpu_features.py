"""Tests that the instruction sets of a processor are read from Linux's list."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from rammer_mlir.support import cpu_features as module
from rammer_mlir.support.cpu_features import cpu_features

X86 = "avx2 f16c fma gfni"
ARM = "asimd atomics bf16 fphp i8mm sve sve2"
OTHERS = "adx aes crc32 pclmulqdq sha_ni vaes"


@pytest.fixture(autouse=True)
def unread() -> Generator[None]:
    """Forget the instruction sets that were read, before and after the test."""
    cpu_features.cache_clear()
    yield
    cpu_features.cache_clear()


@pytest.mark.parametrize("text", [f"flags\t: fpu {X86} {OTHERS}", f"Features\t: fp {ARM} {OTHERS}"])
def test_instruction_sets_of_code_generators_are_listed(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\n{text}\n")
    monkeypatch.setattr(module, "_CPUINFO", path)
    assert cpu_features() == tuple(sorted((X86 if "flags" in text else ARM).split()))
