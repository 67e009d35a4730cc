"""Checks that the options of ``rammer-run`` apply to the model or artifact, and to its target."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from rammer_mlir.cli.model_options import parse_compared
from rammer_mlir.cli.open_models import chosen_entry, refuse_weights
from rammer_mlir.cli.run_requests import names_artifact
from rammer_mlir.errors import OptionError
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.options import declared_options
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.support.paths import is_same_file

_WITHOUT_RUN = ("verify", "info", "modules")
"""Options that describe or check an artifact, and run nothing, by their names in the namespace."""

_ALSO_WITHOUT_RUN = (
    "model", "device", "verify_signature", "plugin", "verbose", "quiet", "debug",
)  # fmt: skip
"""Options that apply without a run too."""


def check_described(options: argparse.Namespace, defaults: argparse.Namespace) -> bool:
    """Whether the command describes or checks an artifact, and runs nothing.

    ``defaults`` has the values of options that are not given.

    Raises:
        OptionError: if the command runs nothing, and an option for runs is given; or if
            ``--verify`` is given together with ``--info`` or ``--modules``.
    """
    chosen = [name for name in _WITHOUT_RUN if getattr(options, name)]
    if not chosen:
        return False
    together = ("verify",) if options.verify else ("info", "modules")
    flags = {declared.name: declared.flag for declared in declared_options()}
    for name, value in vars(options).items():
        if name not in (*_ALSO_WITHOUT_RUN, *together) and value != getattr(defaults, name):
            flag = "--no-cache" if name == "cache" else f"--{name.replace('_', '-')}"
            raise OptionError(
                f"{flags.get(name, flag)}: does not apply with --{chosen[0]}, which runs nothing; "
                "leave it out"
            )
    return True


def check_runs_there(options: argparse.Namespace, executable: RunnableModel) -> None:
    """Raise an error if an option for runs, such as ``--pin``, does not apply to ``executable``.

    An option may not apply because of the target, or because the host runs the model in parts.

    Raises:
        OptionError: for the first option that does not apply, or whose value is invalid.
    """
    on_host = executable.target.startswith("cpu")
    if options.device < 0:
        raise OptionError(f"--device: expected at least 0, found {options.device}")
    if options.device and on_host:
        raise OptionError("--device: expected a GPU as target, found the CPU; leave it out")
    if isinstance(executable, HostedModel):
        for name in ("timeline", "explain"):
            if _is_given(options, name):
                raise OptionError(
                    f"--{name}: expected one program, found a model that the host runs in parts, "
                    "because data decides what runs, or how large it is; leave it out"
                )
    if not on_host:
        check_timeline(options, executable.target)
        for name in ("pin", "threads"):
            if _is_given(options, name):
                raise OptionError(
                    f"--{name}: expected the target cpu, found {executable.target}; omit it"
                )


def _is_given(options: argparse.Namespace, name: str) -> bool:
    found = getattr(options, name)
    return found is not None and found is not False  # a number 0 is given too


def output_files(options: argparse.Namespace) -> list[str]:
    """Return the names of the files that a run writes: of its outputs and of its timeline.

    Raises:
        OptionError: if a file name is empty; or if two of the model, ``--inputs``, ``--outputs``
            and ``--timeline`` are the same file.
    """
    taken = [options.model]
    for name in ("inputs", "outputs", "timeline"):
        file: str | None = getattr(options, name)
        if file is None:
            continue
        if not file:
            raise OptionError(f"--{name}: expected the name of a file, found ''")
        if any(is_same_file(file, other) for other in taken):
            raise OptionError(
                f"--{name}: '{file}' is a file that the command uses already; choose another name"
            )
        taken.append(file)
    return [file for file in (options.outputs, options.timeline) if file is not None]


def parse_cores(text: str) -> list[int]:
    """Return the indices of the cores given to ``--pin``, such as [0, 1] for ``0,1``.

    Raises:
        OptionError: if the text is not a list of integers separated by commas.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError(
            f"--pin: expected numbers of cores, as 0,1, found '{text}'; give one for each vEU"
        ) from error


def check_timeline(options: argparse.Namespace, found: str) -> None:
    """Refuse ``--timeline`` because the target ``found`` is not a CPU: its vEUs record no times.

    Raises:
        OptionError: if ``--timeline`` is given.
    """
    if options.timeline:
        raise OptionError(
            f"--timeline: expected the target cpu, whose vEUs record times, found "
            f"{found}; leave it out"
        )


def check_compared(options: argparse.Namespace) -> list[str]:
    """Return the policies given to ``--compare``; empty without the option.

    Raises:
        OptionError: if a policy is unknown, ``--timeline`` is missing, or the model is an artifact,
            whose schedule is fixed.
    """
    compared = parse_compared(options)
    if compared and names_artifact(options):
        raise OptionError(
            f"--compare: expected an ONNX model, but '{options.model}' holds a finished schedule; "
            "give the model that it was compiled from"
        )
    for name in compared:
        get_policy(name)
    return compared


def check_explained(options: argparse.Namespace) -> None:
    """Refuse ``--explain`` for an artifact, whose schedule is fixed.

    Raises:
        OptionError: if the option is given and the model is an artifact.
    """
    if options.explain and names_artifact(options):
        raise OptionError(
            f"--explain: expected a model, but '{options.model}' holds a finished schedule; give "
            "the model that it was compiled from"
        )


def check_emulated(options: argparse.Namespace) -> None:
    """Refuse ``--emulate`` for an artifact: it has GPU binaries, but the emulator compiles IR.

    Raises:
        OptionError: if the model is an artifact.
    """
    if names_artifact(options):
        raise OptionError(
            f"--emulate: expected an ONNX model, found the artifact '{options.model}'; give the "
            "model that it was compiled from"
        )


def check_artifact_options(
    executable: RunnableModel,
    options: argparse.Namespace,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Check that options do not contradict an artifact, which is already compiled.

    Raises:
        OptionError: for any option that controls compilation or gives weights; for a target, number
            of vEUs, input shape or dimension size for which the artifact was not compiled; and if
            ``--entry`` does not name one of the artifact's functions.
    """
    executable = chosen_entry(options, executable)
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
