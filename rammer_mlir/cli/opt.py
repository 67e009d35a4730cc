"""``rammer-opt``: runs passes, ours and MLIR's, on IR or on an ONNX model."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.cli import diagnostics
from rammer_mlir.cli.common import (
    STREAM,
    ArgumentParser,
    add_plugin_option,
    add_tool_options,
    read_input,
    run_tool,
    write_output,
)
from rammer_mlir.cli.model_options import (
    add_dim_option,
    add_external_data_option,
    add_shape_option,
    parse_dims,
    parse_shapes,
    single_sizes,
    source_of,
)
from rammer_mlir.compiler.registry import COMPILER_PASSES
from rammer_mlir.errors import OptionError, PassError, RammerError
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.manager import AfterPass, check_pipeline, pipeline_of_flags, run_pipeline
from rammer_mlir.passes.options import describe_options
from rammer_mlir.passes.registry import EXTENSION_PASSES, PASSES, help_line
from rammer_mlir.passes.timing import Timing
from rammer_mlir.programs.dimensions import COMMAND_LINE
from rammer_mlir.support.log import logged_seconds, shown_on_stderr
from rammer_mlir.support.plugins import load_plugins

ALL_PASSES = (*PASSES, *LOWERING_PASSES, *COMPILER_PASSES)
"""The passes from the `linalg` stage to the `program` stage, those that lower rKernels, those that
run whole programs."""

_BYTECODE = b"ML\xefR"
_ONNX = b"\x08"  # the first field of a ModelProto; no IR begins with this control character
_SPLIT = "// -----"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_tool(lambda: _opt(arguments), debug="--debug" in arguments)


def _opt(arguments: Sequence[str]) -> int:
    parser = _parser()
    if any(argument.startswith("--print-completion") for argument in arguments):
        for kind in ALL_PASSES:  # else each flag that is no option is one
            parser.add_argument(f"--{kind.name}", help=help_line(kind))
    options, flags = parser.parse_known_args(arguments)
    with shown_on_stderr(options.verbose, quiet=options.quiet):
        return _run_passes(options, flags)


def _run_passes(options: argparse.Namespace, flags: Sequence[str]) -> int:
    load_plugins(options.plugin)
    if options.list_passes:
        print(_list_passes())
        return 0
    job = _Job(options, _pipeline(options, flags))
    outputs = [job.run(chunk) for chunk in _chunks(options)]
    if job.timing is not None:
        print(job.timing.report(), file=sys.stderr)
    if options.emit_bytecode:
        write_output(options.output, outputs[0])
    else:
        write_output(options.output, f"{_SPLIT}\n".encode().join(outputs))
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="rammer-opt",
        description="Run passes on MLIR text, bytecode or an ONNX model.",
        usage="%(prog)s [INPUT|-] [-o OUT] [--pass-pipeline=PIPELINE | --PASS[=OPTIONS] ...] [...]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default=STREAM, metavar="INPUT", help="a file; - for standard input")
    add("-o", dest="output", default=STREAM, metavar="OUT", help="a file; - for standard output")
    add("--pass-pipeline", metavar="PIPELINE", help="for example 'builtin.module(cse,rtask-tile)'")
    add("--list-passes", action="store_true", help="list our passes; --PASS runs one")
    add_plugin_option(parser)
    add("--split-input-file", action="store_true", help=f"process parts between lines '{_SPLIT}'")
    add("--verify-diagnostics", action="store_true", help="check 'expected-error {{...}}' comments")
    add("--allow-unregistered-dialect", action="store_true", help="accept unknown operations")
    add("--mlir-print-ir-after-all", action="store_true", help="print the IR after every pass")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-print-op-generic", action="store_true", help="print all operations generically")
    add("--print-rtask-generic", action="store_true", help="print rtask operations generically")
    add("--mlir-timing", action="store_true", help="print the time of every pass")
    add("--emit-bytecode", action="store_true", help="write bytecode instead of text")
    add_dim_option(parser)
    add_shape_option(parser)
    add_external_data_option(parser)
    add_tool_options(parser)
    return parser


def _pipeline(options: argparse.Namespace, flags: Sequence[str]) -> str:
    """Return the pipeline that ``--pass-pipeline`` or the flags of passes, in order, ask for."""
    for flag in flags:
        if not flag.startswith("--"):
            raise OptionError(f"unexpected argument '{flag}': expected one input file and options")
    if flags and options.pass_pipeline is not None:
        raise OptionError(f"give '{flags[0]}' or --pass-pipeline, not both")
    if options.emit_bytecode and options.split_input_file:
        raise OptionError("--emit-bytecode writes one module: leave out --split-input-file")
    parts = (flag.removeprefix("--").partition("=") for flag in flags)
    given = pipeline_of_flags((name, text) for name, _, text in parts)
    pipeline: str = given if options.pass_pipeline is None else options.pass_pipeline
    check_pipeline(pipeline, passes=ALL_PASSES)
    return pipeline


def _list_passes() -> str:
    return "\n".join(
        [
            "Passes of rammer-mlir:",
            *(f"  --{kind.name:<30}{help_line(kind)}{_options(kind)}" for kind in ALL_PASSES),
            *_list_extensions(),
            "All passes of MLIR are accepted too, by their names in 'mlir-opt --help'.",
        ]
    )


def _list_extensions() -> Iterator[str]:
    """Yield a heading for each package or module that has passes, and a line for each pass."""
    extensions = sorted(EXTENSION_PASSES.extensions(), key=lambda extension: extension.origin)
    for origin, passes in groupby(extensions, key=lambda extension: extension.origin):
        yield f"Passes of {origin}:"
        for found in passes:
            kind = found.value
            text = f"error: {found.problem}" if kind is None else help_line(kind) + _options(kind)
            yield f"  --{found.name:<30}{text}"


def _options(kind: type) -> str:
    options = describe_options(kind)
    return f" [{options}]" if options else ""


def _chunks(options: argparse.Namespace) -> list[str | bytes]:
    """Return the module texts, each with its line numbers in the file, or one module's bytecode."""
    data = read_input(options.input)
    if data.startswith(_BYTECODE):
        return [data]
    if options.input.endswith(".onnx") or data.startswith(_ONNX):
        from rammer_mlir.frontends.onnx import import_model

        source = source_of(options, data if options.input == STREAM else options.input)
        dims = single_sizes(parse_dims(options.dim), "for IR of static shapes")
        shapes = parse_shapes(options.shape)
        with logged_seconds("import"):
            found = import_model(source, shapes=shapes, dims=dims, wording=COMMAND_LINE)
        return [found.bytecode]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise OptionError(
            f"'{options.input}': expected MLIR text, MLIR bytecode or an ONNX model, found neither"
        ) from None
    if not options.split_input_file:
        return [text]
    chunks: list[str | bytes] = []
    part: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if line.startswith(_SPLIT):
            chunks.append("\n".join(part))
            part = [""] * (number + 1)
        else:
            part.append(line)
    return [*chunks, "\n".join(part)]


@dataclass
class _Job:
    options: argparse.Namespace
    pipeline: str
    timing: Timing | None = field(init=False)

    def __post_init__(self) -> None:
        self.timing = Timing() if self.options.mlir_timing else None

    def run(self, chunk: str | bytes) -> bytes:
        """Process one module and return what is written for it."""
        context = ir.Context()
        context.allow_unregistered_dialects = self.options.allow_unregistered_dialect
        dialects.register(context)
        if self.options.verify_diagnostics:
            return self._verify_diagnostics(chunk, context)
        try:
            return self._process(chunk, context)
        except (RammerError, ir.MLIRError) as error:
            raise PassError(self._describe(error)) from error

    def _process(self, chunk: str | bytes, context: ir.Context) -> bytes:
        with context, ir.Location.unknown():
            with logged_seconds("parse"):
                module = dialects.parse(chunk)
            after: AfterPass | None = None
            if self.options.mlir_print_ir_after_all:
                after = self._print_after
            with logged_seconds("passes"):
                run_pipeline(
                    module,
                    self.pipeline,
                    passes=ALL_PASSES,
                    print_after_all=after,
                    timing=self.timing,
                )
            with logged_seconds("write"):
                return self._write(module)

    def _verify_diagnostics(self, chunk: str | bytes, context: ir.Context) -> bytes:
        found: list[diagnostics.Diagnostic] = []

        def collect(info: ir.Diagnostic) -> bool:
            kind = info.severity.name.lower()
            found.extend(diagnostics.of_info(kind, info))
            return True

        output = b""
        handler = context.attach_diagnostic_handler(collect)
        try:
            output = self._process(chunk, context)
        except (RammerError, ir.MLIRError) as error:
            found.extend(diagnostics.of_error(error))
        finally:
            handler.detach()
        text = chunk if isinstance(chunk, str) else ""
        diagnostics.check(text, found, self.options.input)
        return output

    def _print_after(self, name: str, module: ir.Module) -> None:
        print(f"// -----// IR Dump After {name} //----- //", file=sys.stderr)
        print(self._text(module), file=sys.stderr)

    def _text(self, module: ir.Module) -> str:
        """Return the module, which the pipeline has verified, in the form that was asked for."""
        debug_info = self.options.mlir_print_debuginfo
        all_generic = self.options.mlir_print_op_generic
        if not all_generic and not self.options.print_rtask_generic:
            return dialects.get_asm(module, enable_debug_info=debug_info, assume_verified=True)
        return module.operation.get_asm(
            enable_debug_info=debug_info, print_generic_op_form=all_generic, assume_verified=True
        )

    def _write(self, module: ir.Module) -> bytes:
        if not self.options.emit_bytecode:
            return f"{self._text(module).rstrip()}\n".encode()
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        return buffer.getvalue()

    def _describe(self, error: RammerError | ir.MLIRError) -> str:
        """Return the error as one line that begins with the place in the input, if it has one."""
        if isinstance(error, ir.MLIRError):
            found = diagnostics.of_error(error)
            if not found:
                return str(error)
            return f"{self.options.input}:{found[0].line}: {found[0].message}"
        line = diagnostics.line_of_error(error)
        return f"{self.options.input}:{line}: {error}" if line else str(error)


if __name__ == "__main__":
    sys.exit(main())
