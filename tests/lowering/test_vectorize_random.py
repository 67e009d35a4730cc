"""Tests that random ``linalg.generic`` operations give NumPy's results.

The operations are vectorized and compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import compile_kernel
from random_generics import RandomGeneric

from rammer_mlir.lowering.llvm.machine import Machine, host_machine

_TOLERANCE = {"f64": 1e-12, "f32": 1e-4, "f16": 0.1}


def _check(seed: int, dynamic: bool, machine: Machine) -> None:
    case = RandomGeneric(seed, dynamic)
    data = case.random_data()
    before = [array.copy() for array in data]
    expected = case.expected(data)
    source = case.source()
    compile_kernel(source, machine=machine)(case.rtask, *data)
    for array, old in zip(data[:-1], before[:-1], strict=True):
        np.testing.assert_array_equal(array, old, err_msg=f"an input changed:\n{source}")
    untouched = expected == before[-1]
    np.testing.assert_array_equal(data[-1][untouched], before[-1][untouched], err_msg=source)
    if case.is_float:
        error = np.abs(data[-1].astype(np.float64) - expected)
        scale = np.maximum(1.0, np.abs(expected).max())
        assert error.max() <= _TOLERANCE[case.element] * scale, source
    else:
        np.testing.assert_array_equal(data[-1], expected, err_msg=source)


def _narrower(bits: int) -> Machine:
    """Describe this processor with vector registers of ``bits`` bits.

    The test is skipped if the processor does not have registers of this width.
    """
    host = host_machine()
    if host.vector_bits < bits:
        pytest.skip(f"needs registers of {bits} bits, this processor has {host.vector_bits}")
    if bits == host.vector_bits:
        return host
    cpu, features = ("haswell", "+avx2,+fma,+f16c") if bits == 256 else ("x86-64", "")
    if not host.triple.startswith("x86_64"):
        pytest.skip(f"no {bits}-bit variant of {host.triple}")
    return Machine(host.triple, cpu, features, bits)


@pytest.mark.parametrize("seed", range(60))
def test_static_sizes(seed: int) -> None:
    _check(seed, dynamic=False, machine=host_machine())


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_sizes_known_at_run_time(seed: int) -> None:
    _check(seed, dynamic=True, machine=host_machine())


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("seed", range(2000, 2020))
def test_other_register_widths(seed: int, bits: int) -> None:
    _check(seed, dynamic=seed % 2 == 0, machine=_narrower(bits))
