"""Tests that whole models give ONNX Runtime's outputs, by two policies and on 1 to many vEUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.models import MODELS, Scale, build
from rammer_mlir.support.aligned import ALIGNMENT
from tests.models.variants import Array, Variants

POLICIES = ("wavefront", "sequential")
NUM_VEUS = (1, 2, 3, 8)

FULL_SIZE = ("alexnet", "light_squeezenet")
"""Models that run at full size by default; ``make test-slow`` runs the other models."""

Results = list[tuple[str, dict[str, Array]]]


LARGE_NETWORKS = (
    "inception_v3",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "nasnet_a_6_4032",
    "randwire",
    "resnet50",
    "light_resnet50",
    "darknet53",
)
"""Models of many operators: small ones are compiled for only two numbers of vEUs by default."""


def check(name: str, scale: Scale, numbers_of_veus: Sequence[int] = NUM_VEUS) -> None:
    """Compare schedules of a model with ONNX Runtime, and with each other.

    Two runs of a schedule, and all schedules with the same rKernels, must give equal bits. The
    arena of a sequential schedule must be close to its lower bound.
    """
    variants = Variants(build(name, scale=scale))
    same_kernels: defaultdict[tuple[str, ...], Results] = defaultdict(list)
    for policy in POLICIES:
        for num_veus in numbers_of_veus:
            variant = variants.schedule(policy, num_veus)
            with variant.executable as executable:
                outputs = executable.run(variants.feeds)
                again = executable.run(variants.feeds)
            where = f"{policy}, {num_veus} vEUs"
            comparison = compare(variants.expected, outputs)
            assert comparison.ok, f"{where}: {comparison}"
            assert_equal(outputs, again, f"{where}, run twice")
            if policy == "sequential":  # the order that the lower bound is one of
                memory = variant.memory
                # Small models' arenas are a dozen cache lines: one may be lost to their packing.
                most = 1.1 * memory.live_bytes + ALIGNMENT
                assert memory.live_bytes <= memory.arena_bytes <= most, where
            same_kernels[variant.kernels].append((where, outputs))
    for (first, expected), *others in same_kernels.values():
        for other, found in others:
            assert_equal(expected, found, f"{first} and {other}")


def assert_equal(a: dict[str, Array], b: dict[str, Array], where: str) -> None:
    """Require that two runs' outputs are equal bit by bit; ``where`` names the runs in messages."""
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), f"{where}: '{name}' differs"


@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str) -> None:
    """Small variants of all models, with fewer layers and channels, give ONNX Runtime's outputs."""
    check(name, "small", (1, 3) if name in LARGE_NETWORKS else NUM_VEUS)


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_models(name: str) -> None:
    """Two models of full size give ONNX Runtime's outputs; a slow test has the other models."""
    check(name, "full")


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE_NETWORKS)
def test_small_models_on_all_numbers_of_veus(name: str) -> None:
    """Small networks of many operators give ONNX Runtime's outputs with all numbers of vEUs."""
    check(name, "small")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in FULL_SIZE])
def test_all_full_size_models(name: str) -> None:
    """The models at full size that ``test_full_size_models`` omits give ONNX Runtime's outputs."""
    check(name, "full")
