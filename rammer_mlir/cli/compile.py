"""Define ``rammer-compile``: compile a model to an artifact, or print one stage's IR or code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rammer_mlir.cli.common import STREAM, ArgumentParser, is_stream, run_tool, write_output
from rammer_mlir.cli.foreign_code import listed_codegens
from rammer_mlir.cli.model_options import (
    add_model_options,
    add_timeline_options,
    given_model,
    given_options,
    parse_compared,
    parse_dims,
    parse_shapes,
    single_sizes,
)
from rammer_mlir.compiler.stage_names import KNOWN_STAGES
from rammer_mlir.errors import OptionError
from rammer_mlir.options import DEFAULT_TARGET
from rammer_mlir.programs.dimensions import COMMAND_LINE
from rammer_mlir.runtime.signatures import signer_of
from rammer_mlir.support.atomic_file import check_writable
from rammer_mlir.support.log import shown_on_stderr
from rammer_mlir.support.paths import is_same_file
from rammer_mlir.support.plugins import load_plugins
from rammer_mlir.timeline.files import write_timelines

if TYPE_CHECKING:
    from rammer_mlir.compiler.compilation import Compilation
    from rammer_mlir.compiler.models import Request
    from rammer_mlir.runtime.compiled import RunnableModel


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``rammer-compile`` and return its exit code.

    ``argv`` has the arguments; None stands for those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_tool(lambda: _compile(arguments), debug="--debug" in arguments)


def compile_parser() -> ArgumentParser:
    """Return the parser of all options of ``rammer-compile``."""
    parser = ArgumentParser(
        prog="rammer-compile", description="Compile an ONNX model or an MLIR module."
    )
    parser.add_argument(
        "model", metavar="MODEL.onnx|MODULE.mlir", nargs="?", help="a file; - for standard input"
    )
    parser.add_argument(
        "--list-targets", action="store_true", help="list the targets, and what each lacks"
    )
    parser.add_argument(
        "--list-codegens",
        action="store_true",
        help="list the code generators for --offload, where they come from, and what each lacks",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="file to write, or - for stdout")
    parser.add_argument(
        "--sign", metavar="KEYFILE", help="sign the artifact with this private key (Ed25519, PEM)"
    )
    parser.add_argument(
        "--most",
        metavar="N",
        help="greatest size that data decides, as the number of boxes that are found: programs for "
        "all sizes up to it are compiled; a smaller one that the model says itself counts",
    )
    add_model_options(parser)
    stages = ", ".join(KNOWN_STAGES)
    parser.add_argument("--emit", metavar="STAGE", help=f"write this stage instead: {stages}")
    parser.add_argument(
        "--emit-values",
        action="store_true",
        help="with --emit: print the IR with all values of weights, so that it can be compiled; "
        "a name that ends in .mlirbc asks for bytecode",
    )
    add_timeline_options(parser, "the run that the simulator predicts")
    return parser


def _compile(arguments: Sequence[str]) -> int:
    options = compile_parser().parse_args(arguments)
    explain_cache: bool = options.explain_cache
    with shown_on_stderr(options.verbose, quiet=options.quiet, explain_cache=explain_cache):
        return _compile_model(options)


def _compile_model(options: argparse.Namespace) -> int:
    load_plugins(options.plugin)
    listing = _listing(options)
    if listing is not None:
        write_output(STREAM, listing.encode())
        return 0
    if options.model is None:
        raise OptionError(
            "the following arguments are required: MODEL.onnx|MODULE.mlir; see rammer-compile "
            "--help"
        )
    shapes, sizes = parse_shapes(options.shape), parse_dims(options.dim)
    compared = parse_compared(options)
    _check_outputs(options)
    from rammer_mlir.compiler.options import check_options
    from rammer_mlir.scheduling.policies import get_policy

    for name in compared:
        get_policy(name)
    checked = check_options(options.target or DEFAULT_TARGET, **given_options(options))
    if options.emit is not None:
        checked.backend.check_stage(options.emit, checked)
    output = _output(options)
    for name in filter(None, (output, options.timeline)):
        if name != STREAM:
            check_writable(Path(name))
    from rammer_mlir.compiler.models import Request

    source = given_model(options)
    request = Request(source, checked, shapes, cached=options.cache, wording=COMMAND_LINE)
    if options.emit is not None:
        request = replace(request, dims=single_sizes(sizes, "with --emit"))
        write_output(output, _emitted(options, request.compilation(), output))
        return 0
    if output == STREAM:
        raise OptionError("an artifact cannot be written to standard output: give a file with -o")
    _write_artifact(_compiled(options, request, sizes, compared), output, options.sign)
    return 0


def _check_outputs(options: argparse.Namespace) -> None:
    """Check that the options that determine the output do not contradict each other.

    Raises:
        OptionError: if ``--emit`` is given together with ``--sign``, ``--timeline`` or
            ``--explain``, if ``--emit-values`` is given without ``--emit``, or if the key of
            ``--sign`` is invalid.
    """
    if options.most is not None and (options.emit or options.timeline or options.explain):
        raise OptionError("--most: expected an artifact of programs for all sizes; leave it out")
    if options.emit_values and options.emit is None:
        raise OptionError("--emit-values: expected --emit with it, found none; give both")
    if options.sign is not None:
        if options.emit is not None:
            raise OptionError("--sign: expected an artifact to be written; leave --emit out")
        signer_of(options.sign)  # refuse invalid keys before compiling
    if options.emit is not None and (options.timeline is not None or options.explain):
        name = "--explain" if options.explain else "--timeline"
        raise OptionError(f"{name}: expected a whole compilation; leave --emit out")


def _emitted(options: argparse.Namespace, compilation: Compilation, output: str) -> bytes:
    """Return the IR or code of the stage that ``--emit`` names, as bytes of the output file.

    IR is bytecode if ``output``, the name of the output file, ends in
    ``.mlirbc``, else text.
    """
    as_bytecode = output.endswith(".mlirbc")
    if options.emit_values or as_bytecode:
        return compilation.emit_whole(options.emit, as_bytecode=as_bytecode)
    return compilation.emit(options.emit)


def _listing(options: argparse.Namespace) -> str | None:
    """Return the text for ``--list-targets`` or ``--list-codegens``; None without these options."""
    if options.list_targets:
        return _list_targets()
    return listed_codegens() if options.list_codegens else None


def _list_targets() -> str:
    from rammer_mlir.compiler.backends.registry import described_targets

    lines = (f"  {spelling:<20}{words}" for spelling, words in described_targets())
    return "\n".join(("Targets:", *lines, ""))


def _compiled(
    options: argparse.Namespace,
    request: Request,
    sizes: Mapping[str, Sequence[int]],
    compared: Sequence[str],
) -> RunnableModel:
    """Compile the model or find it in the cache, and return it.

    With ``--timeline``, also write simulated runs of the model: one with the policy that the user
    chose, and one with each policy in ``compared``. With ``--explain``, also print an explanation.
    ``sizes`` has the sizes of each open dimension.

    Raises:
        OptionError: if ``--timeline`` or ``--explain`` is given and a dimension has several sizes.
    """
    if options.timeline is None and not options.explain:
        from rammer_mlir.compiler.models import compile_for

        return compile_for(request, sizes, _parse_size_bound(options.most))
    wanted = "--explain" if options.explain else "--timeline"
    request = replace(request, dims=single_sizes(sizes, f"with {wanted}"))
    compilation = request.compilation()
    text = compilation.explain().text() if options.explain else ""
    if options.timeline is not None:
        write_timelines(options.timeline, compilation.predict(compared), text)
    if options.explain:
        print(text)
    return compilation.executable()


def _parse_size_bound(text: str | None) -> int | None:
    """Return the value of the option ``--most``: an upper bound on data-dependent sizes.

    ``text`` is the option's argument. If the option is absent, ``text`` and the result are None.

    Raises:
        OptionError: if ``text`` is not an integer of at least 0.
    """
    if text is not None and not text.isdecimal():
        raise OptionError(f"--most: expected an integer of at least 0, found '{text}'")
    return None if text is None else int(text)


def _write_artifact(compiled: RunnableModel, output: str, sign: str | None) -> None:
    with compiled as executable:
        executable.save(output, sign=sign)
        print(executable.summary)
        seconds = executable.stats["seconds"]
    way = "found in the cache" if "cache" in seconds else "compiled"
    print(f"{way} in {sum(seconds.values()):.1f} s, written to {output}")


def _output(options: argparse.Namespace) -> str:
    """Return the name of the output file.

    Without ``-o``, the name is ``MODEL.rammer``, or ``-`` (standard output) with ``--emit``.

    Raises:
        OptionError: if the name is empty, or is the name of the model's or the timeline's file; or
            if there is no name for the artifact of a model from standard input.
    """
    output: str | None = options.output
    if output is None:
        if is_stream(options.model) and not options.emit:
            raise OptionError("-o: expected the name of a file for the model of standard input")
        return STREAM if options.emit else Path(options.model).with_suffix(".rammer").name
    if not output:
        raise OptionError("-o: expected the name of a file, found ''")
    for other, what in ((options.model, "the model"), (options.timeline, "the timeline")):
        if other is not None and output != STREAM and is_same_file(output, other):
            raise OptionError(f"-o: '{output}' is {what}; choose another name")
    return output


if __name__ == "__main__":
    sys.exit(main())
