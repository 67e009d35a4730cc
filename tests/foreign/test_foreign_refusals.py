"""Operations that cannot be compiled are refused all at once, each with its location and advice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.errors import ModelError, OptionError, ShapeError, UnsupportedError

ADD = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = arith.addf %a, %a : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""

TWO = """
func.func @double(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = arith.addf %a, %a : tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @square(%a: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.mulf %a, %a : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""

REFUSED = {
    "memref": (
        "func.func @f(%a: memref<8xf32>) { return }\n",
        r"the module:1:1: 'func.func': argument 0: expected a tensor, found memref<8xf32>; give",
    ),
    "blocks": (
        "func.func @f(%a: tensor<4xf32>, %c: i1) -> tensor<4xf32> {\n  cf.cond_br %c, ^b, ^e\n^b:\n"
        "  return %a : tensor<4xf32>\n^e:\n  llvm.unreachable\n}\n",
        "expected one block, found 3; give structured control flow",
    ),
    "complex": (
        "func.func @f(%a: tensor<4xcomplex<f16>>) -> tensor<4xcomplex<f16>> {\n"
        "  return %a : tensor<4xcomplex<f16>>\n}\n",
        r"argument 0: expected elements of .*complex<f32>, .*found tensor<4xcomplex<f16>>; convert",
    ),
    "unranked": (
        "func.func @f(%a: tensor<*xf32>) -> tensor<*xf32> {\n  return %a : tensor<*xf32>\n}\n",
        r"expected a tensor with a number of dimensions, found tensor<\*xf32>; give it a shape",
    ),
    "scatter": (
        "func.func @f(%u: tensor<3x1x5xf32>, %t: tensor<7x5xf32>, %ix: tensor<3x1xindex>)"
        " -> tensor<7x5xf32> {\n  %r = tensor.scatter %u into %t[%ix] scatter_dims([0]) unique :"
        " (tensor<3x1x5xf32>, tensor<7x5xf32>, tensor<3x1xindex>) -> tensor<7x5xf32>\n"
        "  return %r : tensor<7x5xf32>\n}\n",
        r"the module:2:8: 'tensor.scatter': expected .* found 'tensor.scatter'; lower it to linalg",
    ),
    "endless loop": (
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %z = arith.constant 0 : index\n"
        "  %n = arith.constant 3 : index\n"
        "  %r = scf.for %i = %z to %n step %z iter_args(%x = %a) -> tensor<4xf32> {\n"
        "    %y = math.exp %x : tensor<4xf32>\n    scf.yield %y : tensor<4xf32>\n  }\n"
        "  return %r : tensor<4xf32>\n}\n",
        r"the module:4:8: 'scf.for': expected a positive step, found 0; count upwards",
    ),
    "computed size": (
        "func.func @f(%n: index) -> tensor<?xf32> {\n  %c = arith.constant 1.0 : f32\n"
        "  %r = tensor.splat %c[%n] : tensor<?xf32>\n  return %r : tensor<?xf32>\n}\n",
        r"the module:3:8: 'tensor.splat': expected a static shape, found tensor<\?xf32>; let",
    ),
    "sparse constant": (
        "func.func @f() -> tensor<4xf32> {\n"
        "  %c = arith.constant sparse<[[0], [2]], [1.0, 2.0]> : tensor<4xf32>\n"
        "  return %c : tensor<4xf32>\n}\n",
        r"the module:2:8: 'arith.constant': expected dense values, found sparse ones; write dense",
    ),
    "unknown dialect": (
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %r = foo.bar %a : tensor<4xf32>\n"
        "  return %r : tensor<4xf32>\n}\n",
        r"the module:2:8: Dialect `foo' not found for custom op 'foo.bar'; lower it to linalg, TO",
    ),
    "unregistered operation": (
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %r = "foo.bar"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  return %r : tensor<4xf32>\n}\n",
        r"the module:2:17: .*unregistered dialect.*; lower it to linalg, TOSA or StableHLO",
    ),
    "wide integers": (
        "func.func @f(%a: tensor<4xi128>) -> tensor<4xi128> {\n  return %a : tensor<4xi128>\n}\n",
        r"expected elements of integers of at most 64 bits, .*found tensor<4xi128>; convert them",
    ),
    "many dimensions": (
        f"func.func @f(%a: tensor<{'1x' * 70}f32>) -> tensor<{'1x' * 70}f32> {{\n"
        f"  return %a : tensor<{'1x' * 70}f32>\n}}\n",
        r"the module:1:1: 'func.func': argument 0: expected at most 64 dimensions, found 70; resh",
    ),
    "collective": (
        "func.func @f() -> tensor<ui32> {\n"
        "  %r = stablehlo.partition_id : tensor<ui32>\n  return %r : tensor<ui32>\n}\n",
        r"the module:2:8: 'stablehlo.partition_id': expected a program of one device, found .*; c",
    ),
    "name": (
        'func.func @f(%a: tensor<4xf32> {rtask.name = "a\\0Ab"}) -> tensor<4xf32> {\n'
        "  return %a : tensor<4xf32>\n}\n",
        r"function 'f': expected inputs with names of printable characters, found 'a\\nb'; change",
    ),
    "huge tensor": (
        "func.func @f(%a: tensor<1000000x1000000xf32>) -> tensor<1000000x1000000xf32> {\n"
        "  %r = math.exp %a : tensor<1000000x1000000xf32>\n"
        "  return %r : tensor<1000000x1000000xf32>\n}\n",
        r"expected tensors of at most \d+ bytes, found .* of 4000000000000; give smaller shapes",
    ),
    "many rTasks": (
        "func.func @f(%a: tensor<100000x1000000xf32>) -> tensor<100000x1000000xf32> {\n"
        "  %r = math.exp %a : tensor<100000x1000000xf32>\n"
        "  return %r : tensor<100000x1000000xf32>\n}\n",
        r"expected an rOperator of at most \d+ rTasks, found \d+; give smaller shapes",
    ),
    "bits of complex numbers": (
        "func.func @f(%a: tensor<complex<f64>>) -> tensor<2xcomplex<f32>> {\n"
        "  %r = stablehlo.bitcast_convert %a : (tensor<complex<f64>>) -> tensor<2xcomplex<f32>>\n"
        "  return %r : tensor<2xcomplex<f32>>\n}\n",
        r"the module:2:8: 'stablehlo.bitcast_convert': expected real numbers, found .*; give real",
    ),
    "order of complex numbers": (
        "func.func @f(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {\n"
        "  %r = stablehlo.maximum %a, %a : tensor<4xcomplex<f32>>\n"
        "  return %r : tensor<4xcomplex<f32>>\n}\n",
        r"the module:2:8: 'stablehlo.maximum': expected real numbers, found .*; give real",
    ),
    "long transform": (
        "func.func @f(%a: tensor<4096xcomplex<f32>>) -> tensor<4096xcomplex<f32>> {\n"
        "  %r = stablehlo.fft %a, type = FFT, length = [4096]"
        " : (tensor<4096xcomplex<f32>>) -> tensor<4096xcomplex<f32>>\n"
        "  return %r : tensor<4096xcomplex<f32>>\n}\n",
        r"the module:2:8: 'stablehlo.fft': .*give static shapes and at most 2048 elements along",
    ),
    "random numbers": (
        "func.func @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<4xf32> {\n"
        "  %s = stablehlo.constant dense<4> : tensor<1xi64>\n"
        "  %r = stablehlo.rng %a, %b, %s, distribution = NORMAL"
        " : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>\n"
        "  return %r : tensor<4xf32>\n}\n",
        r"the module:3:8: 'stablehlo.rng': .*give random numbers as an argument, or use rng_bit_",
    ),
    "recursion": (
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %r = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  return %r : tensor<4xf32>\n}\n",
        r"the module:2:8: 'func.call': .*make the callee private and give it a body",
    ),
    "states of a while loop": (
        "func.func @f(%a: tensor<4xf32>, %n: i32, %c: i1) -> (tensor<4xf32>, i32) {\n"
        "  %r:2 = scf.while (%x = %a) : (tensor<4xf32>) -> (tensor<4xf32>, i32) {\n"
        "    %i = arith.constant 0 : index\n"
        "    %v = tensor.extract %x[%i] : tensor<4xf32>\n"
        "    %d = arith.fptosi %v : f32 to i32\n"
        "    %t = arith.cmpi slt, %d, %n : i32\n"
        "    scf.condition(%t) %x, %d : tensor<4xf32>, i32\n"
        "  } do {\n  ^bb0(%y: tensor<4xf32>, %e: i32):\n"
        "    %z = arith.addf %y, %y : tensor<4xf32>\n    scf.yield %z : tensor<4xf32>\n  }\n"
        "  return %r#0, %r#1 : tensor<4xf32>, i32\n}\n",
        "the module:2:10: 'scf.while': expected equal states in front of the condition and behind",
    ),
    "cubic root of complex numbers": (
        "func.func @f(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {\n"
        "  %r = stablehlo.cbrt %a : tensor<4xcomplex<f32>>\n"
        "  return %r : tensor<4xcomplex<f32>>\n}\n",
        r"the module:2:8: 'stablehlo.cbrt': .*give real numbers, or a power of the complex ones",
    ),
    "tuple": (
        "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %t = stablehlo.tuple %a : tuple<tensor<4xf32>>\n"
        "  %r = stablehlo.get_tuple_element %t[0] : (tuple<tensor<4xf32>>) -> tensor<4xf32>\n"
        "  return %r : tensor<4xf32>\n}\n",
        r"the module:2:8: 'stablehlo.tuple': .*pass its elements as values of their own",
    ),
    "syntax": ("func.func @f( {\n}\n", r"the module:1:14: expected"),
    "no function": ("module {\n}\n", "expected a public func.func with a body, found none"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises((UnsupportedError, ModelError), match=message):
        rammer_mlir.compile(text, cache=False)


def test_all_findings_come_at_once() -> None:
    text = REFUSED["scatter"][0].replace(
        "  return %r", "  %x = call @g(%r) : (tensor<7x5xf32>) -> tensor<7x5xf32>\n  return %x"
    )
    with pytest.raises(UnsupportedError) as found:
        rammer_mlir.compile(f"{text}func.func private @g(tensor<7x5xf32>) -> tensor<7x5xf32>\n")
    assert "the module:2:8: 'tensor.scatter'" in str(found.value)
    assert "the module:3:8: 'func.call'" in str(found.value)


def test_several_functions_are_entries(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(TWO)
    array = np.arange(4, dtype=np.float32)
    exe = rammer_mlir.compile(path, cache=False)
    assert isinstance(exe, rammer_mlir.EntriesModel)
    assert list(exe.entries) == ["double", "square"]
    np.testing.assert_array_equal(exe.entries["double"](array), array * 2)
    np.testing.assert_array_equal(exe.entries["square"](array), array**2)
    with pytest.raises(OptionError, match=r"expected one of the entries 'double', 'square'"):
        exe(array)
    with pytest.raises(OptionError, match=r"write exe.entries\[NAME\].timeline\(\.\.\.\)"):
        exe.timeline(tmp_path / "none.html", {"x": array})
    exe.save(tmp_path / "two.rammer")
    exe.close()
    loaded = rammer_mlir.load(tmp_path / "two.rammer")
    assert isinstance(loaded, rammer_mlir.EntriesModel)
    np.testing.assert_array_equal(loaded.entries["square"](array), array**2)
    loaded.close()
    with rammer_mlir.compile(path, entry="square", dims={"arg0[0]": 6}, cache=False) as one:
        assert one.signature.inputs[0].shape == (6,)
    with pytest.raises(OptionError, match=r"entry: expected a public function .*found 'cube'"):
        rammer_mlir.compile(path, entry="cube")
    with pytest.raises(ShapeError, match=r"unknown open dimension 'rows': expected one of 'arg0"):
        rammer_mlir.compile(path, dims={"rows": 6})


def test_a_module_of_the_bindings_is_a_model() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(ADD)
        with rammer_mlir.compile(module, cache=False) as exe:
            found = exe(np.ones(4, np.float32))
    np.testing.assert_array_equal(found, np.full(4, 2, np.float32))
    assert "arith.addf" in str(module)  # it stays as it is


def test_options_of_other_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "add.mlir"
    path.write_text(ADD)
    with pytest.raises(OptionError, match="external_data: expected an ONNX model, found MLIR"):
        rammer_mlir.compile(path, external_data=tmp_path)  # type: ignore[call-overload]
    with pytest.raises(ModelError, match=r"cannot read '.*none.mlir': No such file"):
        rammer_mlir.compile(tmp_path / "none.mlir")
    with pytest.raises(OptionError, match="constants: cannot read"):
        rammer_mlir.compile(path, constants=tmp_path / "none.npz")
