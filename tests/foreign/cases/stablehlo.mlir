// StableHLO, which the passes of torch-mlir's bindings lower.
func.func @elementwise(%a: tensor<4x5xf32>, %b: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %s = stablehlo.subtract %a, %b : tensor<4x5xf32>
  %t = stablehlo.tanh %s : tensor<4x5xf32>
  %c = stablehlo.compare GT, %a, %b : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xi1>
  %r = stablehlo.select %c, %t, %b : tensor<4x5xi1>, tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
func.func @dot_general(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}
func.func @reduce(%a: tensor<3x7xf32>) -> tensor<3xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<3x7xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
func.func @broadcast_transpose_slice(%a: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %s = stablehlo.add %a, %w : tensor<3x4xf32>
  %t = stablehlo.transpose %s, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %r = stablehlo.slice %t [0:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
func.func @dynamic_slice(%a: tensor<5x6xf32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<2x3xf32> {
  %r = stablehlo.dynamic_slice %a, %i, %j, sizes = [2, 3] : (tensor<5x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
func.func @dynamic_update_slice(%a: tensor<5x6xf32>, %u: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<5x6xf32> {
  %r = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<5x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x6xf32>
  return %r : tensor<5x6xf32>
}
func.func @iota_and_convert() -> tensor<3x4xf32> {
  %i = stablehlo.iota dim = 1 : tensor<3x4xi32>
  %r = stablehlo.convert %i : (tensor<3x4xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}
func.func @gather(%a: tensor<7x5xf32>, %i: tensor<4x1xi32>) -> tensor<4x5xf32> {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<7x5xf32>, tensor<4x1xi32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
func.func @convolution(%x: tensor<1x6x6x2xf32>, %w: tensor<3x3x2x3xf32>) -> tensor<1x6x6x3xf32> {
  %r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x6x2xf32>, tensor<3x3x2x3xf32>) -> tensor<1x6x6x3xf32>
  return %r : tensor<1x6x6x3xf32>
}
func.func @while(%a: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %z, %x = %a) : tensor<i32>, tensor<4xf32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %o = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %o : tensor<i32>
    %y = stablehlo.cosine %x : tensor<4xf32>
    stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func @conditional(%c: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%c) ({
    %e = stablehlo.exponential %a : tensor<4xf32>
    stablehlo.return %e : tensor<4xf32>
  }, {
    %n = stablehlo.negate %a : tensor<4xf32>
    stablehlo.return %n : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @case(%c: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%c) ({
    %e = stablehlo.exponential %a : tensor<4xf32>
    stablehlo.return %e : tensor<4xf32>
  }, {
    %n = stablehlo.negate %a : tensor<4xf32>
    stablehlo.return %n : tensor<4xf32>
  }, {
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @unsigned(%a: tensor<4xui8>) -> tensor<4xi32> {
  %r = stablehlo.convert %a : (tensor<4xui8>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
func.func @scatter_add(%a: tensor<7x5xf32>, %u: tensor<3x5xf32>) -> tensor<7x5xf32> {
  %i = stablehlo.constant dense<[[1], [4], [1]]> : tensor<3x1xi32>
  %r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<7x5xf32>, tensor<3x1xi32>, tensor<3x5xf32>) -> tensor<7x5xf32>
  return %r : tensor<7x5xf32>
}
func.func @scatter_window_out_of_bounds(%a: tensor<6x5xf32>, %u: tensor<2x2xf32>) -> tensor<6x5xf32> {
  %i = stablehlo.constant dense<[[5, 1], [0, 3]]> : tensor<2x2xi32>
  %r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<6x5xf32>, tensor<2x2xi32>, tensor<2x2xf32>) -> tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}
func.func @scan(%x: tensor<6x3x8xf32>, %w: tensor<8x8xf32>, %first: tensor<3x8xf32>) -> tensor<6x3x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<6x3x8xf32>
  %r:3 = stablehlo.while(%n = %zero, %state = %first, %all = %start) : tensor<i32>, tensor<3x8xf32>, tensor<6x3x8xf32>
  cond {
    %c = stablehlo.compare LT, %n, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %slice = stablehlo.dynamic_slice %x, %n, %zero, %zero, sizes = [1, 3, 8] : (tensor<6x3x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x8xf32>
    %row = stablehlo.reshape %slice : (tensor<1x3x8xf32>) -> tensor<3x8xf32>
    %m = stablehlo.dot_general %state, %w, contracting_dims = [1] x [0] : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
    %s = stablehlo.add %m, %row : tensor<3x8xf32>
    %t = stablehlo.tanh %s : tensor<3x8xf32>
    %u = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<3x8xf32>) -> tensor<1x3x8xf32>
    %written = stablehlo.dynamic_update_slice %all, %u, %n, %zero, %zero : (tensor<6x3x8xf32>, tensor<1x3x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<6x3x8xf32>
    %next = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %next, %t, %written : tensor<i32>, tensor<3x8xf32>, tensor<6x3x8xf32>
  }
  return %r#2 : tensor<6x3x8xf32>
}
func.func @sort_with_numbers(%a: tensor<3x40xi32>) -> (tensor<3x40xi32>, tensor<3x40xi32>) {
  %n = stablehlo.iota dim = 1 : tensor<3x40xi32>
  %r:2 = "stablehlo.sort"(%a, %n) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>, %i: tensor<i32>, %j: tensor<i32>):
      %c = stablehlo.compare GT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true}
    : (tensor<3x40xi32>, tensor<3x40xi32>) -> (tensor<3x40xi32>, tensor<3x40xi32>)
  return %r#0, %r#1 : tensor<3x40xi32>, tensor<3x40xi32>
}
func.func @sort_columns_by_size(%a: tensor<700x2xf32>) -> tensor<700x2xf32> {
  %r = "stablehlo.sort"(%a) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = stablehlo.constant dense<1.0> : tensor<f32>
      %p = stablehlo.abs %x : tensor<f32>
      %q = stablehlo.abs %y : tensor<f32>
      %s = stablehlo.add %q, %z : tensor<f32>
      %t = stablehlo.add %p, %z : tensor<f32>
      %c = stablehlo.compare LT, %t, %s : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<700x2xf32>) -> tensor<700x2xf32>
  return %r : tensor<700x2xf32>
}

func.func @batch_norm_inference(%x: tensor<2x3x4xf32>, %scale: tensor<3xf32>, %offset: tensor<3xf32>, %mean: tensor<3xf32>) -> tensor<2x3x4xf32> {
  %variance = stablehlo.constant dense<[0.5, 2.0, 3.0]> : tensor<3xf32>
  %0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) {epsilon = 1.0e-3 : f32, feature_index = 1 : i64} : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

func.func @random_bits(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<10xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<10xui32>)
  return %0, %1 : tensor<2xui64>, tensor<10xui32>
}

func.func @chlo(%a: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x2xf32>, tensor<3x2xi32>) {
  %0 = chlo.asinh %a : tensor<3x8xf32> -> tensor<3x8xf32>
  %v, %i = chlo.top_k(%a, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0, %v, %i : tensor<3x8xf32>, tensor<3x2xf32>, tensor<3x2xi32>
}

func.func @truth_values(%a: tensor<40xi1>, %b: tensor<40xi1>) -> (tensor<40xi1>, tensor<40xi1>, tensor<40xi1>, tensor<i1>) {
  %0 = stablehlo.add %a, %b : tensor<40xi1>
  %1 = stablehlo.multiply %a, %b : tensor<40xi1>
  %2 = stablehlo.maximum %a, %b : tensor<40xi1>
  %z = stablehlo.constant dense<false> : tensor<i1>
  %3 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<40xi1>, tensor<i1>) -> tensor<i1>
  return %0, %1, %2, %3 : tensor<40xi1>, tensor<40xi1>, tensor<40xi1>, tensor<i1>
}

func.func @hints(%a: tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x5xf32>) {
  %0 = stablehlo.optimization_barrier %a : tensor<3x5xf32>
  %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x3xf32>
  %2 = stablehlo.constant dense<[3, 5]> : tensor<2xi32>
  %3 = stablehlo.dynamic_reshape %0, %2 : (tensor<3x5xf32>, tensor<2xi32>) -> tensor<3x5xf32>
  return %1, %3 : tensor<3x3xf32>, tensor<3x5xf32>
}

func.func @unsigned_arithmetic(%a: tensor<40xui8>, %b: tensor<40xui8>) -> (tensor<40xui8>, tensor<40xf32>, tensor<40xi1>, tensor<40xui32>, tensor<40xui8>, tensor<ui8>) {
  %c = stablehlo.constant dense<199> : tensor<40xui8>
  %d = stablehlo.constant dense<3> : tensor<40xui8>
  %x = stablehlo.add %a, %c : tensor<40xui8>
  %0 = stablehlo.divide %x, %d : tensor<40xui8>
  %1 = stablehlo.convert %x : (tensor<40xui8>) -> tensor<40xf32>
  %2 = stablehlo.compare LT, %b, %x, UNSIGNED : (tensor<40xui8>, tensor<40xui8>) -> tensor<40xi1>
  %3 = stablehlo.convert %x : (tensor<40xui8>) -> tensor<40xui32>
  %4 = stablehlo.maximum %b, %x : tensor<40xui8>
  %z = stablehlo.constant dense<0> : tensor<ui8>
  %5 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<40xui8>, tensor<ui8>) -> tensor<ui8>
  return %0, %1, %2, %3, %4, %5 : tensor<40xui8>, tensor<40xf32>, tensor<40xi1>, tensor<40xui32>, tensor<40xui8>, tensor<ui8>
}

func.func @unsigned_loop(%a: tensor<ui32>, %t: tensor<5xui32>) -> (tensor<5xui32>, tensor<ui32>) {
  %one = stablehlo.constant dense<1> : tensor<ui32>
  %n = stablehlo.constant dense<9> : tensor<ui32>
  %r:2 = stablehlo.while(%i = %a, %x = %t) : tensor<ui32>, tensor<5xui32>
  cond {
    %c = stablehlo.compare LT, %i, %n, UNSIGNED : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<ui32>
    %y = stablehlo.add %x, %t : tensor<5xui32>
    stablehlo.return %j, %y : tensor<ui32>, tensor<5xui32>
  }
  return %r#1, %r#0 : tensor<5xui32>, tensor<ui32>
}

func.func @unsigned_scatter(%a: tensor<6x3xui32>, %i: tensor<2x1xi32>, %u: tensor<2x3xui32>) -> tensor<6x3xui32> {
  %0 = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<ui32>, %y: tensor<ui32>):
    %1 = stablehlo.add %x, %y : tensor<ui32>
    stablehlo.return %1 : tensor<ui32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<6x3xui32>, tensor<2x1xi32>, tensor<2x3xui32>) -> tensor<6x3xui32>
  return %0 : tensor<6x3xui32>
}
func.func @dimension_size(%x: tensor<4x3xi32>) -> tensor<4x3xi32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4x3xi32>) -> tensor<i32>
  %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<4x3xi32>
  %r = stablehlo.multiply %x, %b : tensor<4x3xi32>
  return %r : tensor<4x3xi32>
}
