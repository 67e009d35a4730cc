"""Runs the pipeline of ``rammer-opt`` on a module, and reports the outcome."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.cli.opt_tool import diagnostics
from rammer_mlir.cli.opt_tool.diagnostic_text import DiagnosticPrinter
from rammer_mlir.cli.opt_tool.expected_diagnostics import mismatches
from rammer_mlir.cli.opt_tool.inputs import ModuleSource, input_name, load_irdl, parse_source
from rammer_mlir.cli.opt_tool.output import ModuleWriter, check_roundtrip, reproducible_text
from rammer_mlir.errors import RammerError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.instrumentation import Instrumentation, IrPrinting, Reproducer, Timing
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.support.log import logged_seconds

_UNREAD_PIPELINE = "ignoring unknown external resources for 'mlir_reproducer'"
"""MLIR's warning about the pipeline in the metadata of a reproducer."""


@dataclass
class Job:
    """Runs the pipeline on the modules of the input, one module in each call of ``run``.

    Attributes:
        options: the options of the command line.
        pipeline: the textual pipeline.
        passes: the passes written in Python that the pipeline may name.
        timing: measures the passes; None without ``--mlir-timing``.
    """

    options: argparse.Namespace
    pipeline: str
    passes: Sequence[type[Pass]]
    timing: Timing | None = field(init=False)

    def __post_init__(self) -> None:
        self.timing = Timing() if self.options.mlir_timing else None
        self._name = input_name(self.options)
        self._writer = ModuleWriter(self.options, self._name)

    def run(self, source: ModuleSource) -> bytes | None:
        """Parse the module ``source``, run the pipeline on it, and return the output's bytes.

        Diagnostics go to standard error. The result is None after an error.
        """
        options = self.options
        printer = DiagnosticPrinter(
            self._name,
            source if isinstance(source, str) else "",
            options.color,
            notes=not options.mlir_disable_diagnostic_notes,
            operations=options.mlir_print_op_on_diagnostic,
        )
        context = self._context()
        if options.verify_diagnostics is not None:
            return self._run_verified(source, context, printer)

        def show(info: ir.Diagnostic) -> bool:
            # mlir-opt does not print this either; the pipeline is read before the module.
            if str(info.message) != _UNREAD_PIPELINE:
                printer.print(diagnostics.of_info(info.severity.name.lower(), info))
            return True

        try:
            with _handler(context, show):
                return self._process(source, context)
        except (RammerError, ir.MLIRError) as error:
            if options.debug:
                traceback.print_exc()
            printer.report(error)
            return None

    def _context(self) -> ir.Context:
        context = ir.Context()
        context.allow_unregistered_dialects = self.options.allow_unregistered_dialect
        dialects.register(context)
        if self.options.irdl_file is not None:
            load_irdl(self.options.irdl_file, context)
        return context

    def _run_verified(
        self, source: ModuleSource, context: ir.Context, printer: DiagnosticPrinter
    ) -> bytes | None:
        found: list[diagnostics.Diagnostic] = []

        def collect(info: ir.Diagnostic) -> bool:
            found.extend(diagnostics.of_info(info.severity.name.lower(), info))
            return True

        output = b""
        try:
            with _handler(context, collect):
                output = self._process(source, context)
        except (RammerError, ir.MLIRError) as error:
            found.extend(diagnostics.of_error(error))
        only_expected = self.options.verify_diagnostics == "only-expected"
        wrong = mismatches(printer.text, found, only_expected=only_expected)
        printer.print(wrong)
        return None if wrong else output

    def _process(self, source: ModuleSource, context: ir.Context) -> bytes:
        with context, ir.Location.unknown():
            with self._phase("Parser", "parse"):
                module = parse_source(source, implicit_module=not self.options.no_implicit_module)
            if self.options.verify_roundtrip:
                check_roundtrip(module, self._context)
            self._run_passes(module)
            with self._phase("Output", "write"):
                return self._writer.content(module)

    def _run_passes(self, module: ir.Module) -> None:
        options = self.options
        reproducer = self._reproducer()
        watching: list[Instrumentation | None] = [self._ir_printing(), reproducer, self.timing]
        with logged_seconds("passes"):
            run_pipeline(
                module,
                self.pipeline,
                passes=self.passes,
                instrumentation=[each for each in watching if each is not None],
                verify_each=options.verify_each,
                statistics=options.mlir_pass_statistics_display
                if options.mlir_pass_statistics
                else "",
            )
        if reproducer is not None:
            reproducer.finish()

    @contextmanager
    def _phase(self, timed: str, logged: str) -> Generator[None]:
        with logged_seconds(logged):
            if self.timing is None:
                yield
            else:
                with self.timing.measure(timed):
                    yield

    def _ir_printing(self) -> IrPrinting | None:
        options = self.options
        folder = options.mlir_print_ir_tree_dir
        printing = IrPrinting(
            self._writer.text,
            before_all=options.mlir_print_ir_before_all,
            after_all=options.mlir_print_ir_after_all,
            before_names=printed_passes(options, "before"),
            after_names=printed_passes(options, "after"),
            only_changes=options.mlir_print_ir_after_change,
            after_failure=options.mlir_print_ir_after_failure,
            folder=None if folder is None else Path(folder),
        )
        return printing if printing.is_on() else None

    def _reproducer(self) -> Reproducer | None:
        options = self.options
        always = options.mlir_generate_reproducer
        path = always or options.mlir_pass_pipeline_crash_reproducer
        if path is None:
            return None
        return Reproducer(
            Path(path),
            partial(reproducible_text, name=self._name),
            verify_each=options.verify_each,
            local=options.mlir_pass_pipeline_local_reproducer,
            keeps=always is not None,
        )


def printed_passes(options: argparse.Namespace, when: str) -> frozenset[str]:
    """Return the names of the passes given to ``--mlir-print-ir-WHEN``; empty without the option.

    ``when``, in place of ``WHEN``, is ``before`` or ``after``.
    """
    given: Sequence[str] = getattr(options, f"mlir_print_ir_{when}")
    return frozenset(name for text in given for name in text.split(",") if name)


@contextmanager
def _handler(context: ir.Context, handle: object) -> Generator[None]:
    attached = context.attach_diagnostic_handler(handle)  # type: ignore[arg-type]
    try:
        yield
    finally:
        attached.detach()
