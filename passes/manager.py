"""Runs pass pipelines that mix our passes with those of MLIR, which cannot know ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.options import create_pass
from rammer_mlir.passes.pipeline import PipelineNode, fail, parse_pipeline
from rammer_mlir.passes.regions.readings import forget_readings, remembered_readings
from rammer_mlir.passes.registry import (
    EXTENSION_PASSES,
    PASSES,
    close_name,
    is_unknown_to_mlir,
)
from rammer_mlir.passes.timing import Timing
from rammer_mlir.support.log import log_progress

_RESTRICTED = re.compile(r"restricted to '([\w.]+)'")

AfterPass = Callable[[str, ir.Module], None]
"""Called with a pass's pipeline text and the module after it ran."""


@dataclass(frozen=True)
class _Step:
    """One of our passes, or (``own`` is None) a pipeline for MLIR's pass manager."""

    text: str
    own: Pass | None


def run_pipeline(
    module: ir.Module,
    text: str,
    *,
    passes: Sequence[type[Pass]] = PASSES,
    print_after_all: AfterPass | None = None,
    timing: Timing | None = None,
) -> None:
    """Run a textual pipeline, for example ``builtin.module(cse,rtask-tile{candidates=3})``.

    The `rtask` dialect is loaded into the module's context. The module is verified before the first
    pass and after each of ours; MLIR's pass manager verifies after its own.

    Args:
        module: changed in place; after an error its state is not specified.
        text: the pipeline; our passes may only stand directly in ``builtin.module(...)``.
        passes: the passes written in Python that the text may name, besides registered ones.
        print_after_all: called after every pass.
        timing: collects the seconds of every pass.

    Raises:
        PassError: if the pipeline is malformed (with the column), a pass or option is unknown,
            a pass of MLIR fails, or the module is not valid after a pass.
        RammerError: what our passes raise.
    """
    with module.context, ir.Location.unknown(), remembered_readings():
        dialects.register(module.context)
        leaf_by_leaf = print_after_all is not None or timing is not None
        steps = _Planner(passes).plan(parse_pipeline(text), leaf_by_leaf=leaf_by_leaf)
        _verify(module, "before the first pass")
        for step in steps:
            log_progress("pass", partial(_first_pass, step.text))
            if timing is None:
                _run(step, module)
            else:
                with timing.measure(step.text):
                    _run(step, module)
            if step.own is None or not step.own.only_marks:
                forget_readings()
            if print_after_all is not None:
                print_after_all(step.text, module)


def _first_pass(text: str) -> str:
    """Return the name of the first pass of a pipeline's text."""
    return text.rpartition("(")[2].partition("{")[0].partition(",")[0].rstrip(")")


def check_pipeline(text: str, *, passes: Sequence[type[Pass]] = PASSES) -> None:
    """Raise the PassError that ``run_pipeline`` would raise for the text alone."""
    with ir.Context():
        _Planner(passes).plan(parse_pipeline(text), leaf_by_leaf=False)


def pipeline_of_flags(flags: Iterable[tuple[str, str]]) -> str:
    """Return the pipeline of passes given as (name, options), each nested where it can run."""
    with ir.Context():
        texts = [_nested(f"{name}{{{options}}}" if options else name) for name, options in flags]
    return f"builtin.module({','.join(texts)})"


def _nested(text: str) -> str:
    try:
        passmanager.PassManager.parse(f"builtin.module({text})")
    except ValueError as error:
        if match := _RESTRICTED.search(str(error)):
            return f"{match[1]}({text})"
    return text


class _Planner:
    """Cuts pipelines into our passes and maximal runs of MLIR's between them."""

    def __init__(self, passes: Sequence[type[Pass]]) -> None:
        self._own = {kind.name: kind for kind in passes}

    def plan(self, root: PipelineNode, *, leaf_by_leaf: bool) -> list[_Step]:
        for leaf in root.leaves():
            self._check_known(leaf)
        steps: list[_Step] = []
        children = root.children or ()
        for is_own, nodes in groupby(children, key=lambda node: node.name in self._own):
            if is_own:
                steps.extend(_Step(node.text, self._create(node, root)) for node in nodes)
                continue
            texts: list[str] = []
            for node in nodes:
                self._refuse_nested(node)
                _check_nesting(node, root)
                texts.extend(_each_leaf(node) if leaf_by_leaf else [node.text])
            runs = texts if leaf_by_leaf else [",".join(texts)]
            steps.extend(_Step(f"{root.name}({run})", None) for run in runs)
        return steps

    def _create(self, node: PipelineNode, root: PipelineNode) -> Pass:
        if node.children is not None:
            fail(node.column, f"'{node.name}' is a pass and cannot hold a nested pipeline")
        if root.name != "builtin.module":
            fail(
                node.column,
                f"expected '{node.name}' in 'builtin.module', found it in '{root.name}'",
            )
        try:
            return create_pass(self._own[node.name], node.options)
        except PassError as error:
            fail(node.column, str(error))

    def _refuse_nested(self, node: PipelineNode) -> None:
        for leaf in node.leaves():
            if leaf.name in self._own:
                fail(
                    leaf.column,
                    f"expected '{leaf.name}' directly in 'builtin.module', "
                    f"found it in '{node.name}'",
                )

    def _check_known(self, leaf: PipelineNode) -> None:
        """Refuse a pass that is neither ours, nor registered, nor MLIR's, nor of a package."""
        if leaf.name in self._own:
            return
        registered = EXTENSION_PASSES.known(leaf.name)
        if registered is not None:
            self._own[leaf.name] = registered
            return
        try:
            passmanager.PassManager.parse(f"any({leaf.text})")
        except ValueError as error:
            if is_unknown_to_mlir(error):
                self._own[leaf.name] = self._of_package(leaf)
                return
            message = _lines(error)[0].removeprefix("<Pass-Options-Parser>: ")
            fail(leaf.column, f"'{leaf.name}': {message}")

    def _of_package(self, leaf: PipelineNode) -> type[Pass]:
        try:
            found = EXTENSION_PASSES.find(leaf.name)
        except OptionError as error:
            fail(leaf.column, str(error))
        if found is None:
            close = close_name(leaf.name, (*self._own, *EXTENSION_PASSES.names()))
            hint = f", did you mean '{close}'?" if close else ": see --list-passes"
            fail(leaf.column, f"unknown pass '{leaf.name}'{hint}")
        return found


def _check_nesting(node: PipelineNode, root: PipelineNode) -> None:
    try:
        passmanager.PassManager.parse(f"{root.name}({node.text})")
    except ValueError as error:
        fail(node.column, f"'{node.text}' cannot run here: {_lines(error)[0]}")


def _each_leaf(node: PipelineNode) -> Iterator[str]:
    if node.children is None:
        yield node.text
        return
    for child in node.children:
        for text in _each_leaf(child):
            yield f"{node.name}({text})"


def _lines(error: ValueError) -> list[str]:
    return [line for line in str(error).splitlines() if line.strip()] or ["it cannot be parsed"]


def _run(step: _Step, module: ir.Module) -> None:
    if step.own is not None:
        step.own.run(module)
        _verify(module, f"after '{step.text}'")
        return
    try:
        passmanager.PassManager.parse(step.text).run(module.operation)
    except ir.MLIRError as error:
        raise MlirError(f"'{step.text}' failed", error) from None


def _verify(module: ir.Module, when: str) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise MlirError(f"the module is not valid {when}", error) from None


class MlirError(PassError):
    """A failure inside MLIR; its message is the first diagnostic, ``diagnostics`` are all."""

    def __init__(self, what: str, error: ir.MLIRError) -> None:
        self.diagnostics: list[ir.DiagnosticInfo] = list(error.error_diagnostics)
        message = what
        if self.diagnostics:
            first = self.diagnostics[0]
            message = f"{what}: {str(first.message).splitlines()[0]} (at {first.location})"
        super().__init__(message)
