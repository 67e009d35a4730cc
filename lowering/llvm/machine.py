"""Describes the processor properties that code generation needs, as LLVM reports them."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from rammer_mlir.errors import TargetError

LLVM_LOCK = threading.RLock()
"""Held around every use of llvmlite: its targets are process-wide, with thread-unsafe setup."""

_LLVMLITE_LOCK: Any = llvm.ffi.lib._lock  # pyright: ignore[reportPrivateUsage]


def _acquire() -> None:
    LLVM_LOCK.acquire()
    _LLVMLITE_LOCK.__enter__()


def _release() -> None:
    _LLVMLITE_LOCK.__exit__(None, None, None)
    LLVM_LOCK.release()


# A child would wait forever for a lock that another thread of its parent held.
os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)

VNNI, MULTIPLY_WORDS = "vpdpbusd", "pmaddwd"
"""Instructions of x86 that add products of integers: four of bytes, or two of 16 bits."""

_initialized: list[bool] = []
_options: set[str] = set()


def initialize_llvm() -> None:
    """Register all of llvmlite's code generators with LLVM, once per process."""
    with LLVM_LOCK:
        if not _initialized:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            llvm.initialize_native_asmparser()
            _initialized.append(True)


@dataclass(frozen=True)
class Machine:
    """The properties of a processor that the code generator needs.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's name of the processor.
        features: LLVM's features, as ``+avx2,-avx512f``.
        vector_bits: width in bits of the vector registers that rKernels use.
        option: an LLVM command line option for this machine, empty for none. From its first use on,
            the option applies to all compilations in the process.
        registers: largest number of vector registers that a micro tile uses, 0 for all registers:
            fewer registers shorten compilation and lengthen run time.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    option: str = ""
    registers: int = 0

    def has_feature(self, name: str) -> bool:
        """Return whether code for this machine may use the LLVM feature ``name``.

        The feature is permitted if the text ``features`` contains ``+name``.
        """
        return f"+{name}" in self.features.split(",")

    @property
    def has_half_conversions(self) -> bool:
        """Whether the processor has instructions that convert between f16 and f32."""
        return not self.triple.startswith("x86_64") or self.has_feature("f16c")

    @property
    def byte_products(self) -> str:
        """The name of the instruction that sums integer products in an i32; "" if there is none.

        The instruction is ``vpdpbusd`` (four products of bytes) or ``pmaddwd`` (two products of
        16-bit integers).
        """
        if not self.triple.startswith("x86_64"):
            return ""
        wide = self.has_feature("avx512vnni") and self.has_feature("avx512vl")
        if wide or (self.has_feature("avxvnni") and self.vector_bits < 512):
            return VNNI
        return MULTIPLY_WORDS

    def create_target_machine(self) -> llvm.TargetMachine:
        """Return LLVM's target machine for position-independent code.

        Raises ``TargetError`` if this LLVM has no code generator for the triple.
        """
        initialize_llvm()
        with LLVM_LOCK:
            if self.option and self.option not in _options:
                _options.add(self.option)  # LLVM aborts the process if an option is set twice
                llvm.set_option("rammer", self.option)
            try:
                target = llvm.Target.from_triple(self.triple)
            except RuntimeError as error:
                raise TargetError(
                    f"target '{self.triple}': expected a target that LLVM "
                    f"{'.'.join(map(str, llvm.llvm_version_info))} generates code for, "
                    f"found none ({error}); choose another target"
                ) from error
            return target.create_target_machine(
                cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="small"
            )


def vector_bits_of(triple: str, features: dict[str, bool]) -> int:
    """Return the width in bits of the vector registers that rKernels use on a processor.

    ``triple`` and ``features`` are LLVM's description of the processor. On x86-64 the width is 512
    with AVX-512 (F, VL and BW) and 256 with AVX2 and FMA; in all other cases 128.
    """
    if not triple.startswith("x86_64"):
        return 128
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512bw"):
        return 512
    return 256 if features.get("avx2") and features.get("fma") else 128


def host_machine() -> Machine:
    """Return the description of the processor that this process runs on."""
    initialize_llvm()
    with LLVM_LOCK:
        triple = llvm.get_process_triple()
        features = dict(llvm.get_host_cpu_features())
        cpu = llvm.get_host_cpu_name()
    bits = vector_bits_of(triple, features)
    if bits == 512:
        # Kernels state their vector width; LLVM must not split vectors for the sake of the clock.
        features["prefer-256-bit"] = False
    flags = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return Machine(triple, cpu, flags, bits)
