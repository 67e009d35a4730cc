"""Tests that ``torch.compile`` compiles graphs with the back end ``rammer``.

Graphs that the back end cannot compile are run by torch, after a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rammer_mlir.pytorch import dynamo, rammer

X = torch.linspace(-2, 2, 12).reshape(3, 4)
_UNGUARDED = torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe
BY_TORCH = "a graph of torch.compile is run by torch: "


@pytest.fixture(autouse=True)
def fresh_graphs() -> None:
    """Clear the graphs that torch compiled for other tests."""
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return the function that torch.compile makes of ``function`` with the back end ``rammer``."""
    return torch.compile(function, backend=rammer, options=options)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the back end's messages about graphs that torch runs."""
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith(BY_TORCH)]


def test_torch_finds_the_back_end_by_its_entry_point() -> None:
    (found,) = entry_points(group="torch_dynamo_backends", name="rammer")
    assert found.load() is rammer
    assert "rammer" in torch._dynamo.list_backends()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(torch.tanh, backend="rammer")(X), torch.tanh(X))


def test_a_graph_break_gives_two_graphs(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.sin(x)
        if y.sum() > 0:
            y = y * 2
        return y.cos()

    found = compiled(function, strict=True)
    with torch.no_grad():
        for x in (X, X + 1):
            torch.testing.assert_close(found(x), function(x))
    assert warnings_of(caplog) == []


def test_each_size_is_compiled() -> None:
    layer = nn.Linear(4, 2).eval()
    found = compiled(layer, strict=True, specializations=2)
    with torch.no_grad():
        for rows in (3, 5, 7, 1, 5):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(found(x), layer(x))


def test_no_specializations_are_refused() -> None:
    found = compiled(nn.Linear(4, 2).eval(), specializations=0)
    with pytest.raises(Exception, match="specializations: expected an integer of at least 1"):
        found(torch.randn(3, 4))


def test_numbers_are_constants() -> None:
    def function(x: Tensor, n: int) -> Tensor:
        return x.reshape(-1, n) * n

    found = torch.compile(function, backend=rammer, dynamic=True, options={"strict": True})
    with torch.no_grad():
        for n in (3, 2, 6):
            torch.testing.assert_close(found(X, n), function(X, n))


def _quotient(x: Tensor, number: float) -> tuple[Tensor]:
    return (x / number,)


def test_numbers_are_told_apart_by_their_bits() -> None:
    graph = torch.fx.symbolic_trace(_quotient)
    found = rammer(graph, [X, 1.0], strict=True)
    with torch.no_grad():
        for number in (0.0, -0.0, float("nan")):
            torch.testing.assert_close(found(X, number)[0], X / number, equal_nan=True)


def test_a_nan_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = torch.fx.symbolic_trace(_quotient)
    found = rammer(graph, [X, 1.0], strict=True)
    with torch.no_grad():
        found(X, float("nan"))
        monkeypatch.setattr(dynamo, "compile", None)
        found(X, float("nan"))


@pytest.mark.parametrize("options", [{}, {"guard_filter_fn": _UNGUARDED}])
@pytest.mark.parametrize("change", ["in_place", "data", "load"])
def test_changed_weights_are_compiled_again(change: str, options: dict[str, Any]) -> None:
    layer = nn.Linear(4, 2).eval()
    found = compiled(layer, strict=True, **options)
    with torch.no_grad():
        torch.testing.assert_close(found(X), layer(X))
        if change == "in_place":
            layer.weight.mul_(2)
        elif change == "data":
            layer.weight.data = torch.randn(2, 4)
        else:
            layer.load_state_dict(nn.Linear(4, 2).state_dict())
        torch.testing.assert_close(found(X), layer(X))


def test_with_gradients_torch_runs_the_graph(caplog: pytest.LogCaptureFixture) -> None:
    layer = nn.Linear(4, 2).eval()
    found = compiled(layer)
    for _ in range(2):
        found(X).sum().backward()
    assert layer.weight.grad is not None
    (message,) = warnings_of(caplog)
    assert "gradients are asked for; run it within torch.no_grad()" in message
    with pytest.raises(Exception, match="the graph cannot be compiled: gradients are asked for"):
        compiled(nn.Linear(4, 2).eval(), strict=True)(X)


def test_what_cannot_be_compiled_is_run_by_torch_after_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.linalg.svd(x)[1]

    found = compiled(function)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(found(X), function(X))
        (message,) = warnings_of(caplog)
        assert "_linalg_svd" in message and "\n" not in message
        with pytest.raises(Exception, match="_linalg_svd"):
            compiled(function, strict=True)(X)


def test_side_effects_are_torchs(caplog: pytest.LogCaptureFixture) -> None:
    norm = nn.BatchNorm1d(4).train()
    expected = nn.BatchNorm1d(4).train()
    with torch.no_grad():
        torch.testing.assert_close(compiled(norm)(X), expected(X))
    torch.testing.assert_close(norm.running_mean, expected.running_mean)

    def function(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    x = X.clone()
    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), (X + 1) * 2)
    torch.testing.assert_close(x, X + 1)
    assert all("changes '" in message for message in warnings_of(caplog))
    assert len(warnings_of(caplog)) == 2


def test_views_of_inputs_are_torchs(caplog: pytest.LogCaptureFixture) -> None:
    """A result that shares memory with an input still does, so that writes to it reach both."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(-1), x + 1

    x = X.clone()
    with torch.no_grad():
        view, _ = compiled(function)(x)
        view[0] = 7
        assert x[0, 0] == 7
        (message,) = warnings_of(caplog)
        assert "result 'view' is a view of 'L_x_'; return a copy" in message
        with pytest.raises(Exception, match="is a view of"):
            compiled(function, strict=True)(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"polic": "list"}, "polic: unknown option"),
        ({"policy": "no such"}, "no such"),
        ({"strict": 1}, "strict: expected True or False, found 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with torch.no_grad(), pytest.raises(Exception, match=message):
        compiled(torch.tanh, **options)(X)


def test_options_are_those_of_compile(caplog: pytest.LogCaptureFixture) -> None:
    with torch.no_grad(), caplog.at_level(logging.INFO, logger="rammer_mlir"):
        compiled(torch.tanh, policy="sequential", num_veus=1, cache=False)(X)
    assert any("policy sequential, 1 vEUs" in r.getMessage() for r in caplog.records)
