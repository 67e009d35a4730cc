"""Tests that compiled functions of JAX, and their gradients, give JAX's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rammer_mlir
import rammer_mlir.jax
from rammer_mlir.benchmarks.frameworks import jax_networks as networks
from rammer_mlir.errors import InputError, OptionError, RammerError, UnsupportedError
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.support.aligned import address_of

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((5, 3)).astype(np.float32)
IMAGES = RANDOM.standard_normal((2, 12, 12, 3)).astype(np.float32)
PLANES = RANDOM.standard_normal((2, 3, 32, 32)).astype(np.float32)
LABELS = np.array([3, 0], np.int32)
IDS = np.array([4, 9, 4, 1, 30, 9, 2, 7], np.int32)  # words that come twice add their gradients


def assert_equal(found: Any, expected: Any) -> None:
    """Check that structures, shapes and types are equal, and numbers are equal to f32 precision."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


NETWORKS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "convolutional": (
        networks.convolutional, (networks.convolutional_parameters(), IMAGES),
    ),
    "convolutional gradient": (
        jax.value_and_grad(networks.convolutional_loss),
        (networks.convolutional_parameters(), IMAGES, LABELS),
    ),
    "residual": (networks.residual, (networks.residual_parameters(8, 2, 5), PLANES)),
    "residual gradient": (
        jax.value_and_grad(networks.residual_loss),
        (networks.residual_parameters(8, 2, 5), PLANES, LABELS),
    ),
    "transformer": (networks.transformer, (networks.transformer_parameters(), IDS)),
    "transformer gradient": (
        jax.value_and_grad(networks.transformer_loss), (networks.transformer_parameters(), IDS),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), NETWORKS.values(), ids=NETWORKS)
def test_networks_and_their_gradients(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    assert_equal(rammer_mlir.jax.jit(function)(*arguments), jax.jit(function)(*arguments))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "erf": jax.scipy.special.erf,
    "argmax": lambda x: jnp.argmax(x, -1),
    "cumulative sum": jnp.cumsum,
    "set": lambda x: x.at[jnp.array([1, 3])].set(2.0),
    "add twice": lambda x: x.at[jnp.array([1, 1, 9])].add(x[:3], mode="drop"),
    "multiply": lambda x: x.at[2, 1:].multiply(3.0),
    "sort": lambda x: jnp.sort(x.at[0, 1].set(jnp.nan)),
    "places of a sort": lambda x: jnp.argsort(x, 0),
    "greatest": lambda x: jax.lax.top_k(x, 2),
    "scan": lambda x: jax.lax.scan(lambda c, row: (jnp.tanh(c + row),) * 2, x[0] * 0, x),
    "condition": lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "gradient of overlapping pools": jax.grad(
        lambda x: (
            jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 2), (2, 1), "SAME") ** 2
        ).sum()
    ),
    "spectrum": lambda x: jnp.fft.fft(x),
    "nothing of it": lambda x: jnp.zeros(2),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(function: Callable[[Any], Any]) -> None:
    assert_equal(rammer_mlir.jax.jit(function)(X), jax.jit(function)(X))


def test_a_lowered_function_is_a_model() -> None:
    parameters = networks.convolutional_parameters()
    lowered = jax.jit(networks.convolutional).lower(parameters, IMAGES)
    with rammer_mlir.compile(lowered) as executable:
        leaves = jax.tree.leaves((parameters, IMAGES))
        found = executable.run({f"arg{n}": leaf for n, leaf in enumerate(leaves)})
    np.testing.assert_allclose(
        found["result0"], networks.convolutional(parameters, IMAGES), rtol=1e-4, atol=1e-5
    )


def test_structures_types_and_shapes_are_compiled_each() -> None:
    @rammer_mlir.jax.jit(static_argnums=1, num_veus=1)
    def scaled(values: Any, power: int, *, factor: Any) -> Any:
        return {name: (value**power * factor, None) for name, value in values.items()}

    def expected(values: Any, power: int, factor: Any) -> Any:
        return {name: (jnp.asarray(v**power * factor), None) for name, v in values.items()}

    for values, power, factor in (
        ({"a": X}, 2, 3.0), ({"a": X, "b": X[:2]}, 2, 3.0), ({"a": X}, 3, 0.5),
    ):  # fmt: skip
        assert_equal(scaled(values, power, factor=factor), expected(values, power, factor))


def test_a_compiled_function_is_no_part_of_a_transformation() -> None:
    compiled = rammer_mlir.jax.jit(lambda x: jnp.sum(x * x))
    with pytest.raises(UnsupportedError, match=r"compile the transformed function.*jit\(jax\.grad"):
        jax.grad(compiled)(X)


def test_no_specializations_are_refused() -> None:
    with pytest.raises(OptionError, match="specializations: expected an integer of at least 1"):
        rammer_mlir.jax.jit(jnp.sin, specializations=0)


@pytest.mark.parametrize(
    "function",
    [lambda x: jax.pure_callback(np.sin, x, x), lambda x: jnp.linalg.cholesky(x.T @ x)],
    ids=["callback", "custom call"],
)
def test_refused_in_a_line(function: Callable[[Any], Any]) -> None:
    with pytest.raises(RammerError, match="expected") as caught:
        rammer_mlir.jax.jit(function)(X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8, jnp.bool_])
def test_large_results_are_not_copied(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAX array of a large result has the memory that the run wrote, whatever the dtype."""
    written: list[int] = []
    run = Executable.run

    def recorded(self: Executable, feeds: Any, out: Any = None) -> dict[str, Any]:
        found = run(self, feeds, out)
        written.extend(address_of(array) for array in found.values())
        return found

    monkeypatch.setattr(Executable, "run", recorded)
    x = (np.arange(1 << 17) % 3).astype(dtype)
    result = rammer_mlir.jax.jit(lambda x: jnp.flip(x))(x)
    assert written == [result.unsafe_buffer_pointer()]
    np.testing.assert_array_equal(np.asarray(result), x[::-1])


@pytest.mark.parametrize("size", [10, 300])
def test_jax_checks_results_for_nan(size: int) -> None:
    compiled = rammer_mlir.jax.jit(lambda x: x / x)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        compiled(np.zeros((size, size), np.float32))


def test_large_and_small_results_are_distributed_alike() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    compiled = rammer_mlir.jax.jit(lambda x: (x + x, x[:2]))
    with jax.set_mesh(mesh):
        large, small = compiled(np.zeros((300, 300), np.float32))
    assert large.sharding == small.sharding == jnp.asarray(0.0, device=small.sharding).sharding


def test_results_that_are_keys_of_random_numbers() -> None:
    def parts(key: Any) -> tuple[Any, Any]:
        return key, jax.random.split(key, 3)

    for name in ("threefry2x32", "rbg"):
        key = jax.random.key(5, impl=name)
        for found, expected in zip(
            rammer_mlir.jax.jit(parts)(key), jax.jit(parts)(key), strict=True
        ):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(expected))


def test_reductions_over_no_dimension() -> None:
    def sums(x: Any, y: Any) -> Any:
        return jnp.sum(x), jax.lax.reduce(y, 0.0, jax.lax.add, ()), jnp.max(x * 2)

    arguments = np.float32(2), np.array([4, 5], np.float32)
    assert_equal(rammer_mlir.jax.jit(sums)(*arguments), jax.jit(sums)(*arguments))


def test_static_arguments_may_be_left_out_or_named() -> None:
    def scaled(x: Any, n: Any = 3) -> Any:
        return x * n

    ours = rammer_mlir.jax.jit(scaled, static_argnums=1)
    x = np.ones(2, np.int32)
    for given, named in (
        ((), {}),
        ((), {"n": 4}),
        ((5,), {}),
        ((2,), {}),
        ((2.0,), {}),
        ((), {"n": 4.0}),
    ):
        assert_equal(ours(x, *given, **named), scaled(jnp.asarray(x), *given, **named))
    last = rammer_mlir.jax.jit(scaled, static_argnums=-1)
    assert_equal(last(x, 7), scaled(jnp.asarray(x), 7))


def test_arguments_of_equal_numbers_and_other_types_are_compiled_each() -> None:
    half = np.ones(3, np.float16)
    ours, theirs = (jit(lambda x, y: x * y) for jit in (rammer_mlir.jax.jit, jax.jit))
    for factor in (2.0, np.float64(2.0), np.float32(2.0), 2, np.int32(2)):
        assert_equal(ours(half, factor), theirs(half, factor))
    same = rammer_mlir.jax.jit(lambda key: key)
    keys = [jax.random.key(0), jax.random.key(1, impl="rbg"), jax.random.key(2, impl="unsafe_rbg")]
    for key in (*map(jax.random.key_data, keys), *keys):
        assert same(key).dtype == key.dtype


def test_types_within_static_arguments_count() -> None:
    def scaled(x: Any, y: Any) -> Any:
        return x * y[0], 1.0 / jnp.float32(y[0])

    ours = rammer_mlir.jax.jit(scaled, static_argnums=1)
    x = jnp.arange(1, 4, dtype=jnp.int32)
    for static in ((1,), (1.0,), (True,), (0.0,), (-0.0,)):
        assert_equal(ours(x, static), scaled(x, static))
        assert_equal(ours(x, y=static), scaled(x, static))


def test_settings_of_jax_distinguish_compiled_functions() -> None:
    ours = rammer_mlir.jax.jit(lambda x: x.astype(float) / 3)
    x = np.ones(2, np.float32)
    assert ours(x).dtype == jnp.float32
    with jax.enable_x64(True):
        assert ours(x).dtype == jnp.float64
    assert ours(x).dtype == jnp.float32


def test_arrays_of_jax_receive_no_outputs() -> None:
    lowered = jax.jit(lambda x: x + 1).lower(np.zeros(4, np.float32))
    with rammer_mlir.compile(lowered) as compiled:
        given = jnp.zeros(4)
        feeds = {compiled.input_names[0]: np.ones(4, np.float32)}
        with pytest.raises(InputError, match="arrays never change"):
            compiled.run(feeds, out={"result0": given})
        np.testing.assert_array_equal(given, np.zeros(4))
