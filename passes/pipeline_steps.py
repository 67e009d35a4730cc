"""Checks a textual pipeline and divides it into steps: one of our passes, or several of MLIR's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.mlir_pass_names import MLIR_PASS_NAMES
from rammer_mlir.passes.options import create_pass, describe_options
from rammer_mlir.passes.pipeline import PipelineNode, fail, parse_pipeline
from rammer_mlir.passes.registry import (
    EXTENSION_PASSES,
    PASSES,
    close_name,
    is_unknown_to_mlir,
)

_RESTRICTED = re.compile(r"restricted to '([\w.]+)'")
_ANCHOR = re.compile(r"[\w.]+\((.*)\)", re.DOTALL)
_FIRST = re.compile(r"(?:[\w.]+\()*([\w.-]+)")


@dataclass(frozen=True)
class Step:
    """A part of a pipeline that runs as a unit: one of our passes, or consecutive MLIR passes.

    Attributes:
        text: the passes in pipeline syntax, without the outermost operation.
        own: the pass written in Python; None if the step consists of MLIR passes.
        anchor: the name of the outermost operation.
    """

    text: str
    own: Pass | None
    anchor: str = "builtin.module"

    @property
    def pipeline(self) -> str:
        """The step as a complete pipeline, with the outermost operation around its passes."""
        return f"{self.anchor}({self.text})"

    @property
    def argument(self) -> str:
        """The name of the step's first pass, without options or nesting."""
        match = _FIRST.match(self.text)
        return match[1] if match is not None else ""


def plan_pipeline(
    text: str, passes: Sequence[type[Pass]] = PASSES, *, leaf_by_leaf: bool = False
) -> list[Step]:
    """Return the steps of a pipeline in order; an MLIR context has to be current.

    Args:
        text: the pipeline; passes written in Python may only stand directly in
            ``builtin.module(...)``.
        passes: the passes written in Python that the text may name, besides those of extensions.
        leaf_by_leaf: make a separate step for each MLIR pass.

    Raises:
        PassError: if the pipeline is malformed (with the column), or a pass or option is unknown.
    """
    return _Planner(passes).plan(parse_pipeline(text), leaf_by_leaf=leaf_by_leaf)


def check_pipeline(text: str, *, passes: Sequence[type[Pass]] = PASSES) -> None:
    """Check a pipeline's text without running it.

    Raises:
        PassError: if the pipeline is malformed (with the column), or a pass or option is unknown.
    """
    with ir.Context():
        plan_pipeline(text, passes)


def pipeline_of_flags(flags: Iterable[tuple[str, str]]) -> str:
    """Return a ``builtin.module(...)`` pipeline of the passes that command-line flags select.

    ``flags`` lists pairs (pass name, options in pipeline syntax) in execution order. A pass that
    MLIR restricts to another operation than the module is nested in that operation.
    """
    with ir.Context():
        texts = [_nested(f"{name}{{{options}}}" if options else name) for name, options in flags]
    return f"builtin.module({','.join(texts)})"


def expanded_pipeline(text: str, *, passes: Sequence[type[Pass]] = PASSES) -> str:
    """Return the pipeline ``text`` with the values of all options written out, one pass per line.

    Raises:
        PassError: if the pipeline is malformed (with the column), or a pass or option is unknown.
    """
    root = parse_pipeline(text).name
    with ir.Context():
        lines = [_expanded(step) for step in plan_pipeline(text, passes, leaf_by_leaf=True)]
    body = ",\n  ".join(lines)
    return f"{root}(\n  {body}\n)" if lines else f"{root}()"


def close_pass_name(name: str, own: Iterable[str]) -> str | None:
    """Return the known pass name that is most similar to ``name``; None if no name is similar.

    The known names are those in ``own``, and the names of the passes of extensions and of MLIR.
    """
    return close_name(name, (*own, *EXTENSION_PASSES.names(), *MLIR_PASS_NAMES))


def is_pass_of_mlir(text: str) -> bool:
    """Whether ``text``, a pass in pipeline syntax, names an MLIR pass.

    The pass's options are not checked.
    """
    try:
        with ir.Context():
            passmanager.PassManager.parse(f"any({text})")
    except ValueError as error:
        return not is_unknown_to_mlir(error)
    return True


def _expanded(step: Step) -> str:
    if step.own is not None:
        options = describe_options(type(step.own), step.own)
        return f"{step.own.name}{{{options}}}" if options else step.own.name
    match = _ANCHOR.fullmatch(str(passmanager.PassManager.parse(step.pipeline)))
    return match[1] if match is not None else step.text


def _nested(text: str) -> str:
    try:
        passmanager.PassManager.parse(f"builtin.module({text})")
    except ValueError as error:
        if match := _RESTRICTED.search(str(error)):
            return f"{match[1]}({text})"
    return text


class _Planner:
    """Divides a pipeline into steps: each of our passes, and maximal sequences of MLIR passes."""

    def __init__(self, passes: Sequence[type[Pass]]) -> None:
        self._own = {kind.name: kind for kind in passes}

    def plan(self, root: PipelineNode, *, leaf_by_leaf: bool) -> list[Step]:
        for leaf in root.leaves():
            self._check_known(leaf)
        steps: list[Step] = []
        children = root.children or ()
        for is_own, nodes in groupby(children, key=lambda node: node.name in self._own):
            if is_own:
                steps.extend(Step(node.text, self._create(node, root)) for node in nodes)
                continue
            texts: list[str] = []
            for node in nodes:
                self._refuse_nested(node)
                _check_nesting(node, root)
                texts.extend(_each_leaf(node) if leaf_by_leaf else [node.text])
            runs = texts if leaf_by_leaf else [",".join(texts)]
            steps.extend(Step(run, None, root.name) for run in runs)
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
        """Raise a PassError, with the column, if a pass is unknown or MLIR refuses its options.

        A pass of an extension, registered or provided by an installed package, is added to the
        known passes, unless it is already one of them.
        """
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
            close = close_pass_name(leaf.name, self._own)
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
