"""Tests that functions of external PTX replace their declarations in the PTX text of a program."""

from __future__ import annotations

import pytest

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.nvvm.device_functions import PtxModule, with_device_functions

HEADER = ".version {version}\n.target sm_80\n.address_size 64\n"

OWN = (
    HEADER.format(version="7.0")
    + """
\t// .globl\tprogram
.extern .func one
(
\t.param .b64 one_param_0
)
;
.extern .func two ( .param .b64 two_param_0 ) ;

.visible .entry program( .param .u64 .ptr program_param_0 )
{
\tcall.uni one, (param0);
\tcall.uni two, (param0);
\tret;
}
"""
)


def module(name: str, text: str, version: str = "7.0", *, symbols: tuple[str, ...]) -> PtxModule:
    return PtxModule.of(name, HEADER.format(version=version) + text, symbols)


def function(name: str, body: str = "ret;") -> str:
    return f".visible .func {name}(.param .b64 {name}_param_0)\n{{\n  {body}\n}}\n"


def test_nothing_changes_without_modules() -> None:
    assert with_device_functions(OWN, [], "sm_80") is OWN


def test_definitions_replace_declarations() -> None:
    table = "// { a comment\n.global .align 4 .b8 table[8] = {1, 2};\n"
    one = module("a", table + function("one", "{ ret; }"), "8.1", symbols=("one",))
    two = module("b", "/* .extern .func x; */" + function("two"), "7.8", symbols=("two",))
    found = with_device_functions(OWN, [one, two], "sm_80")
    assert found.startswith(".version 8.1\n.target sm_80\n.address_size 64\n")
    assert ".extern" not in found and found.count(".version") == found.count(".target") == 1
    places = [found.index(text) for text in ("table[8]", "func one", "func two", ".entry")]
    assert places == sorted(places)
    assert found.endswith(OWN[OWN.index(".visible .entry") :])


def test_versions_are_numbers() -> None:
    one = module("a", function("one") + function("two"), "10.0", symbols=("one", "two"))
    assert ".version 10.0" in with_device_functions(OWN, [one], "sm_90")


def test_functions_of_the_system_stay_declared() -> None:
    text = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    one = module("a", text + function("one") + function("two"), symbols=("one", "two"))
    assert "vprintf" in with_device_functions(OWN, [one], "sm_80")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (function("one") + function("helper"), "module 'b': .* own, found 'helper', which 'a'"),
        (function("program"), "module 'b': expected names of its own, found 'program', which"),
        (".extern .shared .align 4 .b8 all[];", "module 'b': expected definitions .* 'all'"),
        (".global .b32 helper;", "module 'b': .* own, found 'helper', which 'a'"),
    ],
    ids=["function", "kernel", "dynamic shared memory", "variable"],
)
def test_collisions(text: str, message: str) -> None:
    rest = function("one") + function("two") + function("helper")
    modules = [module("a", rest, symbols=("one", "two")), module("b", text, symbols=())]
    with pytest.raises(TargetError, match=message) as found:
        with_device_functions(OWN, modules, "sm_80")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((".target sm_80", ".target sm_80a"), "an older chip, found '.target sm_80a'"),
        ((".address_size 64", ".address_size 32"), "addresses of 64 bits, found 32"),
        ((".version 7.0", ""), "PTX that begins with '.version', found none"),
    ],
)  # fmt: skip
def test_headers(change: tuple[str, str], message: str) -> None:
    text = (HEADER.format(version="7.0") + function("one") + function("two")).replace(*change)
    with pytest.raises(TargetError, match=message):
        with_device_functions(OWN, [PtxModule.of("a", text, ("one", "two"))], "sm_80")
