"""Machines to compile for, which do not depend on the machine that runs the tests."""

from __future__ import annotations

from rammer_mlir.lowering.llvm.machine import Machine

X86_64_BASELINE = Machine("x86_64-unknown-linux-gnu", "x86-64", "", 128)
"""Every 64-bit x86 processor: SSE2 only."""

X86_64_AVX2 = Machine("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,+f16c", 256)
"""x86 processors since 2013."""

X86_64_AVX512 = Machine(
    "x86_64-unknown-linux-gnu", "skylake-avx512", "+avx2,+fma,+f16c,-prefer-256-bit", 512
)
"""x86 server processors since 2017."""

AARCH64 = Machine("aarch64-unknown-linux-gnu", "generic", "", 128)
"""64-bit Arm with NEON."""
