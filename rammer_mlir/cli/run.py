"""``rammer-run``: runs a model or an artifact on arrays from a file, or on random arrays."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
    parse_compared,
    parse_dims,
    parse_shapes,
    single_sizes,
)
from rammer_mlir.cli.open_models import (
    chosen_entry,
    described,
    refuse_weights,
    static_signature,
    with_narrow_floats,
)
from rammer_mlir.cli.run_requests import compile_model, is_artifact, request_of
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.errors import OptionError
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.tree import ComposedModel
from rammer_mlir.options import (
    declared_options,
    with_defaults,
)
from rammer_mlir.runtime.compiled import CompiledModel, RunnableModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.feeds import check_inputs, random_feeds
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.support.atomic_file import check_writable
from rammer_mlir.support.log import logged_seconds, shown_on_stderr
from rammer_mlir.support.plugins import load_plugins
from rammer_mlir.timeline.files import write_timelines
from rammer_mlir.timeline.spans import Timeline

if TYPE_CHECKING:
    pass

Arrays = Mapping[str, NDArray[np.generic]]

_ZIP = b"PK"

RECORDED_RUNS = 5
"""Number of recorded runs, of which the median run is explained."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_tool(lambda: _run(arguments), debug="--debug" in arguments)


def run_parser() -> ArgumentParser:
    """Return the parser of all options."""
    parser = ArgumentParser(prog="rammer-run", description="Run a model, a module or an artifact.")
    parser.add_argument("model", metavar="MODEL.onnx|MODULE.mlir|MODEL.rammer")
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
        help="print an artifact's target, inputs, outputs and specialisations, and run nothing",
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
    if options.verify_signature is not None and not is_artifact(Path(options.model)):
        raise OptionError(
            f"--verify-signature: expected an artifact, found '{options.model}'; compile the model "
            "with --sign first"
        )
    if options.verify:
        if options.verify_signature is not None:
            _load(options).close()
        print(verify(options.model))
        return 0
    if options.info or options.modules:
        print(_described(options))
        return 0
    if options.repeat < 1:
        raise OptionError(f"--repeat: expected at least 1, found {options.repeat}")
    if options.seed < 0:
        raise OptionError(f"--seed: expected at least 0, found {options.seed}")
    compared = _check_compared(options)
    _check_explained(options)
    if options.emulate:
        _check_timeline(options, "an emulated GPU")
    for name in filter(None, (options.outputs, options.timeline)):
        check_writable(Path(name))
    inputs = read_arrays(options.inputs) if options.inputs else None
    with (
        _open_model(options) as opened,
        nullcontext(chosen_entry(options, opened)) as model,
        _program(options, model, inputs) as (executable, feeds),
    ):
        _check_runs_there(options, executable)
        _make_ready(options, executable, feeds)
        outputs = _time_runs(executable, feeds, options.repeat)
        explanation = _explained(options, executable, feeds) if options.explain else ""
        if options.timeline:
            timelines = _record(options, executable, feeds, compared)
            write_timelines(options.timeline, timelines, explanation)
        if explanation:
            print(explanation)
        if options.outputs:
            write_arrays(Path(options.outputs), outputs)
    return 0


def _explained(options: argparse.Namespace, executable: RunnableModel, feeds: Arrays) -> str:
    """Explain a recorded run, or a predicted run if the target's vEUs record no times."""
    shapes = {name: array.shape for name, array in feeds.items()}
    compilation = replace(request_of(options), shapes=shapes, dims={}).compilation()
    measured = None
    if isinstance(executable, Executable) and not isinstance(executable, EmulatedExecutable):
        name = with_defaults(given_options(options))["policy"]
        title = f"{name}, measured with {executable.num_veus} vEUs"
        runs = [executable.record(feeds, title) for _ in range(RECORDED_RUNS)]
        measured = sorted(runs, key=lambda run: run.seconds)[RECORDED_RUNS // 2]
    return compilation.explain(measured).text()


def _make_ready(options: argparse.Namespace, executable: RunnableModel, feeds: Arrays) -> None:
    if options.pin and isinstance(executable, Executable):
        executable.pin(_cores(options.pin))
    if isinstance(executable, CompiledModel):
        check_inputs(executable.signature, feeds)


def _described(options: argparse.Namespace) -> str:
    if not is_artifact(Path(options.model)):
        raise OptionError(
            f"{'--info' if options.info else '--modules'}: expected an artifact, found "
            f"'{options.model}'; compile the model first"
        )
    with _load(options) as model:
        texts = [described(model)] if options.info else []
        return "\n".join(
            [*texts, *([listed_modules(model, options.model)] if options.modules else [])]
        )


def _load(options: argparse.Namespace) -> RunnableModel:
    return rammer_mlir.load(options.model, options.device, verify=options.verify_signature)


@contextmanager
def _program(
    options: argparse.Namespace, model: RunnableModel, inputs: Arrays | None
) -> Generator[tuple[RunnableModel, Arrays]]:
    """Yield the model to run and its arrays: those given, which select shapes, or random arrays."""
    if inputs is not None:
        feeds: Arrays = with_narrow_floats(model.signature.inputs, inputs)
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


def _check_runs_there(options: argparse.Namespace, executable: RunnableModel) -> None:
    """Refuse options that do not apply to the target, before anything runs."""
    on_host = executable.target.startswith("cpu")
    if options.device < 0:
        raise OptionError(f"--device: expected at least 0, found {options.device}")
    if options.device and on_host:
        raise OptionError("--device: expected a GPU as target, found the CPU; leave it out")
    if isinstance(executable, HostedModel):
        for name in ("timeline", "explain", "pin"):
            if getattr(options, name):
                raise OptionError(
                    f"--{name}: expected one program, found a model that the host runs in parts, "
                    "because data decides what runs, or how large it is; leave it out"
                )
    if not on_host:
        _check_timeline(options, executable.target)
        if options.pin:
            raise OptionError(f"--pin: expected the target cpu, found {executable.target}; omit it")


def _cores(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError(
            f"--pin: expected numbers of cores, as 0,1, found '{text}'; give one for each vEU"
        ) from error


def _check_timeline(options: argparse.Namespace, found: str) -> None:
    if options.timeline:
        raise OptionError(
            f"--timeline: expected the target cpu, whose vEUs record times, found "
            f"{found}; leave it out"
        )


def _open_model(options: argparse.Namespace) -> RunnableModel:
    shapes = parse_shapes(options.shape)
    if options.check and not options.emulate:
        raise OptionError("--check: expected --emulate with it, found none; give both")
    if options.emulate:
        _check_emulated(options)
    elif is_artifact(Path(options.model)):
        with logged_seconds(f"load of '{options.model}'"):
            executable = _load(options)
        _check_compiled_so(executable, options, shapes)
        return executable
    return compile_model(options, given_options(options))


def _check_compared(options: argparse.Namespace) -> list[str]:
    compared = parse_compared(options)
    if compared and is_artifact(Path(options.model)):
        raise OptionError(
            f"--compare: expected an ONNX model, but '{options.model}' holds a finished schedule; "
            "give the model that it was compiled from"
        )
    for name in compared:
        get_policy(name)
    return compared


def _check_explained(options: argparse.Namespace) -> None:
    if options.explain and is_artifact(Path(options.model)):
        raise OptionError(
            f"--explain: expected a model, but '{options.model}' holds a finished schedule; give "
            "the model that it was compiled from"
        )


def _record(
    options: argparse.Namespace,
    executable: RunnableModel,
    feeds: Arrays,
    compared: Sequence[str],
) -> list[Timeline]:
    """Record a warm run of the model, then of each policy to compare."""
    assert isinstance(executable, Executable), "other targets were refused"
    words = f"measured with {executable.num_veus} vEUs"
    path = Path(options.model)
    name = path.name if is_artifact(path) else with_defaults(given_options(options))["policy"]
    timelines = [executable.record(feeds, f"{name}, {words}")]
    for policy in compared:
        with (
            compile_model(options, {**given_options(options), "policy": policy}) as model,
            _program(options, model, feeds) as (other, _),
        ):
            assert isinstance(other, Executable)
            other.run(feeds)
            timelines.append(other.record(feeds, f"{policy}, {words}"))
    return timelines


def _check_emulated(options: argparse.Namespace) -> None:
    if is_artifact(Path(options.model)):
        raise OptionError(
            f"--emulate: expected an ONNX model, found the artifact '{options.model}'; give the "
            "model that it was compiled from"
        )


def _check_compiled_so(
    executable: RunnableModel,
    options: argparse.Namespace,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Refuse options that differ from those that an artifact was compiled with."""
    for declared in declared_options():
        # ``--veus`` is compared with the artifact's own number below.
        if declared.name == "num_veus" or getattr(options, declared.name) is None:
            continue
        raise OptionError(
            f"{declared.flag}: expected an ONNX model, but '{options.model}' holds a finished "
            "schedule; leave the option out, or compile the ONNX model again"
        )
    refuse_weights(options)
    if options.dim and not isinstance(executable, OpenModel):
        raise OptionError(
            f"--dim: expected a model with open dimensions, but '{options.model}' is compiled for "
            "static shapes; leave the option out, or compile the ONNX model again"
        )
    has: dict[str, object] = {spec.name: spec.shape for spec in executable.signature.inputs}
    wanted: list[tuple[str, object, object]] = []
    if options.target is not None:
        wanted.append(("--target", options.target, executable.target))
    if options.num_veus is not None:
        wanted.append(("--veus", options.num_veus, executable.num_veus))
    for name, shape in shapes.items():
        if name not in has:
            known = ", ".join(f"'{known}'" for known in has) or "none"
            raise OptionError(f"--shape {name}: expected one of the inputs, {known}")
        if not isinstance(executable, OpenModel):  # shapes select its program instead
            wanted.append((f"--shape {name}", shape, has[name]))
    for option, value, found in wanted:
        if value != found:
            raise OptionError(
                f"{option}: expected {value}, but '{options.model}' is compiled for {found}; leave "
                "the option out, or compile the ONNX model again"
            )


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
