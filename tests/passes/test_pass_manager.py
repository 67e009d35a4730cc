"""Tests that the pass manager reads and runs pipelines, and refuses wrong ones with clear errors.

The passes also run in MLIR's own pass manager.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.instrumentation import Instrumentation, Timing
from rammer_mlir.passes.instrumentation.base import WatchedPass
from rammer_mlir.passes.manager import add_pipeline, pipeline_of_flags, run_pipeline
from rammer_mlir.passes.mlir_pass_names import MLIR_PASS_NAMES
from rammer_mlir.passes.options import create_pass, describe_options
from rammer_mlir.passes.pipeline import parse_pipeline
from rammer_mlir.passes.pipeline_steps import (
    Step,
    close_pass_name,
    expanded_pipeline,
    is_pass_of_mlir,
)
from rammer_mlir.passes.registry import PASSES, help_line
from tests.passes.small_module import module


@dataclass(frozen=True)
class Sample(Pass):
    """Do nothing, with an option of every type.

    And a second paragraph.
    """

    name: ClassVar[str] = "sample"

    count: int = 1
    ratio: float = 0.5
    fast_math: bool = False
    policy: str = "none"
    sizes: tuple[int, ...] = ()
    names: list[str] | None = None

    def run(self, module: ir.Module) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Break(Pass):
    """Leave invalid IR, by erasing the return of the first function."""

    name: ClassVar[str] = "break"

    def run(self, module: ir.Module) -> None:
        """Erase the return of the first function."""
        block = module.body.operations[0].regions[0].blocks[0]
        block.operations[1].erase()


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module()",
        "builtin.module(canonicalize)",
        "builtin.module(a{x=1 y=2},func.func(b,c{z=d(e),f}),g)",
        "any(cse)",
        "builtin.module(inline{pipeline={a,b} text='} )'})",
    ],
)
def test_pipelines_are_written_as_they_were_read(text: str) -> None:
    assert parse_pipeline(text).text == text


def test_spaces_and_columns() -> None:
    root = parse_pipeline(" builtin.module( a , func.func( b { x=1 } ) )  ")
    assert root.text == "builtin.module(a,func.func(b{x=1}))"
    assert [(leaf.name, leaf.column) for leaf in root.leaves()] == [("a", 18), ("b", 33)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected the name of a pass or operation, found the end"),
        ("canonicalize", "column 1: expected 'builtin.module(...)', found 'canonicalize'"),
        ("func.func(cse)", "column 1: expected 'builtin.module(...)', found 'func.func'"),
        ("builtin.module(cse", "column 15: expected ')' for this '(', found the end"),
        ("builtin.module(cse))", "column 20: expected the end of the pipeline, found ')'"),
        ("builtin.module(cse{a=1)", "column 19: expected '}' for this '{', found the end"),
        ("builtin.module(cse,)", "column 20: expected the name of a pass or operation, found ')'"),
        ("builtin.module(cse inline)", "column 20: expected ',' or ')', found 'i'"),
        ("builtin.module(func.func())", "column 16: expected a pass inside 'func.func(...)'"),
        (f"{'builtin.module(' * 2000}cse{')' * 2000}", "column 1516: expected at most 100 nested"),
        ("builtin.module(nothing)", "column 16: unknown pass 'nothing': see --list-passes"),
        ("builtin.module(tile)", "column 16: unknown pass 'tile', did you mean 'rtask-tile'?"),
        (
            "builtin.module(cse,rtask-tyle)",
            "column 20: unknown pass 'rtask-tyle', did you mean 'rtask-tile'?",
        ),
        (
            "builtin.module(func.func(cse,rtask-tile))",
            "column 30: expected 'rtask-tile' directly in 'builtin.module', "
            "found it in 'func.func'",
        ),
        (
            "any(rtask-tile)",
            "column 5: expected 'rtask-tile' in 'builtin.module', found it in 'any'",
        ),
        ("builtin.module(rtask-tile(cse))", "column 16: 'rtask-tile' is a pass and cannot hold"),
        ("builtin.module(buffer-hoisting)", "column 16: 'buffer-hoisting' cannot run here: Can't"),
        ("builtin.module(cse{a=1})", "column 16: 'cse': no such option a"),
        (
            "builtin.module(rtask-tile{candidate=1})",
            "column 16: 'rtask-tile': unknown option 'candidate': expected one of candidates, "
            "memory, device, num-veus, work, enough, providers, target, design, matrix-elements, "
            "did you mean 'candidates'?",
        ),
        (
            "builtin.module(rtask-bufferize{a=1})",
            "column 16: 'rtask-bufferize': unknown option 'a': expected one of prefer-external",
        ),
    ],
)
def test_bad_pipelines(text: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(module(), text)
    assert str(caught.value).startswith(f"pass pipeline, {message}")


def test_nothing_runs_before_the_whole_pipeline_is_known_to_be_good() -> None:
    before = module()
    text = str(before)
    with pytest.raises(PassError, match="unknown pass"):
        run_pipeline(before, "builtin.module(rtask-form-operators,nothing)")
    assert str(before) == text


def test_flags_are_nested_where_they_can_run() -> None:
    flags = [("cse", ""), ("buffer-hoisting", ""), ("rtask-tile", "candidates=1")]
    assert pipeline_of_flags(flags) == (
        "builtin.module(cse,func.func(buffer-hoisting),rtask-tile{candidates=1})"
    )


# Options


def test_options_of_every_type() -> None:
    options = "count=-3 ratio=2.5e1 fast-math=true policy='a b' sizes=4,8 names=x"
    expected = Sample(-3, 25.0, True, "a b", (4, 8))
    found = create_pass(Sample, options.removesuffix(" names=x"))
    assert found == expected
    assert create_pass(Sample, "fast_math=1 sizes={2}") == Sample(fast_math=True, sizes=(2,))
    assert create_pass(Sample, "") == Sample()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("count=x", "'sample': option 'count': expected an integer, found 'x'"),
        ("count=1.5", "'sample': option 'count': expected an integer, found '1.5'"),
        ("ratio=much", "'sample': option 'ratio': expected a number, found 'much'"),
        ("fast-math=maybe", "'sample': option 'fast-math': expected true or false, found 'maybe'"),
        ("sizes=1,b", "'sample': option 'sizes': expected an integer, found 'b'"),
        ("count", "'sample': option 'count': expected 'count=value', found no value"),
        ("=1", "'sample': expected options 'key=value', found '=1'"),
        ("count=1 count=2", "'sample': option 'count' is given twice"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        create_pass(Sample, options)
    assert str(caught.value) == message


def test_options_are_described_as_they_are_written() -> None:
    described = "count=1 ratio=0.5 fast-math=false policy=none sizes="
    assert describe_options(Sample).startswith(described)
    assert help_line(Sample) == "Do nothing, with an option of every type."


# Running


def test_the_context_needs_no_preparation() -> None:
    given = module()
    run_pipeline(given, "builtin.module(cse,rtask-form-operators,func.func(canonicalize))")
    assert '"rtask.operator"' in str(given)


class Seen(Instrumentation):
    """An instrumentation that records the events of passes as text."""

    def __init__(self) -> None:
        """Begin without events."""
        self.events: list[str] = []

    def before(self, step: WatchedPass, module: ir.Module) -> None:
        """Record the pass that begins, and the rest of the pipeline."""
        self.events.append(f"before {step.number} {step.text} of {step.remaining}")

    def after(self, step: WatchedPass, module: ir.Module) -> None:
        """Record that the pass has ended."""
        self.events.append(f"after {step.argument}")

    def failed(self, step: WatchedPass, module: ir.Module) -> None:
        """Record that the pass has failed."""
        self.events.append(f"failed {step.argument}")


def test_every_pass_is_seen_alone_when_watched() -> None:
    seen, timing = Seen(), Timing()
    text = "builtin.module(cse,func.func(canonicalize{max-iterations=3},cse),rtask-form-operators)"
    run_pipeline(module(), text, instrumentation=[seen, timing])
    assert seen.events == [
        "before 0 cse of builtin.module(cse,func.func(canonicalize{max-iterations=3}),"
        "func.func(cse),rtask-form-operators)",
        "after cse",
        "before 1 func.func(canonicalize{max-iterations=3}) of builtin.module("
        "func.func(canonicalize{max-iterations=3}),func.func(cse),rtask-form-operators)",
        "after canonicalize",
        "before 2 func.func(cse) of builtin.module(func.func(cse),rtask-form-operators)",
        "after cse",
        "before 3 rtask-form-operators of builtin.module(rtask-form-operators)",
        "after rtask-form-operators",
    ]
    tree = [line.rpartition(")  ")[2] for line in timing.report().splitlines()[6:]]
    names = ["cse", "'func.func' Pipeline", "  canonicalize{max-iterations=3}", "  cse"]
    assert tree == [*names, "rtask-form-operators", "Rest", "Total"]
    flat = json.loads(timing.report(display="list", form="json"))
    assert sorted(entry["name"] for entry in flat[:-2]) == [
        "canonicalize{max-iterations=3}",
        "cse",
        "rtask-form-operators",
    ]


def test_a_failure_is_seen() -> None:
    seen = Seen()
    with pytest.raises(PassError):
        run_pipeline(module(), "builtin.module(break)", passes=[Break], instrumentation=[seen])
    assert seen.events[1:] == ["failed break"]


def test_verification_only_at_the_end() -> None:
    with pytest.raises(PassError, match="not valid after the last pass"):
        run_pipeline(module(), "builtin.module(break)", passes=[Break], verify_each=False)


def test_the_names_of_passes_for_hints_are_known_to_these_bindings() -> None:
    unknown = [name for name in MLIR_PASS_NAMES if not is_pass_of_mlir(name)]
    assert unknown == []
    assert close_pass_name("canonicalise", ()) == "canonicalize"


def test_all_options_of_a_pipeline() -> None:
    text = expanded_pipeline("builtin.module(func.func(cse),rtask-schedule{num-veus=3})")
    assert text.startswith("builtin.module(\n  func.func(cse),\n  rtask-schedule{policy=")
    assert "num-veus=3" in text


# In a pass manager of the bindings


@dataclass(frozen=True)
class RefuseReturn(Pass):
    """Refuse the operation at the end of the first function."""

    name: ClassVar[str] = "refuse-return"

    def run(self, module: ir.Module) -> None:
        """Raise an OperationError at the return of the first function."""
        block = module.body.operations[0].regions[0].blocks[0]
        raise OperationError(block.operations[len(block.operations) - 1], "expected another")


@dataclass(frozen=True)
class Stumble(Pass):
    """Raise an exception that is a fault of the pass, not of the user."""

    name: ClassVar[str] = "stumble"

    def run(self, module: ir.Module) -> None:
        """Raise a KeyError."""
        raise KeyError("key")


@dataclass(frozen=True)
class StumbleWithin(Stumble):
    """Raise an exception like a pass of the package itself."""

    __module__ = Pass.__module__

    name: ClassVar[str] = "stumble-within"


def manager_of(given: ir.Module, text: str) -> passmanager.PassManager:
    """Return MLIR's own pass manager for the module ``given``.

    It runs canonicalize, then the pass pipeline ``text``, then cse.
    """
    with given.context:
        dialects.register(given.context)
        manager = passmanager.PassManager("builtin.module")
        manager.add("func.func(canonicalize)")
        add_pipeline(manager, text, passes=[*PASSES, RefuseReturn, Stumble, StumbleWithin])
        manager.add("cse")
    return manager


def test_our_passes_in_a_pass_manager_of_a_host(tmp_path: Path) -> None:
    given = module()
    manager = manager_of(given, "cse,rtask-form-operators")
    assert str(manager).endswith("cse,rtask-form-operators,cse)")
    manager.enable_ir_printing(tree_printing_dir_path=str(tmp_path))
    manager.run(given.operation)
    assert '"rtask.operator"' in str(given)
    printed = [path.name for path in tmp_path.rglob("*.mlir")]
    assert "2_rtask-form-operators.mlir" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("refuse-return", "'func.return': expected another"),
        ("rtask-plan-memory", "'rtask-plan-memory': expected at least one rtask.program"),
        ("rtask-schedule{num-veus=0}", "rtask-schedule: num-veus: expected at least 1, found 0"),
        ("stumble", "'stumble' failed with KeyError: 'key'; mend it"),
        ("stumble-within", "'stumble-within': internal error (KeyError: 'key')"),
    ],
)
def test_an_error_in_a_pass_manager_of_a_host_is_a_diagnostic(text: str, message: str) -> None:
    given = module()
    with pytest.raises(ir.MLIRError) as caught:
        manager_of(given, text).run(given.operation)
    first = caught.value.error_diagnostics[0]
    assert str(first.message).startswith(message)


def test_a_context_with_multithreading_is_refused() -> None:
    """A context with multithreading is refused: MLIR's threads and Python's lock could deadlock."""
    given = module()
    manager = manager_of(given, "rtask-form-operators")
    given.context.enable_multithreading(True)
    with pytest.raises(ir.MLIRError, match="'run_without_threads"):
        manager.run(given.operation)
    given.context.enable_multithreading(False)
    manager.run(given.operation)


def test_a_context_without_the_dialect_is_refused() -> None:
    with ir.Context(), ir.Location.unknown():
        given = ir.Module.parse("func.func @f(%x: tensor<4xf32>) { return }")
        manager = passmanager.PassManager("builtin.module")
        add_pipeline(manager, "rtask-form-operators")
        with pytest.raises(ir.MLIRError, match=r"call 'dialects.register\(context\)'"):
            manager.run(given.operation)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse,rtask-tyle", "column 5: unknown pass 'rtask-tyle', did you mean 'rtask-tile'"),
        ("builtin.module(rtask-tyle)", "column 16: unknown pass"),
        ("rtask-lower-to-cpu", "column 1: .* give passes=.*LOWERING_PASSES"),
        (None, "expected a text, found None"),
    ],
)
def test_a_bad_pipeline_for_a_pass_manager_of_a_host(text: Any, message: str) -> None:
    with ir.Context(), pytest.raises(PassError, match=message):
        add_pipeline(passmanager.PassManager("builtin.module"), text)


def test_a_pass_that_the_bindings_cannot_parse_is_refused_by_name() -> None:
    with pytest.raises(PassError, match="unknown pass 'rtask-tyle', did you mean 'rtask-tile'"):
        manager_of(module(), "rtask-tyle")


def test_a_pass_that_breaks_the_module_is_named() -> None:
    with pytest.raises(
        PassError, match="not valid after 'break': block with no terminator"
    ) as caught:
        run_pipeline(module(), "builtin.module(break)", passes=[Break])
    assert "\n" not in str(caught.value)


def test_an_invalid_module_is_not_touched() -> None:
    broken = module()
    broken.body.operations[0].regions[0].blocks[0].operations[1].erase()
    with pytest.raises(PassError, match="not valid before the first pass"):
        run_pipeline(broken, "builtin.module(sample)", passes=[Sample])


def test_a_failure_inside_mlir_gives_its_first_diagnostic() -> None:
    text = """func.func @f(%a: tensor<?xf32>) -> i64 {
      %0 = "test.op"(%a) : (tensor<?xf32>) -> i64
      return %0 : i64
    }"""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    given = ir.Module.parse(text, context)
    with pytest.raises(PassError, match="failed: op was not bufferized") as caught:
        run_pipeline(given, "builtin.module(one-shot-bufferize)")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("canonicalize,func.func(cse)", "canonicalize"),
        ("func.func(cse,canonicalize)", "cse"),
        ("builtin.module(func.func(cse{x=f(y)}))", "cse"),
        ('rtask-tile{policy="f(x)"},cse', "rtask-tile"),
    ],
)
def test_a_step_is_named_after_its_first_pass(text: str, name: str) -> None:
    assert Step(text, None).argument == name
