"""Without PyTorch or JAX, or with an old version, an error says which package to install."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import rammer_mlir.jax
import rammer_mlir.pytorch
from rammer_mlir.errors import MissingPackageError
from rammer_mlir.frontends.jax.package import is_lowered_function, jax_package
from rammer_mlir.frontends.pytorch.package import is_pytorch_model, pytorch


class Module:
    """A stand-in for a module of PyTorch."""

    training = False

    def eval(self) -> Module:
        """Return the module, as PyTorch does."""
        return self


CALLS: dict[str, Callable[[], Any]] = {
    "torch": lambda: rammer_mlir.pytorch.compile(Module(), (1,)),
    "jax": lambda: rammer_mlir.jax.jit(abs),
}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Clear the caches of the imported packages before each test."""
    pytorch.cache_clear()
    jax_package.cache_clear()


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    advice = rf"needs the package '{name}': .*'pip install \"rammer-mlir\[{name}\]\"'"
    with pytest.raises(MissingPackageError, match=advice) as caught:
        CALLS[name]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
def test_an_old_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType(name)
    vars(old).update(__version__="0.4.31", __version_info__=(0, 4, 31))
    monkeypatch.setitem(sys.modules, name, old)
    with pytest.raises(MissingPackageError, match=r"or newer, found 0\.4\.31; install it with"):
        CALLS[name]()


def test_other_models_do_not_ask_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "jax", "jax.stages"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert not is_pytorch_model(b"") and not is_lowered_function(b"")
    assert not {"torch", "jax"} & sys.modules.keys()
