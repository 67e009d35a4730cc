"""Measure the latency of networks quantized to 8-bit integers: ``--parts quantized``.

ONNX Runtime's tools quantize each network statically: activations to u8, and weights to i8 with a
scale per channel. In the quantized model, a DequantizeLinear precedes and a QuantizeLinear follows
each operator.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import version_converter

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contender_process import Feeds, outputs, turn
from rammer_mlir.benchmarks.contenders.ours import Ours
from rammer_mlir.benchmarks.contenders.protocol import Open, required
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender, open_rivals
from rammer_mlir.benchmarks.lanes import Entrant, gaps, open_lanes
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale, build, random_feeds
from rammer_mlir.benchmarks.timing import Latency, take_turns
from rammer_mlir.errors import RammerError

QUANTIZED_MODELS = (
    "light_squeezenet", "light_shufflenet", "light_resnet50", "mobilenet_v2", "inception_v3",
    "transformer_4_layers",
)  # fmt: skip
"""Models measured if none is named."""

OURS, FLOATS = "ours", "ours, f32"

QUANTIZED = (
    "Networks of 8-bit integers: median ms [quartiles], signal to noise against the network of "
    "f32 in dB; best: the least median of the others over ours; f32: our median of the network of "
    "f32 over that of 8 bits"
)

_SAMPLES = 2
"""Number of random inputs that the activations' scales are calibrated on."""

_LEAST_OPSET = 13
"""The oldest opset whose QuantizeLinear has a scale per channel."""


@dataclass(frozen=True)
class QuantizedRequest:
    """A model to quantize and measure, and the settings of its measurement.

    Attributes:
        model: name of a benchmark model.
        scale: "full", or "small" for a model of reduced sizes.
        threads: number of threads of each contender, and of vEUs of this compiler's program.
        budget: seconds of timing.
        patience: seconds within which contenders must be ready to run, except this compiler and the
            reference.
        timeout: seconds within which this compiler and the reference (ONNX Runtime) must be ready
            to run.
    """

    model: str
    scale: Scale = "full"
    threads: int = 2
    budget: float = 3.0
    patience: float = 90.0
    timeout: float = 1200.0


@dataclass(frozen=True)
class QuantizedTiming:
    """The latency of contender ``name``, and the signal-to-noise ratio of its outputs in decibels.

    The signal is the outputs of the f32 model in ONNX Runtime.
    """

    name: str
    latency: Latency
    decibels: float


@dataclass(frozen=True)
class QuantizedResult:
    """All measurements of a quantized model.

    ``missing`` has a line for each contender without latency, with the reason; ``error`` is the
    message of an error that ended the measurement.
    """

    request: QuantizedRequest
    timings: list[QuantizedTiming] = field(default_factory=list[QuantizedTiming])
    missing: list[str] = field(default_factory=list[str])
    error: str | None = None

    def timing(self, name: str) -> QuantizedTiming | None:
        """Return the measurement of contender ``name``; None if it was not measured."""
        return next((timing for timing in self.timings if timing.name == name), None)


def quantized_openers() -> dict[str, Open]:
    """Return, for each contender by name, the function that loads a model into this contender.

    The first contender is ONNX Runtime.
    """
    ours = partial(Ours, policy="wavefront")
    return {**open_rivals(), OURS: ours, FLOATS: ours}


def measure_quantized(
    request: QuantizedRequest, opens: Mapping[str, Open] | None = None
) -> QuantizedResult:
    """Time all contenders on a quantized model, and this compiler also on the f32 model.

    A RammerError that ends the measurement is stored in the result.

    Args:
        request: the model and the settings.
        opens: for each contender by name, a function that loads a model into it; by default
            ``quantized_openers()``.
    """
    found = QuantizedResult(request)
    with tempfile.TemporaryDirectory(prefix="rammer-quantized-") as folder, ExitStack() as stack:
        written = in_child(write_models, (request, Path(folder)), request.timeout)
        if isinstance(written, Failure):
            return QuantizedResult(request, error=written.message)
        feeds, expected = written
        try:
            files = _plain(Path(folder)), _quantized(Path(folder))
            entrants = [
                Entrant(name, opener, files[name != FLOATS], request.threads)
                for name, opener in (opens or quantized_openers()).items()
            ]
            needed = (REFERENCE, OURS, FLOATS)
            lanes, missing = open_lanes(
                stack, entrants, feeds, needed, timeout=request.timeout, patience=request.patience
            )
            found.missing.extend(missing)
            noise = {n: decibels(expected, lane.call(outputs)) for n, lane in lanes.items()}
            turns = {name: partial(lane.call, turn) for name, lane in lanes.items()}
            latencies = take_turns(turns, request.budget)
        except RammerError as error:
            return QuantizedResult(request, [], found.missing, str(error))
        found.timings.extend(QuantizedTiming(n, each, noise[n]) for n, each in latencies.items())
    return found


def write_models(job: tuple[QuantizedRequest, Path]) -> tuple[Feeds, dict[str, Array]]:
    """Write an f32 model and its quantized counterpart into a folder.

    This function runs in a child process.

    Args:
        job: the request, which names the model and its scale, and the folder.

    Returns:
        Random inputs by name, and ONNX Runtime's outputs of the f32 model for these inputs.
    """
    request, folder = job
    model = build(request.model, 1, request.scale)
    if model.opset_import[0].version < _LEAST_OPSET:
        model = version_converter.convert_version(model, 17)
    plain = _plain(folder)
    plain.write_bytes(model.SerializeToString())
    feeds = random_feeds(model, seed=_SAMPLES)
    quantize(model, plain, _quantized(folder))
    return feeds, open_contender(plain, 1, REFERENCE).run(feeds)


def quantize(model: onnx.ModelProto, plain: Path, result: Path) -> None:
    """Quantize the f32 model in the file ``plain`` statically; write the result to ``result``.

    ``model`` is the content of ``plain``. Random inputs of this model calibrate the quantization
    scales.
    """
    tools: Any = required("onnxruntime.quantization")
    samples: Iterator[Feeds] = (random_feeds(model, seed=seed) for seed in range(_SAMPLES))

    class Reader(tools.CalibrationDataReader):
        def get_next(self) -> Feeds | None:
            return next(samples, None)

    logging.disable(logging.WARNING)  # each run advises to run another tool before
    tools.quantize_static(
        plain,
        result,
        Reader(),
        quant_format=tools.QuantFormat.QDQ,
        activation_type=tools.QuantType.QUInt8,
        weight_type=tools.QuantType.QInt8,
        per_channel=True,
    )
    logging.disable(logging.NOTSET)


def _plain(folder: Path) -> Path:
    return folder / "f32.onnx"


def _quantized(folder: Path) -> Path:
    return folder / "quantized.onnx"


def decibels(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """Return the signal-to-noise ratio of outputs in decibels; infinity if the outputs are equal.

    The signal is the sum of the squares of all expected elements, the noise the sum of the squares
    of the differences between found and expected elements. Both arguments map names to outputs.
    """
    signal = sum(float((value.astype(np.float64) ** 2).sum()) for value in expected.values())
    noise = sum(
        float(((found[name].astype(np.float64) - value.astype(np.float64)) ** 2).sum())
        for name, value in expected.items()
    )
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-300) / noise))


def quantized_table(results: Iterable[QuantizedResult]) -> str:
    """Return a Markdown table with a row for each model.

    A row has the latency and the signal-to-noise ratio of each contender. The last two columns are
    ratios to this compiler's latency on the quantized model: first of the fastest other contender's
    latency on the quantized model, then of this compiler's latency on the f32 model.
    """
    measured = [result for result in results if result.timings]
    names = list(dict.fromkeys(timing.name for result in measured for timing in result.timings))
    rows = [["model", "threads", *names, "best / ours", "f32 / ours"]]
    for result in measured:
        medians = {timing.name: timing.latency.median for timing in result.timings}
        best = min(value for name, value in medians.items() if name not in (OURS, FLOATS))
        rows.append([
            result.request.model, str(result.request.threads),
            *(_cell(result.timing(name)) for name in names),
            f"{best / medians[OURS]:.2f}", f"{medians[FLOATS] / medians[OURS]:.2f}",
        ])  # fmt: skip
    return table(rows)


def _cell(timing: QuantizedTiming | None) -> str:
    if timing is None:
        return "-"
    return f"{timing.latency}, {timing.decibels:.1f} dB"


def quantized_text(results: Sequence[QuantizedResult]) -> list[str]:
    """Return the section of a report about quantized networks, as a list of paragraphs.

    The paragraphs are a caption, the table of latencies, and the contenders without a latency.
    """
    return [
        QUANTIZED,
        quantized_table(results),
        *gaps((r.request.model, r.missing, r.error) for r in results),
    ]
