// Floats of at most 8 bits, and integers of widths that no memory has.

func.func @sums_and_products(%a: tensor<40xf8E4M3FN>, %b: tensor<40xf8E4M3FN>, %c: tensor<40xf8E5M2>) -> (tensor<40xf8E4M3FN>, tensor<40xf8E4M3FN>, tensor<40xf8E5M2>) {
  %0 = arith.addf %a, %b : tensor<40xf8E4M3FN>
  %1 = arith.mulf %0, %b : tensor<40xf8E4M3FN>
  %2 = arith.mulf %c, %c : tensor<40xf8E5M2>
  return %0, %1, %2 : tensor<40xf8E4M3FN>, tensor<40xf8E4M3FN>, tensor<40xf8E5M2>
}

func.func @rounded_between(%a: tensor<40xf32>) -> tensor<40xf32> {
  %0 = stablehlo.convert %a : (tensor<40xf32>) -> tensor<40xf8E5M2>
  %1 = stablehlo.convert %0 : (tensor<40xf8E5M2>) -> tensor<40xf32>
  return %1 : tensor<40xf32>
}

func.func @product(%a: tensor<5x12xf8E4M3FN>, %b: tensor<12x6xf8E4M3FN>) -> tensor<5x6xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<5x12xf8E4M3FN>, tensor<12x6xf8E4M3FN>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}

func.func @constants(%a: tensor<4xf4E2M1FN>) -> (tensor<4xf4E2M1FN>, tensor<3xf8E8M0FNU>, tensor<3xi4>, tensor<2xi24>) {
  %0 = arith.constant dense<[0.5, -1.0, 2.0, 6.0]> : tensor<4xf4E2M1FN>
  %1 = arith.addf %0, %a : tensor<4xf4E2M1FN>
  %2 = arith.constant dense<[1.0, 4.0, 0.5]> : tensor<3xf8E8M0FNU>
  %3 = arith.constant dense<[7, -8, 3]> : tensor<3xi4>
  %4 = arith.constant dense<[-7, 8000000]> : tensor<2xi24>
  return %1, %2, %3, %4 : tensor<4xf4E2M1FN>, tensor<3xf8E8M0FNU>, tensor<3xi4>, tensor<2xi24>
}

func.func @bits(%a: tensor<8xf8E4M3FNUZ>) -> (tensor<8xi8>, tensor<8xf8E4M3FNUZ>) {
  %0 = arith.bitcast %a : tensor<8xf8E4M3FNUZ> to tensor<8xi8>
  %1 = arith.constant dense<3> : tensor<8xi8>
  %2 = arith.xori %0, %1 : tensor<8xi8>
  %3 = arith.bitcast %2 : tensor<8xi8> to tensor<8xf8E4M3FNUZ>
  return %0, %3 : tensor<8xi8>, tensor<8xf8E4M3FNUZ>
}

func.func @scalar(%s: f8E4M3FN, %t: tensor<6xf8E4M3FN>) -> (f8E4M3FN, tensor<6xf8E4M3FN>) {
  %i = arith.constant 2 : index
  %e = tensor.extract %t[%i] : tensor<6xf8E4M3FN>
  %0 = arith.addf %s, %e : f8E4M3FN
  %1 = tensor.insert %0 into %t[%i] : tensor<6xf8E4M3FN>
  return %0, %1 : f8E4M3FN, tensor<6xf8E4M3FN>
}

func.func @long_loop(%a: tensor<4xf8E4M3FN>, %d: f8E4M3FN) -> tensor<4xf8E4M3FN> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 100 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf8E4M3FN> {
    %e = tensor.extract %x[%c1] : tensor<4xf8E4M3FN>
    %0 = arith.addf %e, %d : f8E4M3FN
    %1 = tensor.insert %0 into %x[%c1] : tensor<4xf8E4M3FN>
    scf.yield %1 : tensor<4xf8E4M3FN>
  }
  return %r : tensor<4xf8E4M3FN>
}

func.func @largest(%a: tensor<7x9xf8E5M2>) -> tensor<7xf8E5M2> {
  %z = stablehlo.constant dense<0xFC> : tensor<f8E5M2>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<7x9xf8E5M2>, tensor<f8E5M2>) -> tensor<7xf8E5M2>
  return %0 : tensor<7xf8E5M2>
}

func.func @wrapped_integers(%a: tensor<30xi4>, %b: tensor<30xi4>) -> (tensor<30xi4>, tensor<30xi32>) {
  %0 = arith.addi %a, %b : tensor<30xi4>
  %1 = arith.muli %0, %0 : tensor<30xi4>
  %2 = arith.extsi %1 : tensor<30xi4> to tensor<30xi32>
  return %0, %2 : tensor<30xi4>, tensor<30xi32>
}

func.func @unsigned_integers(%a: tensor<30xui4>, %b: tensor<30xui4>) -> tensor<30xui4> {
  %0 = stablehlo.multiply %a, %b : tensor<30xui4>
  %1 = stablehlo.add %0, %b : tensor<30xui4>
  return %1 : tensor<30xui4>
}

func.func @dequantized(%a: tensor<16x8xi2>, %s: tensor<16xf32>) -> tensor<16x8xf32> {
  %e = tensor.empty() : tensor<16x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, %s : tensor<16x8xi2>, tensor<16xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%x: i2, %f: f32, %o: f32):
    %1 = arith.sitofp %x : i2 to f32
    %2 = arith.mulf %1, %f : f32
    linalg.yield %2 : f32
  } -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

func.func @odd_widths(%a: tensor<12xi24>, %b: tensor<12xi5>) -> (tensor<12xi24>, tensor<12xi5>) {
  %c = arith.constant dense<4194304> : tensor<12xi24>
  %0 = arith.muli %a, %c : tensor<12xi24>
  %k = arith.constant dense<15> : tensor<12xi5>
  %1 = arith.addi %b, %k : tensor<12xi5>
  return %0, %1 : tensor<12xi24>, tensor<12xi5>
}
