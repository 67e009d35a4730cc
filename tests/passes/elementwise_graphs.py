"""Graphs of elementwise operations, as programs at the `linalg` stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHAPE = "16x32"


def elementwise_graph(
    arguments: Sequence[str],
    operations: Mapping[str, Sequence[str]],
    results: Sequence[str],
    shape: str = SHAPE,
) -> str:
    """Return the MLIR text of a function of elementwise operations.

    Each operation adds its operands and multiplies the sum by 0.5.

    Args:
        arguments: names of inputs; those that begin with ``w`` are weights.
        operations: operands of each operation, by its name, in order; an operand followed by a
            prime (``a'``) is read transposed.
        results: names of the operations whose results are returned.
        shape: shape of all tensors.
    """
    tensor = f"tensor<{shape}xf32>"
    declared = ", ".join(
        f'%{name}: {tensor} {{rtask.{"constant" if name[0] == "w" else "name"} = "{name}"}}'
        for name in arguments
    )
    returned = ", ".join(f'{tensor} {{rtask.name = "result_{name}"}}' for name in results)
    body = "".join(_operation(name, used, tensor) for name, used in operations.items())
    values = ", ".join(f"%{name}" for name in results)
    types = ", ".join([tensor] * len(results))
    return f"""
#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
func.func @main({declared}) -> ({returned}) {{
  %scale = arith.constant 0.5 : f32
  %empty = tensor.empty() : {tensor}
  {body}
  return {values} : {types}
}}
"""


def _operation(name: str, used: Sequence[str], tensor: str) -> str:
    maps = ", ".join([*("#turned" if value[-1] == "'" else "#id" for value in used), "#id"])
    values = ", ".join("%" + value.rstrip("'") for value in used)
    types = ", ".join([tensor] * len(used))
    arguments = ", ".join(f"%in{n}: f32" for n in range(len(used)))
    sums = "".join(
        f"    %s{n} = arith.addf %s{n - 1}, %in{n} : f32\n" for n in range(1, len(used))
    ).replace("%s0", "%in0")
    last = f"%s{len(used) - 1}" if len(used) > 1 else "%in0"
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
      ins({values} : {types}) outs(%empty : {tensor}) {{
  ^bb0({arguments}, %out: f32):
{sums}    %r = arith.mulf {last}, %scale : f32
    linalg.yield %r : f32
  }} -> {tensor}"""
