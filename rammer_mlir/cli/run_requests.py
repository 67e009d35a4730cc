"""Compiles the model of ``rammer-run``, or recognizes it as an artifact."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rammer_mlir.cli.common import is_stream
from rammer_mlir.cli.model_options import (
    given_model,
    given_options,
    parse_dims,
    parse_shapes,
    single_sizes,
)
from rammer_mlir.cli.open_models import require_sizes
from rammer_mlir.errors import OptionError
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.options import DEFAULT_TARGET, Options
from rammer_mlir.programs.dimensions import COMMAND_LINE
from rammer_mlir.runtime.compiled import RunnableModel

if TYPE_CHECKING:
    from rammer_mlir.compiler.models import Request
    from rammer_mlir.compiler.options import CheckedOptions

_ZIP = b"PK"


def _checked(options: argparse.Namespace, given: Options | None) -> CheckedOptions:
    from rammer_mlir.compiler.options import check_options

    given = given_options(options) if given is None else given
    checked = check_options(options.target or DEFAULT_TARGET, **given)
    return checked.emulated(checked=options.check) if options.emulate else checked


def request_of(options: argparse.Namespace, given: Options | None = None) -> Request:
    """Return the compile request that the command line describes.

    ``given`` replaces the compile options of the command line; None keeps the command line's
    options.

    Raises:
        OptionError: if an option is unknown or has an invalid value.
    """
    from rammer_mlir.compiler.models import Request

    shapes, dims = parse_shapes(options.shape), parse_dims(options.dim)
    return Request(
        given_model(options), _checked(options, given), shapes,
        single_sizes(dims, "for a run"), options.device,
        cached=options.cache, wording=COMMAND_LINE,
    )  # fmt: skip


def compile_model(options: argparse.Namespace, given: Options) -> RunnableModel:
    """Compile the model of the command line with the compile options ``given``; return the result.

    Raises:
        RammerError: if the model cannot be compiled; or if an open dimension has no size although
            the inputs are random.
    """
    from rammer_mlir.compiler.models import compile_any

    found = compile_any(request_of(options, given))
    if isinstance(found, OpenModel) and options.inputs is None:
        require_sizes(found)
    return found


def names_artifact(options: argparse.Namespace) -> bool:
    """Whether the command line names an artifact: a ZIP file, or a file with suffix ``.rammer``.

    Standard input and pipes are never artifacts, because artifacts are mapped from their files.

    Raises:
        OptionError: if the file cannot be read.
    """
    if is_stream(options.model):
        return False
    path = Path(options.model)
    try:
        with path.open("rb") as file:
            return file.read(2) == _ZIP or path.suffix == ".rammer"
    except OSError as error:
        raise OptionError(f"cannot read '{path}': {error.strerror or error}") from error
