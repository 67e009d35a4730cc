"""Options that compiling and running a model share."""

from __future__ import annotations

import argparse

from rammer_mlir.cli.common import ArgumentParser
from rammer_mlir.errors import OptionError

DEFAULT_TARGET, DEFAULT_POLICY = "cpu", "wavefront"


def add_model_options(parser: ArgumentParser) -> None:
    """Add the options that say how a model is compiled."""
    parser.add_argument("--target", help=f"what to compile for (default: {DEFAULT_TARGET})")
    parser.add_argument("--policy", help=f"scheduling policy (default: {DEFAULT_POLICY})")
    parser.add_argument(
        "--veus", type=_count, metavar="N", help="number of vEUs (default: one for each core)"
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="shape of an input whose dimensions the model leaves open; may be repeated",
    )
    parser.add_argument(
        "--costs",
        metavar="DEVICE",
        help="device whose costs the schedule follows: a name (a100), or a file that ends with "
        ".toml, or 'measured' for rKernels as measured on this processor (default: one like the "
        "target)",
    )
    parser.add_argument(
        "--merge",
        type=float,
        metavar="GROWTH",
        help="merge convolutions or products of one input where that multiplies the arithmetic by "
        "no more, with the policy ios only where it is faster; 0 for none (default: 1 with the "
        "policy ios, else 0)",
    )
    parser.add_argument(
        "--no-winograd",
        dest="winograd",
        action="store_false",
        help="CPU: compute 3x3 convolutions by their definition, with smaller rounding errors",
    )
    parser.add_argument(
        "--watchdog",
        type=_count,
        default=0,
        metavar="LOOKS",
        help="GPU: stop the program when a vEU has looked so often in vain (default: never)",
    )
    parser.add_argument(
        "--per-operator",
        action="store_true",
        help="GPU: one launch for each operator instead of one for all, to compare with",
    )
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="compile anew, whatever the cache in ~/.cache/rammer-mlir holds",
    )
    parser.add_argument("--debug", action="store_true", help="print a traceback with an error")


def add_timeline_options(parser: ArgumentParser, what: str) -> None:
    """Add the options that ask for a timeline; ``what`` tells of which run."""
    parser.add_argument(
        "--timeline",
        metavar="OUT",
        help=f"write {what}: OUT.html is a page, any other name a Chrome trace (JSON)",
    )
    parser.add_argument(
        "--compare",
        metavar="POLICY,...",
        help="with --timeline: show what these policies do, side by side",
    )


def parse_compared(options: argparse.Namespace) -> list[str]:
    """Return the policies of ``--compare``.

    Raises:
        OptionError: if there is no ``--timeline`` to show them in.
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
        raise argparse.ArgumentTypeError(f"expected a whole number, found '{text}'") from error


def parse_shapes(options: list[str]) -> dict[str, tuple[int, ...]]:
    """Parse ``NAME=1,3,224,224`` options.

    Raises:
        OptionError: if one is not of that form, or a name is given twice.
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
