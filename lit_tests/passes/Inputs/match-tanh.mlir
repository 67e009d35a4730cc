// Annotates the loop that computes a hyperbolic tangent.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) {
    %name = transform.param.constant "toy.tanh" -> !transform.any_param
    transform.annotate %op "rtask.composite" = %name : !transform.any_op, !transform.any_param
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %tanh = transform.structured.match ops{["math.tanh"]} in %module : (!transform.any_op) -> !transform.any_op
    %loop = transform.get_parent_op %tanh {op_name = "linalg.generic"} : (!transform.any_op) -> !transform.any_op
    transform.include @mark failures(propagate) (%loop) : (!transform.any_op) -> ()
    transform.yield
  }
}
