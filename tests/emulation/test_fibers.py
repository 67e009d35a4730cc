"""Tests that the assembly that switches stacks is valid for every processor.

Other tests execute the assembly for this machine. LLVM's assembler for other processors is not in
llvmlite, so ziglang's is used.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rammer_mlir.emulation.codegen.fibers import fiber_code
from rammer_mlir.errors import TargetError

ELF_MACHINES = {"x86_64": 62, "aarch64": 183}


@pytest.mark.parametrize("architecture", ELF_MACHINES)
def test_assembly_is_valid(architecture: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    source, image = tmp_path / "fibers.s", tmp_path / "fibers.o"
    source.write_text(fiber_code(f"{architecture}-unknown-linux-gnu").assembly)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture}-linux-gnu", "-c",
               str(source), "-o", str(image)]  # fmt: skip
    environment = {"ZIG_GLOBAL_CACHE_DIR": str(tmp_path), "ZIG_LOCAL_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    content = image.read_bytes()
    assert int.from_bytes(content[18:20], "little") == ELF_MACHINES[architecture]
    assert b"emulator_switch\0" in content
    assert b"emulator_begin\0" in content


@pytest.mark.parametrize("architecture", ELF_MACHINES)
def test_new_stack_keeps_calls_aligned(architecture: str) -> None:
    """A new stack is aligned to 16 bytes at the call of its function, as both ABIs require."""
    code = fiber_code(f"{architecture}-unknown-linux-gnu")
    popped = {"x86_64": 7, "aarch64": 20}[architecture]
    assert (code.frame_words - popped) * 8 % 16 == 0
    places = {code.argument, code.function, code.resume}
    assert len(places) == 3
    assert max(places) < code.frame_words


def test_unknown_processor() -> None:
    with pytest.raises(TargetError, match="emulation on 'riscv64': expected one of x86_64"):
        fiber_code("riscv64-unknown-linux-gnu")
