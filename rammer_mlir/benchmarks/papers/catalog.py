"""List all studies: experiments of the papers, and experiments of our own."""

from __future__ import annotations

from typing import Any

from rammer_mlir.benchmarks.papers import joint, policies, simulator
from rammer_mlir.benchmarks.papers.ios import batches, blocks, counts, example, pruning, strategies
from rammer_mlir.benchmarks.papers.rammer import barriers, gpu_runs, ipu, kernel_times, training
from rammer_mlir.benchmarks.papers.study import Study

STUDIES: tuple[Study[Any], ...] = (
    gpu_runs.STUDY,
    gpu_runs.BATCH_STUDY,
    gpu_runs.IMAGENET_STUDY,
    gpu_runs.MI50_STUDY,
    barriers.STUDY,
    ipu.STUDY,
    training.STUDY,
    kernel_times.STUDY,
    simulator.STUDY,
    strategies.STUDY,
    batches.BATCH_STUDY,
    batches.DEVICE_STUDY,
    pruning.STUDY,
    example.STUDY,
    blocks.STUDY,
    counts.BLOCK_STUDY,
    counts.CONVOLUTION_STUDY,
    policies.STUDY,
    joint.STUDY,
)
