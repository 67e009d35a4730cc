"""Runs pass pipelines that mix passes of this project with MLIR's, which MLIR alone cannot run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.errors import PassError, RammerError
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.instrumentation.base import Instrumentation, WatchedPass
from rammer_mlir.passes.ir.forms import check_form
from rammer_mlir.passes.ir.traversal import first_named
from rammer_mlir.passes.pipeline import PipelineError
from rammer_mlir.passes.pipeline_steps import (
    Step,
    check_pipeline,
    pipeline_of_flags,
    plan_pipeline,
)
from rammer_mlir.passes.regions.readings import forget_readings, remembered_readings
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.support.failures import FAILURES, failure_text
from rammer_mlir.support.log import log_progress

__all__ = [
    "MlirError",
    "add_pipeline",
    "check_pipeline",
    "pipeline_of_flags",
    "run_pipeline",
    "run_without_threads",
]


_ANCHOR = "builtin.module("

_OWN_MODULES = f"{__name__.partition('.')[0]}."
"""Prefix of the names of all modules of this package."""

_LOWERING = re.compile("unknown pass 'rtask-(?:lower|gpu-to)-")
"""Matches an error about an unknown pass that may be one of ``LOWERING_PASSES``, not ``PASSES``."""


def run_pipeline(
    module: ir.Module,
    text: str,
    *,
    passes: Sequence[type[Pass]] = PASSES,
    instrumentation: Sequence[Instrumentation] = (),
    verify_each: bool = True,
    statistics: str = "",
) -> None:
    """Run a textual pipeline, for example ``builtin.module(cse,rtask-tile{candidates=3})``.

    The `rtask` dialect is loaded into the module's context. The module is verified before the first
    pass and after every pass.

    Args:
        module: changed in place; after an error its state is not specified.
        text: the pipeline; passes written in Python may only stand directly in
            ``builtin.module(...)``.
        passes: the passes written in Python that the text may name, besides those of extensions.
        instrumentation: hooks that are called before and after every pass. With hooks, each MLIR
            pass runs separately, even inside a nested pipeline.
        verify_each: whether to verify the module after every pass; if False, verify it only before
            the first pass, after the last pass, and after each pass of an extension.
        statistics: ``list`` or ``pipeline`` lets MLIR print its passes' statistics in the display
            mode of this name; an empty string prints none.

    Raises:
        PassError: if the pipeline is malformed (with the column), a pass or option is unknown, a
            pass of MLIR fails, or the module is not valid after a pass.
        RammerError: if a pass written in Python fails.
    """
    with module.context, ir.Location.unknown(), remembered_readings():
        dialects.register(module.context)
        steps = plan_pipeline(text, passes, leaf_by_leaf=bool(instrumentation))
        _verify(module, "before the first pass")
        trusted = frozenset[type[Pass]]() if verify_each else frozenset(passes)
        run = _Run(module, instrumentation, trusted, statistics)
        for number, step in enumerate(steps):
            log_progress("pass", partial(str, step.argument))
            run.step(step, number, steps[number:])
        if steps and not verify_each:
            _verify(module, "after the last pass")


def add_pipeline(
    manager: passmanager.PassManager, text: str, *, passes: Sequence[type[Pass]] = PASSES
) -> None:
    """Add a pipeline of our passes and MLIR's to a pass manager of the bindings.

    The manager may have other passes, IR printing, timing and its own verifier. It shows each of
    our passes by the pass's name. The `rtask` dialect has to be registered in the manager's
    context.

    Args:
        manager: a pass manager for ``builtin.module``, or a pass manager for any operation that the
            caller runs on a module. In a context with multithreading, run it by
            ``run_without_threads``.
        text: the passes, separated by commas, with or without ``builtin.module(...)`` around them.
        passes: the passes written in Python that the text may name, besides those of extensions.

    Raises:
        PassError: if the pipeline is malformed (with the column), or a pass or option is unknown.
            If one of our passes fails while the manager runs, MLIR emits a diagnostic at the
            operation's location, and the manager fails.
    """
    if not isinstance(cast("object", text), str):
        raise PassError(f"pass pipeline: expected a text, found {text!r}")
    anchor = "" if text.lstrip().startswith(_ANCHOR) else _ANCHOR
    try:
        steps = plan_pipeline(f"{anchor}{text})" if anchor else text, passes)
    except PipelineError as error:
        is_lowering = passes is PASSES and _LOWERING.match(error.reason)
        advice = ", or give passes=(*PASSES, *LOWERING_PASSES)" if is_lowering else ""
        raise PipelineError(error.column - len(anchor), f"{error.reason}{advice}") from error
    for step in steps:
        if step.own is None:
            manager.add(step.text)
        else:
            run = partial(_run_for_host, step.own)
            manager.add(run, name=type(step.own).__name__, argument=step.own.name)


def run_without_threads(manager: passmanager.PassManager, module: ir.Module) -> None:
    """Run a pass manager that contains passes of this project; disable multithreading meanwhile.

    The module's context is one with multithreading. MLIR's threads would wait for Python's global
    interpreter lock to enter the `rtask` verifiers. Multithreading is enabled again at the end. No
    other thread may use the context while the manager runs.

    Raises:
        PassError: if `rtask` operations remain, which MLIR's threads must not verify;
            multithreading then stays disabled.
        MLIRError: if a pass or a verifier fails.
    """
    context = module.context
    context.enable_multithreading(False)
    try:
        manager.run(module.operation)
    finally:
        left = first_named(module.operation, "rtask.")
        if left is None:
            context.enable_multithreading(True)
    if left is not None:
        raise OperationError(
            left,
            "expected no operation of rtask where multithreading is on: end the pipeline with "
            "rtask-lower-to-cpu or rtask-lower-to-gpu, or leave multithreading off",
        )


def _run_for_host(own: Pass, op: ir.Operation, external: Any) -> None:
    # The bindings have no way from an operation to its `Module`; the view of the operation has
    # all attributes of a module that passes use.
    module = cast(ir.Module, op.opview)
    try:
        if op.name != "builtin.module":
            raise PassError(f"expected to run on 'builtin.module', found '{op.name}'")
        _check_context(op.context)
        with op.context, ir.Location.unknown(), remembered_readings():
            _run_own(own, module)
    # An exception must not pass through the frames of MLIR's pass manager.
    except ir.MLIRError as error:
        _emit(op.location, f"'{own.name}' failed: {_first(error)}", external)
    except OperationError as error:
        _emit(error.location, str(error), external)
    except RammerError as error:
        is_named = str(error).startswith((f"'{own.name}'", f"{own.name}:"))
        _emit(op.location, f"{error}" if is_named else f"'{own.name}': {error}", external)
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
        _emit(op.location, f"'{own.name}': internal error ({found})", external)


def _check_context(context: ir.Context) -> None:
    """Raise a PassError if the context has no `rtask` dialect, or has multithreading enabled."""
    if not context.is_registered_operation("rtask.operator"):
        raise PassError(
            "expected a context with the dialect 'rtask'; call 'dialects.register(context)' before "
            "the pass manager runs"
        )
    # MLIR's threads would wait forever for Python's lock, to verify operations of rtask.
    # The function is missing in the bindings' stubs.
    if int(context._mlir_thread_pool_ptr(), 0):  # type: ignore[attr-defined]
        raise PassError(
            "expected a context without multithreading; run the pass manager by "
            "'run_without_threads(manager, module)'"
        )


def _run_own(own: Pass, module: ir.Module) -> None:
    """Run a pass written in Python, after checking its options and the module's form.

    Raises:
        RammerError: if the pass or a check raises this error.
        PassError: if a pass of an extension raises any other exception; the message names the pass.
            Such an exception of our own pass is an internal error and propagates unchanged.
    """
    try:
        own.check_options()
        if own.takes is not None:
            check_form(module, own.takes)
        own.run(module)
    except RammerError:
        raise
    except FAILURES as error:
        if type(own).__module__.startswith(_OWN_MODULES):
            raise
        is_of_mlir = isinstance(error, ir.MLIRError)
        found = f"MLIRError: {_first(error)}" if is_of_mlir else failure_text(error)
        raise PassError(f"'{own.name}' failed with {found}; mend it") from error


def _emit(location: ir.Location, message: str, external: Any) -> None:
    location.emit_error(message)
    external.signal_pass_failure()


def _first(error: ir.MLIRError) -> str:
    found = error.error_diagnostics
    return str(found[0].message).splitlines()[0] if found else str(error)


class _Run:
    def __init__(
        self,
        module: ir.Module,
        instrumentation: Sequence[Instrumentation],
        trusted: frozenset[type[Pass]],
        statistics: str,
    ) -> None:
        self._module, self._instrumentation = module, instrumentation
        self._trusted, self._statistics = trusted, statistics

    def step(self, step: Step, number: int, remaining: Sequence[Step]) -> None:
        """Run a step between the ``before`` and ``after`` (or ``failed``) hooks of instrumentation.

        Args:
            step: the step to run.
            number: the step's index in the pipeline, from 0.
            remaining: the step and all later steps, from which a reproducer can continue.
        """
        if not self._instrumentation:
            self._run(step)
            return
        rest = f"{step.anchor}({','.join(each.text for each in remaining)})"
        watched = WatchedPass(number, step.text, step.argument, rest)
        for each in self._instrumentation:
            each.before(watched, self._module)
        try:
            self._run(step)
        except (RammerError, ir.MLIRError):
            for each in reversed(self._instrumentation):
                each.failed(watched, self._module)
            raise
        for each in reversed(self._instrumentation):
            each.after(watched, self._module)

    def _run(self, step: Step) -> None:
        if step.own is None:
            self._run_mlir(step)
            forget_readings()
            return
        _run_own(step.own, self._module)
        if type(step.own) not in self._trusted:
            _verify(self._module, f"after '{step.text}'")
        if not step.own.only_marks:
            forget_readings()

    def _run_mlir(self, step: Step) -> None:
        manager = passmanager.PassManager.parse(step.pipeline)
        manager.enable_verifier(not self._trusted)
        if self._statistics:
            modes = passmanager.PassDisplayMode
            manager.enable_statistics(modes.LIST if self._statistics == "list" else modes.PIPELINE)
        try:
            manager.run(self._module.operation)
        except ir.MLIRError as error:
            raise MlirError(f"'{step.pipeline}' failed", error) from None


def _verify(module: ir.Module, when: str) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise MlirError(f"the module is not valid {when}", error) from None


class MlirError(PassError):
    """An error of MLIR; ``diagnostics`` is the list of all diagnostics.

    The message is ``what``, which names the failed step, and the first diagnostic.
    """

    def __init__(self, what: str, error: ir.MLIRError) -> None:
        self.what = what
        self.diagnostics: list[ir.DiagnosticInfo] = list(error.error_diagnostics)
        message = what
        if self.diagnostics:
            first = self.diagnostics[0]
            message = f"{what}: {str(first.message).splitlines()[0]} (at {first.location})"
        super().__init__(message)
