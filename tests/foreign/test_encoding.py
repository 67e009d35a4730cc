"""Names in MLIR that are not UTF-8 are refused before a callback of MLIR converts them."""

from __future__ import annotations

import io
import random

import pytest

import rammer_mlir
from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.assembly.encoding import check_encoding
from rammer_mlir.errors import AssemblyError, ModelError

EXP = "%y = math.exp %x : tensor<4xf32>"


def function(name: str = "@main", attributes: str = "", location: str = "") -> str:
    """Return MLIR text of a function on three lines.

    Args:
        name: the function's symbol.
        attributes: text of the argument's attributes.
        location: text of the location of the operation on the second line.
    """
    return (
        f"func.func {name}(%x: tensor<4xf32>{attributes}) -> tensor<4xf32> {{\n"
        f"  {EXP} {location}\n  return %y : tensor<4xf32> }}\n"
    )


def bytecode(text: str) -> bytes:
    """Return a module as bytecode."""
    with ir.Context() as context:
        dialects.register(context)
        buffer = io.BytesIO()
        dialects.parse(text).operation.write_bytecode(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (function(location=r'loc("n\FFm")'), 2),
        (function(name=r'@"a\FF"'), 1),
        (function(attributes=r' {rtask.name = "\C3"}'), 1),
        (function() + r'"rtask.module"() {sym_name = "\FF", form = "c", code = "x"} : () -> ()', 4),
    ],
    ids=["location", "symbol", "attribute", "module"],
)
def test_a_text_that_is_not_utf8(text: str, line: int) -> None:
    with pytest.raises(ModelError, match=rf"module:{line}: expected names .* in UTF-8, found b'"):
        rammer_mlir.compile(text)


@pytest.mark.parametrize("name", [b"label", b"exp", b"main", b"func"])
def test_bytecode_with_a_text_that_is_not_utf8(name: bytes) -> None:
    content = bytecode(function(location='loc("label")'))
    damaged = content.replace(b"\0" + name + b"\0", b"\0\xff" + name[1:] + b"\0")
    assert damaged != content
    with pytest.raises(ModelError, match=r"the module: expected names .* found b'.xff"):
        rammer_mlir.compile(damaged)


def test_bytecode_with_an_attribute_that_is_not_utf8() -> None:
    """An attribute in bytecode that is not UTF-8 is refused.

    Bytecode has attributes as assembly, and MLIR's error gives a position in this assembly.
    """
    content = bytecode(function())
    damaged = content.replace(b"fastmath<none>", b"fastmath<non\xe8>")
    assert damaged != content
    with pytest.raises(ModelError, match="the module:1:20: unexpected character"):
        rammer_mlir.compile(damaged)


def test_texts_in_utf8_and_comments() -> None:
    """Escaped UTF-8 and escaped backslashes are accepted in names; comments are not checked."""
    text = "// \"it's \\FF\n" + function(attributes=r' {rtask.name = "\C3\A4 \\FF"}')
    with rammer_mlir.compile(text) as executable:
        assert executable.input_names == ["ä \\FF"]
    check_encoding(bytecode(text))


@pytest.mark.parametrize(
    "text",
    [
        r'llvm.mlir.global private constant @data("\FF\FE")',
        r'"rtask.module"() {sym_name = "m", form = "object", code = "\7FELF\FF"} : () -> ()',
    ],
)
def test_data_may_have_any_bytes(text: str) -> None:
    content = bytecode(text)
    check_encoding(content)
    check_encoding(text)
    with pytest.raises(AssemblyError, match="UTF-8"):
        check_encoding(text + "\n" + function(name=r'@"a\FF"'))


def test_damaged_bytecode_is_left_to_mlir() -> None:
    """The check of damaged bytecode accepts it, or refuses a text, and raises no other error."""
    content, chosen = bytecode(function()), random.Random(5)
    for _ in range(500):
        damaged = bytearray(content[: chosen.randrange(len(content) + 1)])
        for _ in range(min(4, len(damaged))):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        try:
            check_encoding(bytes(damaged))
        except AssemblyError as error:
            assert error.line == 0
