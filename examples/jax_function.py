"""Compile a function of JAX and its gradient, and train with them.

Usage: python examples/jax_function.py (needs pip install "rammer-mlir[jax]")
"""

import jax
import jax.numpy as jnp
import numpy as np

import rammer_mlir
import rammer_mlir.jax

random = np.random.default_rng(0)
parameters = {
    "hidden": random.standard_normal((8, 32), np.float32) / 3,
    "out": random.standard_normal((32, 1), np.float32) / 6,
}
x = random.standard_normal((64, 8), np.float32)
y = np.sin(x.sum(1, keepdims=True))


def predict(parameters: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Return a number for each row."""
    return jnp.tanh(x @ parameters["hidden"]) @ parameters["out"]


def loss(parameters: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    return jnp.mean((predict(parameters, x) - y) ** 2)


# Compiled for the shapes of its first call, as jax.jit does it.
step = rammer_mlir.jax.jit(jax.value_and_grad(loss), policy="wavefront")
for number in range(50):
    value, gradient = step(parameters, x, y)
    if number % 10 == 0:
        print(f"step {number}: loss {value:.4f}")
    parameters = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)

# A lowered JAX function is a model, too: it takes and returns arrays by name, and can be saved.
executable = rammer_mlir.compile(jax.jit(predict).lower(parameters, x))
found = executable.run({"arg0": parameters["hidden"], "arg1": parameters["out"], "arg2": x})
print("difference from JAX:", np.abs(found["result0"] - predict(parameters, x)).max())
