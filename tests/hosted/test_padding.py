"""Tests that sizes that depend on data are padded to a few sizes.

Few programs are then compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.host_program import Compute
from rammer_mlir.programs.padding import PaddedInput, PaddedOutput, Padding
from tests.hosted.hosted_checks import floats, hosted, model_of

SELECT = """
  at = NonZero(keep)  all = Constant<value_ints = [-1]>()  flat = Reshape(at, all)
  rows = Gather(x, flat) """
"""Nodes that select rows of x [40, 6] by data."""

ROWS = {
    "product": "y = MatMul(rows, w)",
    "elementwise": "z = MatMul(rows, w)  e = Exp(z)  y = Add(z, e)",
    "softmax": "z = MatMul(rows, w)  y = Softmax<axis = 1>(z)",
    "columns_summed": """z = MatMul(rows, w)  one = Constant<value_ints = [1]>()
      y = ReduceSum<keepdims = 1>(z, one)""",
    "columns_sorted": """z = MatMul(rows, w)  three = Constant<value_ints = [3]>()
      y, i = TopK<axis = 1>(z, three)""",
    "transposed": "z = MatMul(rows, w)  t = Transpose(z)  e = Tanh(t)  y = Transpose(e)",
    "gemm": "y = Gemm<transB = 0>(rows, w)",
    "reshaped": """z = MatMul(rows, w)  s = Constant<value_ints = [-1, 4]>()  q = Reshape(z, s)
      e = Softmax<axis = 1>(q)  y = Relu(e)""",
    "reshaped_by_sizes": """z = MatMul(rows, w)  n = Shape<start = 0, end = 1>(rows)
      four = Constant<value_ints = [2, 4]>()  s = Concat<axis = 0>(n, four)  q = Reshape(z, s)
      e = Softmax<axis = 2>(q)  two = Constant<value_ints = [-1, 8]>()  y = Reshape(e, two)""",
    "columns_joined": "z = MatMul(rows, w)  c = Concat<axis = 1>(z, rows, z)  y = Sigmoid(c)",
    "columns_cut": """z = MatMul(rows, w)  one = Constant<value_ints = [1]>()
      b = Constant<value_ints = [2]>()  e = Constant<value_ints = [7]>()
      c = Slice(z, b, e, one)  y = Sigmoid(c)""",
    "filled": """z = MatMul(rows, w)  n = Shape<start = 0, end = 1>(rows)
      three = Constant<value_ints = [3]>()  s = Concat<axis = 0>(n, three)
      f = ConstantOfShape<value = float[1] {2}>(s)  y = Concat<axis = 1>(f, z)""",
    "expanded": """z = MatMul(rows, w)  s = Shape(z)  b = Constant<value_floats = [0.5]>()
      e = Expand(b, s)  y = Mul(e, z)""",
    "convolution": """s = Constant<value_ints = [-1, 1, 2, 3]>()  i = Reshape(rows, s)
      k = Constant<value = float[2,1,2,2] {1,2,3,4,5,6,7,8}>()  c = Conv(i, k)
      y = Flatten(c)""",
    "batched_products": """s = Constant<value_ints = [-1, 2, 3]>()  q = Reshape(rows, s)
      t = Transpose<perm = [0, 2, 1]>(q)  m = MatMul(q, t)  y = Flatten(m)""",
    "back_to_rows": """c = Constant<value_int = 0>()  column = Gather<axis = 1>(rows, c)
      limit = Constant<value_float = 0.0>()  some = Greater(column, limit)  at2 = NonZero(some)
      flat2 = Reshape(at2, all)  sub = Gather(rows, flat2)  z = MatMul(sub, w)
      n = Shape<start = 0, end = 1>(rows)  eight = Constant<value_ints = [8]>()
      s = Concat<axis = 0>(n, eight)  f = ConstantOfShape(s)
      col = Constant<value_ints = [-1, 1]>()  r = Reshape(flat2, col)  sz = Shape(z)
      i = Expand(r, sz)  y = ScatterElements<axis = 0>(f, i, z)""",
    "numbered": """z = MatMul(rows, w)  n = Shape<start = 0, end = 1>(z)
      sc = Constant<value_ints = [0]>()  k = Squeeze(n, sc)  a = Constant<value_int = 0>()
      b = Constant<value_int = 1>()  r = Range(a, k, b)  f = Cast<to = 1>(r)
      c = Constant<value_ints = [1]>()  col = Unsqueeze(f, c)  y = Add(z, col)""",
}  # fmt: skip
"""Nodes that compute each row of the result from a single row, by name."""

TOGETHER = {
    "rows_summed": """z = MatMul(rows, w)  zero = Constant<value_ints = [0]>()
      y = ReduceSum<keepdims = 1>(z, zero)""",
    "rows_of_softmax": "z = MatMul(rows, w)  y = Softmax<axis = 0>(z)",
    "rows_sorted": """z = MatMul(rows, w)  k = Constant<value_ints = [1]>()
      y, i = TopK<axis = 0>(z, k)""",
    "rows_multiplied": "t = Transpose(rows)  y = MatMul(t, rows)",
    "rows_accumulated": "z = MatMul(rows, w)  a = Constant<value_int = 0>()  y = CumSum(z, a)",
    "mean_by_size": """z = MatMul(rows, w)  n = Shape<start = 0, end = 1>(z)  f = Cast<to = 1>(n)
      y = Div(z, f)""",
    "reversed": """z = MatMul(rows, w)  b = Constant<value_ints = [-1]>()
      e = Constant<value_ints = [-1000]>()  a = Constant<value_ints = [0]>()
      q = Slice(z, b, e, a, b)  y = Relu(q)""",
    "shifted": """z = MatMul(rows, w)  b = Constant<value_ints = [1]>()
      e = Constant<value_ints = [1000]>()  a = Constant<value_ints = [0]>()
      q = Slice(z, b, e, a)  y = Relu(q)""",
    "joined": """z = MatMul(rows, w)  q = MatMul(x, w)  y = Concat<axis = 0>(z, q)""",
    "last_row": """z = MatMul(rows, w)  last = Constant<value_ints = [-1]>()
      q = Gather(z, last)  y = Relu(q)""",
    "interleaved": """z = MatMul(rows, w)  t = Transpose(z)  l = Constant<value_ints = [-1]>()
      f = Reshape(t, l)  c = Constant<value_ints = [-1, 8]>()  y = Reshape(f, c)""",
}  # fmt: skip
"""Nodes whose rows depend on other rows or on the number of rows, by name."""


def _model(body: str) -> str:
    return f"(float[40,6] x, float[6,8] w, bool[40] keep) => (float[A,B] y) {{ {SELECT} {body} }}"


def _run(count: int, seed: int) -> dict[str, NDArray[np.generic]]:
    keep = np.zeros(40, np.bool_)
    keep[np.random.default_rng(seed).permutation(40)[:count]] = True
    return {"x": floats(40, 6, seed=seed), "w": floats(6, 8, seed=seed + 1), "keep": keep}


def _computes(made: HostedModel) -> list[Compute]:
    found = [step for step in made.program.steps if isinstance(step, Compute)]
    return [step for step in found if isinstance(made.parts[step.call.part], OpenModel)]


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_padded(name: str) -> None:
    """A part that runs with six numbers of rows, one of them 0, needs only two programs.

    The numbers of rows are padded to two sizes.
    """
    made = hosted(model_of(_model(ROWS[name]), 18), [_run(n, n) for n in (5, 1, 0, 7, 14, 3)])
    (compute,) = _computes(made)
    assert compute.padding is not None, compute.obstacle
    part = made.parts[compute.call.part]
    assert isinstance(part, OpenModel) and len(part.specializations) == 2
    assert "are padded" in made.summary


@pytest.mark.parametrize("name", TOGETHER)
def test_rows_that_influence_each_other_are_not_padded(name: str) -> None:
    made = hosted(model_of(_model(TOGETHER[name]), 18), [_run(n, n) for n in (5, 2)])
    (compute,) = _computes(made)
    assert compute.padding is None and compute.obstacle
    assert f"{compute.obstacle} forbids padding" in made.summary


def test_sizes_of_the_ladder() -> None:
    rows = PaddedInput("x", ((0, 0),))
    output = (PaddedOutput(((0, 0, 1),)),)
    free = Padding((rows,), output)
    assert [free.step(n) for n in (0, 1, 8, 9, 65, 97, 129)] == [8, 8, 8, 16, 96, 128, 192]
    assert free.steps() == [] and free.steps(20) == [8, 16, 32]
    bounded = Padding((rows,), output, has_spare=True, most=20)
    assert bounded.steps() == [8, 16, 21] and bounded.steps(7) == [8] and bounded.step(17) == 21


def test_values_that_must_not_be_padded() -> None:
    """Inputs with negative indices or with sizes that differ are not padded.

    Negative indices count from the end, and sizes differ where they are broadcast.
    """
    padding = Padding((PaddedInput("x", ((0, 0),)), PaddedInput("i", ((0, 0),), is_index=True)), ())
    x = np.zeros((3, 2), np.float32)
    assert padding.sizes({"x": x, "i": np.array([0, 1, 2])}) == {0: 3}
    assert padding.sizes({"x": x, "i": np.array([0, -1, 2])}) is None
    assert padding.sizes({"x": x, "i": np.array([1])}) is None


ALONE = (
    "{y} = Relu({x})",
    "{y} = MatMul({x}, square)",
    "{y} = Softmax<axis = 1>({x})",
    "a{y} = Reshape({x}, wide)  b{y} = Softmax<axis = 2>(a{y})  {y} = Reshape(b{y}, eight)",
    "a{y} = Transpose({x})  b{y} = Sigmoid(a{y})  {y} = Transpose(b{y})",
    "a{y} = Concat<axis = 1>({x}, {x})  {y} = Slice(a{y}, two, ten, one)",
    "a{y} = CumSum({x}, column)  {y} = Sub(a{y}, {x})",
    "a{y} = ReduceMax({x}, one)  {y} = Sub({x}, a{y})",
    "a{y}, b{y} = TopK<axis = 1>({x}, one)  {y} = Add({x}, a{y})",
    "a{y}, b{y} = Split<axis = 1, num_outputs = 2>({x})  {y} = Concat<axis = 1>(b{y}, a{y})",
    "a{y} = ArgMax<axis = 1>({x})  b{y} = Cast<to = 1>(a{y})  {y} = Add({x}, b{y})",
    "a{y} = Unsqueeze({x}, one)  b{y} = Tanh(a{y})  {y} = Squeeze(b{y}, one)",
    "a{y} = Shape({x})  b{y} = ConstantOfShape<value = float[1] {{2}}>(a{y})  {y} = Add({x}, b{y})",
    "a{y} = ArgMax<axis = 1, keepdims = 0>({x})  b{y} = Gather(square, a{y})  {y} = Add({x}, {x})",
)
MIXED = (
    "{y} = Softmax<axis = 0>({x})",
    "a{y} = CumSum({x}, row)  {y} = Relu(a{y})",
    "a{y} = ReduceMax({x}, none)  {y} = Sub({x}, a{y})",
    "a{y} = Transpose({x})  b{y} = MatMul(a{y}, {x})  {y} = MatMul({x}, b{y})",
    "a{y} = Size({x})  b{y} = Cast<to = 1>(a{y})  {y} = Div({x}, b{y})",
)


@pytest.mark.parametrize("seed", range(8))
def test_random_parts(seed: int) -> None:
    """The rows of random operators are padded, unless one of the operators mixes rows."""
    random = np.random.default_rng(seed)
    chosen = [str(random.choice(ALONE)) for _ in range(4)]
    if seed % 4 == 3:
        chosen[random.integers(4)] = str(random.choice(MIXED))
    names = ["z", "y0", "y1", "y2", "y"]
    nodes = [t.format(x=x, y=y) for t, x, y in zip(chosen, names, names[1:], strict=False)]
    constants = """one = Constant<value_ints = [1]>()  two = Constant<value_ints = [2]>()
      ten = Constant<value_ints = [10]>()  column = Constant<value_int = 1>()
      row = Constant<value_int = 0>()  none = Constant<value_ints = [0]>()
      eight = Constant<value_ints = [-1, 8]>()
      wide = Constant<value_ints = [-1, 2, 4]>()  wt = Transpose(w)  square = MatMul(wt, w)"""
    body = f"{constants}  z = MatMul(rows, w)  {'  '.join(nodes)}"
    made = hosted(model_of(_model(body), 18), [_run(n, n + seed) for n in (6, 1, 11)])
    (compute,) = _computes(made)
    assert (compute.padding is None) == (seed % 4 == 3), compute.obstacle or body


def test_a_branch_that_is_padded_whole() -> None:
    model = model_of(
        f"""(float[40,6] x, float[6,8] w, bool[40] keep, bool c) => (float[A,B] y) {{ {SELECT}
      y = If(c) <then_branch = t () => (u) {{ u = MatMul(rows, w) }},
                 else_branch = e () => (v) {{ v = Neg(rows) }}> }}"""
    )
    runs = [{**_run(n, n), "c": np.array(True)} for n in (5, 2, 9)]
    made = hosted(model, runs)
    then = made.parts[0]
    assert isinstance(then, HostedModel)
    (compute,) = _computes(then)
    part = then.parts[compute.call.part]
    assert isinstance(part, OpenModel) and len(part.specializations) == 2
