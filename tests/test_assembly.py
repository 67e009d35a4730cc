"""Tests that the readable form of the `rtask` dialect is printed and read back without loss.

Errors have the right line and column, and long texts take linear time.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from rammer_mlir import dialects
from rammer_mlir.benchmarks.models import build
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.options import check_options
from rammer_mlir.dialects.rtask.assembly.parser import to_generic
from rammer_mlir.dialects.rtask.assembly.printer import to_readable
from rammer_mlir.errors import AssemblyError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.passes.manager import run_pipeline

STAGES = ("operators", "tasks", "buffers", "program")
MODELS = ("mlp", "attention", "lstm_bidirectional", "multi_io", "nas_cell", "light_squeezenet")
ODD_NAMES = ('"', "\\", "\\22", "né 层 🚀", "tab\tand\nline", "{([<", "// no comment", "a, b) loc(")

GENERIC = re.compile(r'"rtask\.\w+"\(')


def context() -> ir.Context:
    """Return a context with the `rtask` dialect."""
    found = ir.Context()
    dialects.register(found)
    return found


def generic(module: ir.Module, *, locations: bool = False) -> str:
    """Return a module as MLIR itself prints it: `rtask` operations are in generic form.

    With ``locations``, the text has source locations.
    """
    return module.operation.get_asm(enable_debug_info=locations)


def named_model() -> onnx.ModelProto:
    """Return a chain of matrix products, with a node for each of ``ODD_NAMES``."""
    values = [f"v{number}" for number in range(len(ODD_NAMES) + 1)]
    nodes = [
        helper.make_node("MatMul", [first, first], [second], name=name)
        for first, second, name in zip(values[:-1], values[1:], ODD_NAMES, strict=True)
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (8, 8))
        for name in (values[0], values[-1])
    ]
    graph = helper.make_graph(nodes, "names", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@cache
def stages(name: str) -> dict[str, tuple[str, str, str]]:
    """Return three texts of the module at each stage of a model's compilation, by stage name.

    They are the readable form, the generic form, and the generic form with locations.
    """
    model = named_model() if name == "odd names" else build(name, scale="small")
    found: dict[str, tuple[str, str, str]] = {}
    with context(), ir.Location.unknown():
        module = ir.Module.parse(import_model(model).bytecode)
        for stage in check_options(num_veus=4).portable_stages():
            run_pipeline(module, stage.pipeline)
            found[stage.name] = (
                dialects.get_asm(module),
                generic(module),
                generic(module, locations=True),
            )
    assert tuple(found) == STAGES
    return found


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", [*MODELS, "odd names"])
def test_stages_are_read_back(name: str, stage: str) -> None:
    """The readable and the generic form of each stage are read back as the same module.

    The readable form has no operation in generic form. Its translation to the generic form has the
    same number of lines.
    """
    readable, expected, _ = stages(name)[stage]
    assert not GENERIC.search(readable)
    translated = to_generic(readable)
    assert translated.count("\n") == readable.count("\n")
    module = dialects.parse(readable, context())
    assert generic(module) == expected
    assert dialects.get_asm(module) == readable
    assert generic(dialects.parse(expected, context())) == expected


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["attention", "odd names"])
def test_locations_are_read_back(name: str, stage: str) -> None:
    _, _, expected = stages(name)[stage]
    module = dialects.parse(expected, context())
    readable = dialects.get_asm(module, enable_debug_info=True)
    assert not GENERIC.search(readable)
    again = dialects.parse(readable, context())
    assert dialects.get_asm(again, enable_debug_info=True) == readable
    assert generic(again, locations=True) == expected


def test_names_of_nodes_are_read_back() -> None:
    """The location of a ``run`` operation that is read from text has the name of its ONNX node.

    Inside the named location is the line of the operation in the text.
    """
    readable, _, _ = stages("odd names")["program"]
    module = dialects.parse(readable, context())
    names: list[str] = []
    lines = readable.split("\n")

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "rtask.run":
            assert isinstance(op.location, ir.NameLoc)
            names.append(op.location.name_str)
            child = op.location.child_loc
            assert isinstance(child, ir.FileLineColLoc)
            assert lines[child.start_line - 1].lstrip().startswith("run @")
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    assert set(names) == set(ODD_NAMES)


PROGRAM = """func.func private @k(%id: index, %a: memref<4xf32>, %out: memref<4xf32>) {{ return }}
rtask.kernel @k rtasks(4) operations(1) bytes(8){kernel} {{
  reads 0[d0 +: 1]
  writes 1[d0 +: 1]
}}
func.func @main(%a: memref<4xf32>, %b: memref<4xf32>) {{
  rtask.operator 0 @k(%a, %b){operator} : (memref<4xf32>, memref<4xf32>) -> ()
  rtask.program on "cpu" veus(2) buffers(%a: memref<4xf32>, %b: memref<4xf32>){program} {{
    veu 0{veu} {{
      run @k[0..3] of 0 (%a, %b){run}
    }}
    veu 1 {{
      wait veu 0 @ 3{wait}
    }}
  }}
  return
}}
"""
HOLDERS = ("kernel", "operator", "program", "veu", "run", "wait")
IN_HEADER = ("kernel", "program", "veu")


def program(**attributes: str) -> str:
    """Return the readable form of a program in which some operations have further attributes.

    ``attributes`` has the text of the attributes for each of these operations, whose names are in
    ``HOLDERS``.
    """
    texts = {
        holder: f"{' attributes' if holder in IN_HEADER else ''} {{{attributes[holder]}}}"
        if holder in attributes
        else ""
        for holder in HOLDERS
    }
    return PROGRAM.format(**texts)


VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**31), 2**31 - 1).map(lambda value: f"{value} : i32"),
        st.text(max_size=6).map(lambda text: '"' + escaped(text) + '"'),
        st.sampled_from(["@k", "@main::@k", "i64", "memref<2x?xf32, strided<[1, 2]>>", "unit"]),
        st.sampled_from(["affine_map<(d0) -> (d0)>", "affine_set<(d0) : (d0 >= 0)>", "0.5 : f64"]),
        st.sampled_from(["dense<[[1], [2]]> : tensor<2x1xi8>", "array<i64: 1, 2>", "array<i8>"]),
        st.sampled_from(["(i32, index) -> f32", "() -> ()", "#gpu.address_space<workgroup>"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        inner.map(lambda value: f"{{inner = {value}}}"),
    ),
    max_leaves=4,
)


def escaped(text: str) -> str:
    """Return text as MLIR writes it in a string."""
    encoded = text.encode(errors="replace")
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:02X}" for b in encoded)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(HOLDERS), VALUES, min_size=1))
def test_further_attributes_survive(values: dict[str, str]) -> None:
    text = program(**{holder: f"a.b = {value}, unit" for holder, value in values.items()})
    module = dialects.parse(text, context())
    expected = generic(module)
    assert expected.count("unit}") + expected.count("unit,") >= len(values)
    readable = dialects.get_asm(module)
    assert not GENERIC.search(readable)
    assert generic(dialects.parse(readable, context())) == expected
    assert generic(dialects.parse(expected, context())) == expected


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_white_space_and_comments_may_stand_between_tokens(data: st.DataObject) -> None:
    """Text with white space and comments between tokens is read as the same program.

    Its translation to the generic form has each operation in the same line.
    """
    tokens = re.findall(r'"[^"]*"|[%@]\w+|memref<4xf32>|rtask\.\w+|func\.func|\w+|\S', program())
    gaps = st.sampled_from([" ", "\n", '  // comment " { rtask.run\n', "\n\n "])
    text = "".join(token + data.draw(gaps) for token in tokens)
    text = re.sub(r"\+\s*(//.*)?\s*:", "+:", text).replace("= ", "=")
    text = re.sub(r"\.\s*(//.*)?\s*\.", "..", re.sub(r"-\s*(//.*)?\s*>", "->", text))
    translated = to_generic(text)
    assert translated.count("\n") == text.count("\n")
    for number, line in enumerate(text.split("\n")):
        for keyword, name in (("run @", "rtask.run"), ("wait veu", "rtask.barrier")):
            assert (keyword not in line) or name in translated.split("\n")[number]
    assert generic(dialects.parse(text, context())) == generic(dialects.parse(program(), context()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count = 4 : i64", "count = 4 : i32"),
        ("id = 0 : i64}", "id = 0 : index}"),
        ("num_veus = 2 : i64", "num_veus = 2 : i32"),
        ("threads = 1 : i64", "threads = 1 : i8"),
        ("argument = 1 : i64", "argument = 1 : i32"),
    ],
)
def test_unusual_attributes_stay_generic(old: str, new: str) -> None:
    expected = generic(dialects.parse(program(), context())).replace(old, new)
    assert new in expected
    module = dialects.parse(expected, context())
    readable = dialects.get_asm(module)
    assert GENERIC.search(readable)
    assert generic(dialects.parse(readable, context())) == generic(module) == expected


def test_a_module_that_does_not_verify_is_printed_generically() -> None:
    with context():
        module = dialects.parse(program())
        module.body.operations[1].operation.attributes["threads"] = ir.StringAttr.get("none")
        assert dialects.get_asm(module) == generic(module)
        assert '"builtin.module"' in generic(module)


def test_attributes_may_have_names_of_operations() -> None:
    text = "func.func private @f() attributes {rtask.run, rtask.kernel = 1 : i64, rtask.program}\n"
    module = dialects.parse(text, context())
    assert "attributes {rtask.kernel = 1 : i64, rtask.program, rtask.run}" in str(module)


def test_bytecode_and_other_dialects_pass_through() -> None:
    text = "func.func private @f()"
    assert to_generic(text) is text or to_generic(text) == text
    assert str(dialects.parse(text, context())) == str(ir.Module.parse(text, context()))


def test_the_documented_example_is_read_and_printed() -> None:
    document = (Path(__file__).parent.parent / "docs" / "assembly.md").read_text()
    example = document.partition("```mlir\n")[2].partition("```")[0].replace("...", "return")
    printed = dialects.get_asm(dialects.parse(example, context()))
    assert "rtask.program" in example
    for number, name in enumerate("xty"):
        value = f"%arg{number // 2}" if name != "t" else "%alloc"
        example = re.sub(rf"%{name}\b", value, example.replace("%id", "%arg0"))
    program = example[example.index("rtask.program") :]
    assert program.split() == printed[printed.index("rtask.program") :].split()


def damaged(source: str, rng: random.Random) -> str:
    """Return a text with characters removed, repeated or replaced, or with its end cut off."""
    text = source
    for _ in range(rng.choice([1, 1, 2, 5])):
        begin = rng.randrange(len(text))
        end = begin + rng.choice([1, 2, 5, 30])
        change: Callable[[], str] = rng.choice(
            [
                lambda text=text, begin=begin: text[:begin],
                lambda text=text, begin=begin, end=end: text[:begin] + text[end:],
                lambda text=text, begin=begin, end=end: text[:end] + text[begin:],
                lambda text=text, begin=begin: (
                    text[:begin] + rng.choice('{}()[]<>",:@%#\\\n0-+.é/') + text[begin + 1 :]
                ),
            ]
        )
        text = change() or " "
    return text


def damaged_texts() -> Iterator[str]:
    """Yield 400 damaged texts, which are the same in every run."""
    rng = random.Random(0)
    sources = [program(run='r = "x"', veu="v"), stages("mlp")["program"][0]]
    for number in range(400):
        yield damaged(sources[number % 2], rng)


def test_damaged_text_is_read_or_refused() -> None:
    """Damaged text is read, or refused with an ``AssemblyError`` or an error of MLIR.

    An ``AssemblyError`` has a one-line message, and a line and a column that exist in the text.
    """
    refused = 0
    for text in damaged_texts():
        try:
            dialects.parse(text, context())
        except AssemblyError as error:
            refused += 1
            assert 1 <= error.line <= text.count("\n") + 1
            assert 0 <= error.column <= len(text.split("\n")[error.line - 1]) + 1
            assert re.fullmatch(r"expected .*, found .*", str(error)), error
        except ir.MLIRError:
            pass
    assert refused > 50


def test_the_column_of_an_error() -> None:
    text = program().replace("wait veu 0 @ 3", "wait veu 0 at 3")
    with pytest.raises(AssemblyError, match="found 'at'") as caught:
        dialects.parse(text, context())
    line = text.split("\n")[caught.value.line - 1]
    assert line.index("at 3") == caught.value.column - 1


def long_program(num_records: int) -> str:
    """Return a program with about ``num_records`` records, half of them runs."""
    record = "      run @k[0..3] of 0 (%a, %b)\n      wait veu 1 @ 0\n"
    text = program().replace("run @k[0..3] of 0 (%a, %b)\n", record * (num_records // 2))
    return text.replace("wait veu 0 @ 3", "run @k[0] of 0 (%a, %b)")


def test_long_programs_take_linear_time() -> None:
    def seconds(num_records: int) -> float:
        text = long_program(num_records)
        begin = time.perf_counter()
        translated = to_generic(text)
        taken = time.perf_counter() - begin
        printed = generic(dialects.parse(translated, context()))
        begin = time.perf_counter()
        assert to_readable(printed).count("wait veu 1 @ 0\n") == num_records // 2
        return taken + time.perf_counter() - begin

    short, long = (min(seconds(n) for _ in range(3)) for n in (500, 5000))
    assert long < 30 * short
    assert long < 3
