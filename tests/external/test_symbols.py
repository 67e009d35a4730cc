"""Tests that external code must define all symbols that it uses.

Damaged objects are refused before they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.external.linking import linked_objects
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine

IR = """
declare i32 @{declared}({type})
define i32 @run() {{
  %status = {computed}
  ret i32 %status
}}
"""


def ir(declared: str, computed: str = "", parameter: str = "") -> str:
    computed = computed or f"call i32 @{declared}()"
    return IR.format(declared=declared, computed=computed, type=parameter)


def foreign(content: str | bytes, form: str, objects: tuple[bytes, ...] = ()) -> ForeignCode:
    data = content.encode() if isinstance(content, str) else content
    return ForeignCode("foreign", form, data, ("run",), objects=objects)


def objects_of(code: ForeignCode) -> tuple[bytes, ...]:
    return linked_objects([code], host_machine())


def in_form(text: str, form: str) -> str | bytes:
    return text if form == "llvm" else emit_object(text, host_machine())


@pytest.mark.parametrize("form", ["llvm", "object"])
class TestNames:
    """Code in LLVM IR or in an object is refused if a symbol that it uses is not defined."""

    def test_undefined_is_named(self, form: str, capfd: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(TargetError) as raised:
            objects_of(foreign(in_form(ir("no_such_function"), form), form))
        assert str(raised.value) == (
            "module 'foreign': expected definitions of all symbols that it uses, found none of "
            "'no_such_function'; add objects that define them, or mend the code"
        )
        assert capfd.readouterr().err == "", "LLVM printed a line of its own"

    def test_undefined_variable_is_named(self, form: str) -> None:
        text = "@no_such = external global i32\n" + ir("abs", "load i32, ptr @no_such", "i32")
        with pytest.raises(TargetError, match="found none of 'no_such'"):
            objects_of(foreign(in_form(text, form), form))

    def test_further_object_defines(self, form: str) -> None:
        helper = emit_object("define i32 @helper() {\n  ret i32 0\n}", host_machine())
        code = foreign(in_form(ir("helper"), form), form, (helper,))
        assert objects_of(code)[-1] == helper

    @pytest.mark.parametrize("name", ["abs", "ilogbf"])
    def test_libraries_of_c_define(self, form: str, name: str) -> None:
        kind = "i32 7" if name == "abs" else "float 1.0"
        text = ir(name, f"call i32 @{name}({kind})", kind.split()[0])
        objects_of(foreign(in_form(text, form), form))

    def test_weak_symbol_may_be_undefined(self, form: str) -> None:
        text = ir("abs", "ptrtoint ptr @perhaps to i32", "i32")
        text = f"@perhaps = extern_weak global i32\n{text}"
        objects_of(foreign(in_form(text, form), form))

    def test_unused_declaration_needs_no_definition(self, form: str) -> None:
        text = ir("no_such_function", "add i32 0, 0")
        objects_of(foreign(in_form(text, form), form))

    def test_called_function_is_missing(self, form: str) -> None:
        text = ir("abs", "add i32 0, 0", "i32").replace("@run", "@other")
        with pytest.raises(TargetError, match="expected a definition of the function 'run', found"):
            objects_of(foreign(in_form(text, form), form))

    def test_internal_function_is_not_seen(self, form: str) -> None:
        text = ir("abs", "add i32 0, 0", "i32").replace("define i32", "define internal i32")
        text += "define ptr @other() {\n  ret ptr @run\n}"
        with pytest.raises(TargetError, match="expected a definition of the function 'run', found"):
            objects_of(foreign(in_form(text, form), form))


def replaced(content: bytes) -> Callable[[bytes], bytes]:
    return lambda whole: content


def far_sections(whole: bytes) -> bytes:
    return whole[:40] + b"\xff" * 8 + whole[48:]


def cut(share: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(len(content) * share)]


def flipped(position: int) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        return content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :]

    return flip


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (replaced(b""), "found 'The file was not recognized as a valid object file'"),
        (replaced(b"text"), "found 'The file was not recognized as a valid object file'"),
        (cut(0.3), "found 'a damaged ELF file, or one that is not relocatable'"),
        (cut(0.9), "found 'a damaged ELF file, or one that is not relocatable'"),
        (flipped(16), "found 'a damaged ELF file, or one that is not relocatable'"),
        (flipped(18), "found 'one for another processor, machine"),
        (flipped(40), "found 'a damaged ELF file, or one that is not relocatable'"),
        (
            far_sections,
            "found 'a damaged ELF file, or one that is not relocatable'",
        ),
        (flipped(62), "found 'a damaged ELF file, or one that is not relocatable'"),
    ],
    ids=["empty", "text", "cut", "cut late", "type", "machine", "sections", "far", "names"],
)
def test_damaged_object_is_refused(damage: Callable[[bytes], bytes], found: str) -> None:
    """A damaged object is refused in one line; LLVM's own reader would end the process or print.

    The arguments of ``flipped`` are offsets in the ELF header.
    """
    whole = emit_object(ir("abs", "call i32 @abs(i32 7)", "i32"), host_machine())
    with pytest.raises(TargetError) as raised:
        objects_of(foreign(damage(whole), "object"))
    assert str(raised.value).startswith(
        "module 'foreign': expected an object that this process can load, found"
    )
    assert found in str(raised.value)
    assert "\n" not in str(raised.value)


def test_object_of_another_target_is_not_loaded() -> None:
    """An object for another machine is linked unchecked: a check would have to load the object."""
    machine = Machine("aarch64-unknown-linux-gnu", "generic", "", 128)
    content = emit_object(ir("no_such_function"), machine)
    assert linked_objects([foreign(content, "object")], machine) == (content,)
