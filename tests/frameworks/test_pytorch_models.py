"""Modules of PyTorch, through ONNX, torch.export and torch.compile, give torch's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import rammer_mlir
import rammer_mlir.pytorch
from rammer_mlir.benchmarks.frameworks.torch_networks import NAMES, network
from rammer_mlir.errors import InputError, ModelError, OptionError, ShapeError, UnsupportedError
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.pytorch.conversion import convert

X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    """Disable gradients during each test."""
    with torch.no_grad():
        yield


def assert_equal(found: Any, expected: Any) -> None:
    """Check that structures are equal, and tensors are equal to f32 precision."""
    flatten = torch.utils._pytree.tree_flatten
    ours, structure = flatten(found)
    others, expected_structure = flatten(expected)
    assert structure == expected_structure
    for one, other in zip(ours, others, strict=True):
        if isinstance(other, Tensor):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        else:
            assert one == other


@pytest.mark.parametrize("name", NAMES)
def test_three_ways_give_torchs_numbers(name: str, tmp_path: Path) -> None:
    module, arguments = network(name, small=True)
    expected = module(*arguments)
    precise = module.double()(*[a.double() if a.is_floating_point() else a for a in arguments])
    module.float()
    path = tmp_path / "model.onnx"
    torch.onnx.export(module, arguments, path, dynamo=True, verbose=False)
    with rammer_mlir.compile(path) as by_onnx:
        found = by_onnx.run(dict(zip(by_onnx.input_names, arguments, strict=True)))
    leaves = torch.utils._pytree.tree_leaves(precise)
    for one, other in zip(found.values(), leaves, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-3, atol=1e-5)
    with rammer_mlir.pytorch.compile(module, arguments) as by_export:
        result = by_export(*arguments)
        assert_equal(result, expected)
    for one, other in zip(found.values(), torch.utils._pytree.tree_leaves(result), strict=True):
        np.testing.assert_array_equal(one, other.numpy())  # it is the same program
    with torch._dynamo.config.patch(allow_rnn=True):
        torch._dynamo.reset()
        by_compile = torch.compile(
            module, backend=rammer_mlir.pytorch.rammer, options={"strict": True}, fullgraph=True
        )
        assert_equal(by_compile(*arguments), expected)


def test_an_executable_takes_arrays_by_name() -> None:
    module, (image,) = network("resnet18", small=True)
    with rammer_mlir.compile(module, inputs=(image,)) as executable:
        found = executable.run({"image": image.numpy()})
    assert list(found) == ["output"]
    np.testing.assert_allclose(found["output"], module(image).numpy(), rtol=1e-4, atol=1e-6)


def test_an_exported_program_is_a_model() -> None:
    module, arguments = network("encoder", small=True)
    program = torch.export.export(module, arguments)
    with rammer_mlir.compile(program) as executable:
        assert list(executable.input_names) == ["ids", "mask"]
        found = executable.run({"ids": arguments[0], "mask": arguments[1]})
    expected = module(*arguments)
    np.testing.assert_allclose(found["hidden"], expected["hidden"].numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(OptionError, match="inputs: expected a module, found an exported program"):
        rammer_mlir.compile(program, inputs=arguments)


def test_weights_stay_in_torchs_memory() -> None:
    layer = nn.Linear(64, 64).eval()
    source = convert(layer, torch.ones(2, 64)).source
    weights = load(source).weights
    assert source.proto.ByteSize() < 2048 < layer.weight.nbytes
    assert any(np.shares_memory(w, layer.weight.numpy()) for w in weights.values())
    assert all(not w.flags.writeable for w in weights.values())


def test_a_program_that_was_kept_has_the_weights_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a change of its weights, a module is compiled again: the cache's key depends on them.

    The model's proto does not contain the weights.
    """
    monkeypatch.setenv("RAMMER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("rammer_mlir.compiler.cache.WORTH_SECONDS", 0.0)
    layer, x = nn.Linear(64, 64).eval(), torch.randn(2, 64)
    for _ in range(2):
        assert_equal(rammer_mlir.pytorch.compile(layer, x)(x), layer(x))
        layer.weight.mul_(3)


def test_open_dimensions_have_the_names_of_their_dims() -> None:
    module, (ids, mask) = network("encoder", small=True)
    batch, tokens = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("tokens", max=16)
    open_axes = {0: batch, 1: tokens}
    compiled = rammer_mlir.pytorch.compile(
        module,
        (ids.repeat(2, 1), mask.repeat(2, 1)),
        dynamic_shapes={"ids": open_axes, "mask": open_axes},
    )
    assert isinstance(compiled.model, rammer_mlir.OpenModel)
    assert compiled.model.signature.symbols == ("batch", "tokens")
    for rows, columns in ((1, 7), (3, 5)):
        ids, mask = torch.randint(0, 50, (rows, columns)), torch.ones(rows, columns).bool()
        assert_equal(compiled(ids, mask), module(ids, mask))
    with pytest.raises(ShapeError, match=r"'ids': expected .*16 for dimension 'tokens', found 17"):
        compiled(torch.zeros(2, 17).long(), torch.ones(2, 17).bool())


def test_dimensions_without_a_name_are_known_by_their_place() -> None:
    automatic = torch.export.Dim.DYNAMIC
    made = rammer_mlir.compile(
        nn.Softmax(1).eval(), inputs=(X,), dynamic_shapes=({0: automatic},), specializations=2
    )
    assert isinstance(made, rammer_mlir.OpenModel) and made.signature.symbols == ("input[0]",)


class Nested(nn.Module):
    """A module that takes and returns nested structures of tensors and constants."""

    def forward(self, a: Tensor, *, scale: int, more: dict[str, Tensor]) -> dict[str, Any]:
        """Return an input, two equal results, and constants, in a nested structure."""
        return {"same": a, "list": [a * scale, None, scale, more["b"] + a], "a": a * scale}


def test_structures_are_the_modules_own() -> None:
    module = Nested().eval()
    arguments = {"a": X, "scale": 3, "more": {"b": X}}  # the same tensor twice
    compiled = rammer_mlir.pytorch.compile(module, arguments)
    other = torch.ones(3, 4)
    given = {"more": {"b": other}, "a": X, "scale": 3}
    assert_equal(compiled(**given), module(**given))
    with pytest.raises(InputError, match="expected the constant 3 of the example inputs, found 4"):
        compiled(a=X, scale=4, more={"b": X})
    with pytest.raises(InputError, match=r"expected arguments in the structure \(\(\), .*found"):
        compiled(X, 3, {"b": X})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_types_are_kept(dtype: torch.dtype) -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x

    x = X.to(dtype)
    found = rammer_mlir.pytorch.compile(Twice().eval(), x)(x)
    assert found.dtype == dtype
    torch.testing.assert_close(found, x + x)


def test_strided_tensors_and_those_with_gradients_are_taken() -> None:
    layer = nn.Linear(3, 2).eval()
    strided = X.clone().requires_grad_().T
    compiled = rammer_mlir.pytorch.compile(layer, torch.ones(4, 3))
    with torch.enable_grad():
        found = compiled(strided)
    assert not found.requires_grad
    torch.testing.assert_close(found, layer(strided.detach()))


class Counting(nn.Module):
    """A module that changes its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        """Increment the buffer, and return the sum of the buffer and ``x``."""
        self.count.add_(1)
        return x + self.count


class Function(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        """Return the function's result."""
        return self.function(x)


def spectrum(x: Tensor) -> Any:
    return torch.fft.fft(x), x * 2


def sums_of_pairs(x: Tensor) -> Any:
    return torch.view_as_real(x.resolve_conj()).sum(-1), x * 2


@pytest.mark.parametrize("function", [spectrum, sums_of_pairs])
def test_complex_numbers(function: Callable[[Tensor], Any]) -> None:
    """Complex inputs and outputs are complex tensors, though the ONNX model has pairs."""
    x = X if function is spectrum else torch.complex(X, X * 2 - 1)
    compiled = rammer_mlir.pytorch.compile(Function(function).eval(), x)
    for given in (x, x * 3, x.conj()):
        for found, wanted in zip(compiled(given), function(given), strict=True):
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(found, wanted)


def test_results_that_the_exporter_converts_wrongly_are_refused() -> None:
    module = Function(lambda x: torch.argmax(x, keepdim=True)).eval()
    message = r"expected int64\[1, 1\] of torch.export, found int64\[1\] in the model that torch"
    with pytest.raises(UnsupportedError, match=message):
        rammer_mlir.pytorch.compile(module, X)


REFUSED = {
    "buffer": (Counting(), UnsupportedError, "changes 'count' .buffer mutation."),
    "input": (Function(lambda x: x.add_(1)), UnsupportedError, "changes 'x' .user input mutation."),
    "random": (Function(torch.rand_like), UnsupportedError, "draws random numbers"),
    "branch": (
        Function(lambda x: x if x.sum() > 0 else -x), ModelError,
        "torch.export cannot export the module Function: .*torch.compile",
    ),
    "operator": (
        Function(torch.linalg.svd), UnsupportedError,
        "torch.onnx cannot convert the program: .*_linalg_svd",
    ),
    "constant": (Function(lambda x: 3), UnsupportedError, "returns constants alone"),
}  # fmt: skip


@pytest.mark.parametrize(("module", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_in_a_line(module: nn.Module, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        rammer_mlir.compile(module.eval(), inputs=(X.clone(),))
    assert "\n" not in str(caught.value)


def test_what_does_not_go_together_is_refused() -> None:
    layer = nn.Linear(4, 4)
    with pytest.raises(UnsupportedError, match=r"Linear is in training mode: .*call its eval\(\)"):
        rammer_mlir.compile(layer, inputs=(X,))
    with pytest.raises(OptionError, match="inputs: expected example inputs of the module"):
        rammer_mlir.compile(layer.eval())
    with pytest.raises(UnsupportedError, match=r"TorchScript: expected .*torch\.export\.export"):
        rammer_mlir.compile(torch.jit.trace(layer, (X,)), inputs=(X,))
    with pytest.raises(OptionError, match="inputs: expected a module of PyTorch, found another"):
        rammer_mlir.compile("model.onnx", inputs=(X,))
    with pytest.raises(InputError, match="'input': expected a dense tensor on the CPU, found dev"):
        rammer_mlir.pytorch.compile(layer, X)(X.to("meta"))
