"""``rammer-run``: runs a model or an artifact on arrays from a file, or on random arrays."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.cli.arrays import each_array, read_arrays, write_arrays
from rammer_mlir.cli.common import ArgumentParser, run_tool
from rammer_mlir.cli.foreign_code import listed_modules
from rammer_mlir.cli.model_options import (
    add_model_options,
    add_timeline_options,
    given_options,
    parse_shapes,
)
from rammer_mlir.cli.open_models import (
    chosen_entry,
    described,
)
from rammer_mlir.cli.run_checks import (
    check_artifact_options,
    check_compared,
    check_described,
    check_emulated,
    check_explained,
    check_runs_there,
    check_timeline,
    output_files,
)
from rammer_mlir.cli.run_programs import explained, make_ready, record, runnable_program
from rammer_mlir.cli.run_requests import compile_model, names_artifact
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.errors import OptionError
from rammer_mlir.hosted_models import loading
from rammer_mlir.runtime.compiled import CompiledModel, RunnableModel
from rammer_mlir.runtime.feeds import check_inputs
from rammer_mlir.support.atomic_file import check_writable
from rammer_mlir.support.log import logged_seconds, shown_on_stderr
from rammer_mlir.support.plugins import load_plugins
from rammer_mlir.timeline.files import write_timelines

Arrays = Mapping[str, NDArray[np.generic]]

_ZIP = b"PK"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_tool(lambda: _run(arguments), debug="--debug" in arguments)


def run_parser() -> ArgumentParser:
    """Return the parser of all options of ``rammer-run``."""
    parser = ArgumentParser(prog="rammer-run", description="Run a model, a module or an artifact.")
    parser.add_argument(
        "model",
        metavar="MODEL.onnx|MODULE.mlir|MODEL.rammer",
        help="a file; - for a model or module from standard input",
    )
    add_model_options(parser)
    parser.add_argument("--inputs", metavar="IN.npz", help="arrays by input name")
    parser.add_argument("--outputs", metavar="OUT.npz", help="file for the arrays by output name")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs to time")
    add_timeline_options(parser, "a recorded run")
    parser.add_argument(
        "--emulate", action="store_true", help="execute the GPU target's kernel on this processor"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="with --emulate: find overruns, unwritten memory, data races",
    )
    parser.add_argument(
        "--device", type=int, default=0, metavar="N", help="number of the GPU to run on"
    )
    parser.add_argument(
        "--pin",
        metavar="CORE,...",
        help="bind each thread to a core, one for each vEU; they may share one",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads that run the vEUs, one for each by default; any thread runs any vEU",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random inputs")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="prove an artifact's schedule from the file alone, and run nothing",
    )
    parser.add_argument(
        "--verify-signature",
        metavar="KEYFILE",
        help="load an artifact only if the owner of this public key signed it (Ed25519, PEM)",
    )
    parser.add_argument(
        "--info",
        action="store_true",
        help="print an artifact's target, inputs, outputs and specializations, and run nothing",
    )
    parser.add_argument(
        "--modules",
        action="store_true",
        help="print an artifact's foreign code and its share of the program, and run nothing",
    )
    return parser


def _run(arguments: Sequence[str]) -> int:
    options = run_parser().parse_args(arguments)
    explain_cache: bool = options.explain_cache
    with shown_on_stderr(options.verbose, quiet=options.quiet, explain_cache=explain_cache):
        return _run_model(options)


def _run_model(options: argparse.Namespace) -> int:
    load_plugins(options.plugin)
    if options.verify_signature is not None and not names_artifact(options):
        raise OptionError(
            f"--verify-signature: expected an artifact, found '{options.model}'; compile the model "
            "with --sign first"
        )
    if not check_described(options, run_parser().parse_args(["--", options.model])):
        return _run_program(options)
    if options.verify:
        if options.verify_signature is not None:
            _load(options).close()
        print(verify(options.model))
    else:
        print(_described(options))
    return 0


def _run_program(options: argparse.Namespace) -> int:
    if options.repeat < 1:
        raise OptionError(f"--repeat: expected at least 1, found {options.repeat}")
    if options.seed < 0:
        raise OptionError(f"--seed: expected at least 0, found {options.seed}")
    compared = check_compared(options)
    check_explained(options)
    if options.emulate:
        check_timeline(options, "an emulated GPU")
    for name in output_files(options):
        check_writable(Path(name))
    inputs = read_arrays(options.inputs) if options.inputs else None
    with (
        _open_model(options) as opened,
        nullcontext(chosen_entry(options, opened)) as model,
        runnable_program(options, model, inputs) as (executable, feeds),
    ):
        check_runs_there(options, executable)
        make_ready(options, executable)
        if isinstance(executable, CompiledModel):
            check_inputs(executable.signature, feeds)
        outputs = _time_runs(executable, feeds, options.repeat)
        explanation = explained(options, executable, feeds) if options.explain else ""
        if options.timeline:
            timelines = record(options, executable, feeds, compared)
            write_timelines(options.timeline, timelines, explanation)
        if explanation:
            print(explanation)
        if options.outputs:
            write_arrays(Path(options.outputs), outputs)
    return 0


def _described(options: argparse.Namespace) -> str:
    if not names_artifact(options):
        raise OptionError(
            f"{'--info' if options.info else '--modules'}: expected an artifact, found "
            f"'{options.model}'; compile the model first"
        )
    # An artifact can also be described where a package that its program needs is missing.
    with loading.load(
        options.model, options.device, verify=options.verify_signature, runs=False
    ) as model:
        texts = [described(model)] if options.info else []
        return "\n".join([*texts, *([listed_modules(model)] if options.modules else [])])


def _load(options: argparse.Namespace) -> RunnableModel:
    return rammer_mlir.load(options.model, options.device, verify=options.verify_signature)


def _open_model(options: argparse.Namespace) -> RunnableModel:
    shapes = parse_shapes(options.shape)
    if options.check and not options.emulate:
        raise OptionError("--check: expected --emulate with it, found none; give both")
    if options.emulate:
        check_emulated(options)
    elif names_artifact(options):
        with logged_seconds(f"load of '{options.model}'"):
            executable = _load(options)
        check_artifact_options(executable, options, shapes)
        return executable
    return compile_model(options, given_options(options))


def _time_runs(executable: RunnableModel, feeds: Arrays, repeat: int) -> Arrays:
    outputs = executable.run(feeds)
    seconds: list[float] = []
    for _ in range(repeat):
        begin = time.perf_counter()
        outputs = executable.run(feeds)
        seconds.append(time.perf_counter() - begin)
    print(executable.summary)
    for name, array in each_array(outputs):
        print(f"output '{name}'  {'x'.join(map(str, array.shape)) or 'scalar'} {array.dtype}")
    median, low, high = statistics.median(seconds), min(seconds), max(seconds)
    # Emulated times say nothing about a GPU.
    label = "emulation" if isinstance(executable, EmulatedExecutable) else "latency"
    print(
        f"{label:<16} {median * 1e3:.3f} ms median of {repeat} "
        f"(from {low * 1e3:.3f} to {high * 1e3:.3f} ms)"
    )
    return dict(each_array(outputs))


if __name__ == "__main__":
    sys.exit(main())
