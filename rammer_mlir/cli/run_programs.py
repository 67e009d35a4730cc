"""Prepares the program of ``rammer-run`` and its inputs, records runs, and explains their time."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.cli.model_options import given_options, parse_dims, parse_shapes, single_sizes
from rammer_mlir.cli.open_models import given_inputs, static_signature
from rammer_mlir.cli.run_checks import parse_cores
from rammer_mlir.cli.run_requests import compile_model, names_artifact, request_of
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.tree import ComposedModel
from rammer_mlir.options import with_defaults
from rammer_mlir.runtime.compiled import CompiledModel, RunnableModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.feeds import random_feeds
from rammer_mlir.timeline.spans import Timeline

Arrays = Mapping[str, NDArray[np.generic]]

RECORDED_RUNS = 5
"""Number of recorded runs; the median run is shown, since a single run may be interrupted."""


def median_run(executable: Executable, feeds: Arrays, title: str) -> Timeline:
    """Run a program ``RECORDED_RUNS`` times; return the timeline of the run of median duration.

    ``feeds`` are the inputs by name, ``title`` is the title of the timeline.
    """
    runs = [executable.record(feeds, title) for _ in range(RECORDED_RUNS)]
    return sorted(runs, key=lambda run: run.seconds)[RECORDED_RUNS // 2]


@contextmanager
def runnable_program(
    options: argparse.Namespace, model: RunnableModel, inputs: Arrays | None
) -> Generator[tuple[RunnableModel, Arrays]]:
    """Yield the program to run, and its inputs, which are random if ``inputs`` is None.

    For a model with open dimensions, the program is the specialization for the inputs' shapes.
    """
    if inputs is not None:
        feeds: Arrays = given_inputs(model.signature.inputs, inputs)
    elif isinstance(model, ComposedModel):
        dims = single_sizes(parse_dims(options.dim), "for random inputs")
        feeds = random_feeds(
            static_signature(model, dims, parse_shapes(options.shape)), options.seed
        )
    else:
        assert isinstance(model, CompiledModel), "there is no other kind"
        feeds = random_feeds(model.signature, options.seed)
    if not isinstance(model, OpenModel):
        yield model, feeds
        return
    with model.specialization(feeds) as executable:
        yield executable, feeds


def make_ready(options: argparse.Namespace, executable: RunnableModel) -> None:
    """Give a program the threads and cores of ``--threads`` and ``--pin``.

    Raises:
        OptionError: if the options are invalid, or do not apply to the program.
    """
    if options.threads is not None:
        executable.use_threads(options.threads)
    if options.pin:
        executable.pin(parse_cores(options.pin))


def record(
    options: argparse.Namespace,
    executable: RunnableModel,
    feeds: Arrays,
    compared: Sequence[str],
) -> list[Timeline]:
    """Return timelines of recorded runs: a run of ``executable``, and a run with each other policy.

    ``compared`` has the names of the other policies. For each of them, the model of the command
    line is compiled again. ``feeds`` are the inputs by name.
    """
    assert isinstance(executable, Executable), "other targets were refused"
    words = f"measured with {executable.num_veus} vEUs"
    defaults = with_defaults(given_options(options))
    name = Path(options.model).name if names_artifact(options) else defaults["policy"]
    timelines = [median_run(executable, feeds, f"{name}, {words}")]
    for policy in compared:
        with (
            compile_model(options, {**given_options(options), "policy": policy}) as model,
            runnable_program(options, model, feeds) as (other, _),
        ):
            assert isinstance(other, Executable)
            make_ready(options, other)
            other.run(feeds)
            timelines.append(median_run(other, feeds, f"{policy}, {words}"))
    return timelines


def explained(options: argparse.Namespace, executable: RunnableModel, feeds: Arrays) -> str:
    """Return the text of ``--explain``, which explains the run time of the program.

    The text explains a recorded run on a CPU, or a simulated run if the target is a GPU or
    emulated. ``feeds`` are the inputs by name; their shapes select the program.
    """
    shapes = {name: array.shape for name, array in feeds.items()}
    compilation = replace(request_of(options), shapes=shapes, dims={}).compilation()
    measured = None
    if isinstance(executable, Executable) and not isinstance(executable, EmulatedExecutable):
        name = with_defaults(given_options(options))["policy"]
        title = f"{name}, measured with {executable.num_veus} vEUs"
        measured = median_run(executable, feeds, title)
    return compilation.explain(measured).text()
