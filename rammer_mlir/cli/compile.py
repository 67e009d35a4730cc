"""``rammer-compile``: compiles an ONNX model to an artifact, or prints one of its stages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.cli.common import STREAM, ArgumentParser, run_tool, write_output
from rammer_mlir.cli.model_options import (
    DEFAULT_POLICY,
    DEFAULT_TARGET,
    add_model_options,
    add_timeline_options,
    parse_compared,
    parse_shapes,
)
from rammer_mlir.errors import OptionError
from rammer_mlir.pipeline import BINARY_STAGES, IR_STAGES, check_stage
from rammer_mlir.timeline.files import write_timelines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_tool(lambda: _compile(arguments), debug="--debug" in arguments)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="rammer-compile", description="Compile an ONNX model.")
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument("-o", "--output", metavar="OUT", help="file to write, or - for stdout")
    add_model_options(parser)
    stages = ", ".join((*IR_STAGES, *BINARY_STAGES))
    parser.add_argument("--emit", metavar="STAGE", help=f"write this stage instead: {stages}")
    add_timeline_options(parser, "the run that the simulator predicts")
    return parser


def _compile(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    shapes = parse_shapes(options.shape)
    compared = parse_compared(options)
    if options.emit is not None:
        check_stage(options.emit)
        if options.timeline is not None:
            raise OptionError("--timeline: expected a whole compilation; leave --emit out")
    from rammer_mlir.compiler import Compilation
    from rammer_mlir.options import check_options
    from rammer_mlir.scheduling.policies import get_policy

    for name in compared:
        get_policy(name)
    checked = check_options(
        options.target or DEFAULT_TARGET,
        options.policy or DEFAULT_POLICY,
        options.veus,
        costs=options.costs,
        watchdog=options.watchdog,
        per_operator=options.per_operator,
        merge=options.merge,
    )
    compilation = Compilation.of_model(options.model, checked, shapes)
    if options.timeline is not None:
        write_timelines(options.timeline, compilation.predict(compared))
    if options.emit is not None:
        write_output(options.output or STREAM, compilation.emit(options.emit))
        return 0
    output = options.output or Path(options.model).with_suffix(".rammer").name
    if output == STREAM:
        raise OptionError("an artifact cannot be written to standard output: give a file with -o")
    with compilation.compiled() as executable:
        executable.save(output)
        print(executable.summary)
    print(f"compiled in {sum(compilation.seconds.values()):.1f} s, written to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
