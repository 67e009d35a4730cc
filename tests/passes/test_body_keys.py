"""Tests that the key of an operation's body tells apart the regions within the body."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.contraction import body_key
from rammer_mlir.passes.ir.structured import is_generic

_GENERIC = """
  %r{number} = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %g = arith.cmpf ogt, %a, %z : f32
    %v = scf.if %g -> f32 {{
      %t = arith.{operator} %a, %a : f32
      scf.yield %t : f32
    }} else {{
      scf.yield {otherwise} : f32
    }}
    linalg.yield %v : f32
  }} -> tensor<8xf32>"""


def test_regions_within_bodies_count_without_names() -> None:
    """Equal bodies at different places of a function have equal keys, other bodies do not."""
    bodies = [("addf", "%z"), ("addf", "%z"), ("mulf", "%z"), ("addf", "%a"), ("addf", "%o")]
    generics = "".join(
        _GENERIC.format(number=number, operator=operator, otherwise=value)
        for number, (operator, value) in enumerate(bodies)
    )
    with ir.Context():
        module = ir.Module.parse(f"""#id = affine_map<(i) -> (i)>
          func.func @f(%x: tensor<8xf32>, %e: tensor<8xf32>, %z: f32) {{ {generics}\n return }}""")
        block = module.body.operations[0].operation.regions[0].blocks[0]
        first, same, *others = [body_key(op) for op in block.operations if is_generic(op)]
        assert first == same
        assert len({first, *others}) == 4
