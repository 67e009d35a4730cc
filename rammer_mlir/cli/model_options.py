"""Define the model options that ``rammer-compile`` and ``rammer-run`` share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from rammer_mlir.cli.common import (
    ArgumentParser,
    add_plugin_option,
    add_tool_options,
    is_stream,
    read_input,
)
from rammer_mlir.errors import OptionError
from rammer_mlir.options import (
    DEFAULT_TARGET,
    Declared,
    Options,
    declared_options,
)

if TYPE_CHECKING:
    from rammer_mlir.compiler.requests import AnySource
    from rammer_mlir.frontends.onnx.source_folders import Source


def add_model_options(parser: ArgumentParser) -> None:
    """Add the options that determine how a model is compiled, and the options of all tools.

    An option that the user does not give is None: ``rammer-run`` refuses most options that are
    given for an artifact, which is already compiled.
    """
    parser.add_argument(
        "--target",
        help="what to compile for: cpu, this machine; cpu:x86-64-v3, another one; or a GPU, "
        "nvvm:sm_90, rocdl:gfx90a "
        f"(default: {DEFAULT_TARGET})",
    )
    for declared in declared_options():
        _add(parser, declared)
    add_shape_option(parser)
    add_dim_option(parser)
    add_external_data_option(parser)
    add_module_options(parser)
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="compile anew, whatever the cache in ~/.cache/rammer-mlir holds",
    )
    parser.add_argument(
        "--explain-cache",
        action="store_true",
        help="say on standard error what each level of the cache found, and why (docs/cache.md)",
    )
    add_plugin_option(parser)
    parser.describe_names = _describe_names
    add_tool_options(parser)


def add_shape_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--shape NAME=1,3,224,224``, the shape of an input."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="shape of an input whose dimensions the model leaves open; may be repeated",
    )


def add_dim_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--dim NAME=SIZES``, the sizes of an open dimension."""
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="size of a dimension that the model leaves open, by its name, wherever that stands; "
        "rammer-compile takes several, batch=1,8 or length=16..512:16, and makes a program for "
        "each combination; may be repeated",
    )


def add_external_data_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--external-data``, the folder of an ONNX model's external data."""
    parser.add_argument(
        "--external-data",
        metavar="FOLDER",
        help="folder with files of the model's external data; others are opened beside the model "
        "only",
    )


def add_module_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for MLIR modules: ``--entry`` and ``--constants``."""
    parser.add_argument(
        "--entry", metavar="NAME", help="of a module's public functions, the one to compile or run"
    )
    parser.add_argument(
        "--constants",
        metavar="FILE.npz",
        help="of a module, values of the weights that it only names",
    )


def given_model(options: argparse.Namespace) -> AnySource:
    """Return the ONNX model or MLIR module that the command line names, or the bytes of a stream.

    A stream is a pipe, or standard input, which ``-`` names.

    The result also has the values of ``--external-data``, or of ``--entry`` and ``--constants``.

    Raises:
        ModelError: if the model or module cannot be read.
        OptionError: if an option does not apply to the model or module.
    """
    from rammer_mlir.compiler.requests import given_source

    model: str | bytes = options.model
    if is_stream(options.model):
        # A stream can be read only once, but --compare and --explain compile again.
        options.stream = getattr(options, "stream", None) or read_input(options.model)
        model = options.stream
    return given_source(model, options.external_data, options.entry, options.constants, "--")


def source_of(options: argparse.Namespace, model: str | bytes) -> Source:
    """Return an ONNX model, together with the folder of ``--external-data`` if this is given.

    ``model`` is a path or the model's bytes.

    Raises:
        OptionError: if the option does not name a folder.
    """
    if options.external_data is None:
        return model
    from rammer_mlir.frontends.onnx.source_folders import with_folder

    return with_folder(model, options.external_data, "--external-data")


def _describe_names() -> str:
    """Return a help paragraph with the names of all targets, policies and values of ``--costs``.

    The names include those of extensions from installed packages.
    """
    from rammer_mlir.compiler.backends.registry import backend_names
    from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
    from rammer_mlir.scheduling.devices.catalog import all_names
    from rammer_mlir.scheduling.policies import POLICIES

    costs = (*all_names(), *COST_FUNCTIONS.names(), "measured")
    kinds = {"targets": backend_names(), "policies": POLICIES.names(), "costs": costs}
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())


def _add(parser: ArgumentParser, declared: Declared) -> None:
    option = declared.option
    # argparse reads a per cent sign as the begin of a format.
    words = option.help.replace("%", "%%")
    if declared.kind is bool:
        change = not option.default
        words = words if change else f"do not {words}"
        parser.add_argument(
            declared.flag, dest=declared.name, action="store_const", const=change, help=words
        )
        return
    if declared.kind is Mapping:
        words = f"{words}; may be repeated"
        parser.add_argument(
            declared.flag, dest=declared.name, action="append", metavar=option.metavar, help=words
        )
        return
    shown = "" if option.default is None else f" (default: {option.default})"
    parser.add_argument(
        declared.flag,
        dest=declared.name,
        type=_num_bytes if option.is_bytes else _READERS[declared.kind],
        metavar=option.metavar or declared.name.upper(),
        help=f"{words}{shown}",
    )


def given_options(options: argparse.Namespace) -> Options:
    """Return the options that the user gave, as arguments for ``rammer_mlir.compile``.

    Raises:
        OptionError: if an option that takes ``NAME=VALUE`` has another form, or a name twice.
    """
    values = {declared.name: getattr(options, declared.name) for declared in declared_options()}
    found = {name: value for name, value in values.items() if value is not None}
    for declared in declared_options():
        if declared.kind is Mapping and declared.name in found:
            found[declared.name] = parse_pairs(
                declared.flag, declared.option.metavar, found[declared.name]
            )
    return Options(**found)


def parse_pairs(flag: str, metavar: str, given: Sequence[str]) -> dict[str, str]:
    """Return values keyed by name, from the arguments ``NAME=VALUE`` of a repeatable option.

    Args:
        flag: the option's flag, for messages.
        metavar: the form that the option expects, for messages.
        given: the arguments.

    Raises:
        OptionError: if an argument has another form, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise OptionError(f"{flag} '{text}': expected {metavar}")
        if name in found:
            raise OptionError(f"{flag} '{text}': '{name}' has a value; give it once")
        found[name] = value
    return found


def add_timeline_options(parser: ArgumentParser, what: str) -> None:
    """Add the options ``--timeline``, ``--explain`` and ``--compare``.

    ``what`` names, in the help text, the run that is shown and explained: "a recorded run" or "the
    run that the simulator predicts".
    """
    parser.add_argument(
        "--timeline",
        metavar="OUT",
        help=f"write {what}: OUT.html is a page, any other name a Chrome trace (JSON)",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help=f"print the limits of {what}, the operators that lose most, and better schedules",
    )
    parser.add_argument(
        "--compare",
        metavar="POLICY,...",
        help="with --timeline: show what these policies do, side by side",
    )


def parse_compared(options: argparse.Namespace) -> list[str]:
    """Return the policies of ``--compare A,B`` in the given order; empty without this option.

    Raises:
        OptionError: if ``--timeline``, which shows the policies, is missing.
    """
    if options.compare is None:
        return []
    if options.timeline is None:
        raise OptionError("--compare: expected --timeline with it, found none; give both")
    return [name.strip() for name in options.compare.split(",")]


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected an integer, found '{text}'") from error


_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _num_bytes(text: str) -> int:
    """Return the bytes that a text such as ``4194304``, ``4MiB`` or ``1.5 GiB`` stands for.

    Raises:
        argparse.ArgumentTypeError: if the text is not a size.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", text)
    if found is None or found[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"expected bytes as 4194304 or 4MiB, found '{text}'")
    return int(float(found[1]) * _UNITS[found[2]])


_READERS = {str: str, int: _count, float: float}


def parse_shapes(options: list[str]) -> dict[str, tuple[int, ...]]:
    """Return shapes keyed by input name, from ``NAME=1,3,224,224``; ``NAME=`` is a scalar.

    Raises:
        OptionError: if an option has another form, or a name is given twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for option in options:
        name, equals, sizes = option.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").split(",") if sizes)
        except ValueError:
            shape = None
        if not equals or not name or shape is None:
            raise OptionError(f"--shape '{option}': expected NAME=1,3,224,224")
        if name in shapes:
            raise OptionError(f"--shape '{option}': '{name}' has a shape already; give it once")
        shapes[name] = shape
    return shapes


MOST_SPECIALIZATIONS = 256
"""Largest number of size combinations per call of a tool, to detect mistakes."""

_SIZES = re.compile(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?")
"""Matches a size, or an inclusive range of sizes with an optional step."""


def parse_dims(options: list[str]) -> dict[str, tuple[int, ...]]:
    """Return the distinct sizes of each open dimension, in the given order, keyed by its name.

    The options have the form ``NAME=1,8`` or ``NAME=16..512:16``, an inclusive range with a step.

    Raises:
        OptionError: if an option has another form, a name is given twice, or there are more than
            ``MOST_SPECIALIZATIONS`` combinations of sizes.
    """
    dims: dict[str, tuple[int, ...]] = {}
    for option in options:
        name, _, text = option.rpartition("=")
        ranges = [_range(part) for part in text.split(",")]
        if not name or not all(ranges):
            raise OptionError(
                f"--dim '{option}': expected NAME=SIZES, as batch=1,8 or length=16..512:16"
            )
        if name in dims:
            raise OptionError(f"--dim '{option}': '{name}' has sizes already; give it once")
        _check_number(sum(len(each) for each in ranges))
        dims[name] = tuple(dict.fromkeys(size for each in ranges for size in each))
    _check_number(prod(map(len, dims.values())))
    return dims


def _range(text: str) -> range:
    """Return the range of sizes that a text such as ``8``, ``1..8`` or ``16..512:16`` denotes.

    The range is empty for any other text.
    """
    found = _SIZES.fullmatch(text.strip())
    if found is None or len(text) > _LONGEST_RANGE:
        return range(0)
    first, last, step = (None if part is None else int(part) for part in found.groups())
    assert first is not None
    return range(first, (first if last is None else last) + 1, step or 1) if step != 0 else range(0)


_LONGEST_RANGE = 40
"""Largest number of characters of a size or range, because sizes have fewer than 64 bits."""


def _check_number(number: int) -> None:
    if number > MOST_SPECIALIZATIONS:
        raise OptionError(
            f"--dim: expected at most {MOST_SPECIALIZATIONS} specializations, found {number}; give "
            "fewer sizes"
        )


def single_sizes(dims: Mapping[str, Sequence[int]], why: str) -> dict[str, int]:
    """Return the only size of each dimension in ``dims``.

    Raises:
        OptionError: if a dimension has several sizes. ``why`` completes the message, such as "for a
            run".
    """
    for name, sizes in dims.items():
        if len(sizes) > 1:
            raise OptionError(
                f"--dim {name}: expected one size {why}, found {len(sizes)}; give one of them"
            )
    return {name: size for name, (size,) in dims.items()}
