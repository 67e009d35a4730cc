"""The pass manager: pipelines, options and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.manager import pipeline_of_flags, run_pipeline
from rammer_mlir.passes.options import create_pass, describe_options
from rammer_mlir.passes.pipeline import parse_pipeline
from rammer_mlir.passes.registry import help_line
from rammer_mlir.passes.timing import Timing
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
    """Leave IR behind that is not valid."""

    name: ClassVar[str] = "break"

    def run(self, module: ir.Module) -> None:
        """Return nothing where a tensor is wanted."""
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
            "memory, device, num-veus, work, enough, providers, target, design, "
            "did you mean 'candidates'?",
        ),
        (
            "builtin.module(rtask-bufferize{a=1})",
            "column 16: 'rtask-bufferize': unknown option 'a': expected none",
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


def test_every_pass_is_seen_alone_when_watched() -> None:
    seen: list[str] = []
    timing = Timing()
    text = "builtin.module(cse,func.func(canonicalize,cse),rtask-form-operators)"
    run_pipeline(module(), text, print_after_all=lambda name, _: seen.append(name), timing=timing)
    assert seen == [
        "builtin.module(cse)",
        "builtin.module(func.func(canonicalize))",
        "builtin.module(func.func(cse))",
        "rtask-form-operators",
    ]
    assert list(timing.seconds) == seen
    assert timing.report().splitlines()[-1].endswith("100.0%  total")


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
